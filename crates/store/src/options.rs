//! How to open a store, and why it could not be opened.

use std::path::PathBuf;
use std::time::Duration;

use parlor_embedded::ManualClock;

use crate::script::LuaScript;
use crate::url::StoreUrl;

/// How to open a [`Store`](crate::Store). The default is the embedded engine in memory.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Which store.
    pub url: StoreUrl,
    /// The folder of the embedded store; none keeps everything in memory.
    pub data_folder: Option<PathBuf>,
    /// How long a request may take, all its tries together.
    pub timeout: Duration,
    /// Multiplexed connections to each server.
    pub connections_per_server: usize,
    /// The prefix of this crate's own key, `parlor:epoch`.
    pub key_prefix: String,
    /// Scripts loaded on each new connection; any other is loaded when it is first called.
    pub scripts: Vec<&'static LuaScript>,
    /// The certificate authority to trust (PEM) instead of the system's.
    pub ca_cert: Option<PathBuf>,
    /// The client's certificate (PEM), with `client_key`.
    pub client_cert: Option<PathBuf>,
    /// The client's key (PEM), with `client_cert`.
    pub client_key: Option<PathBuf>,
    /// Embedded only: refuse scripts that touch undeclared keys or keys of two slots, and commands newer than Redis 6.2.
    pub strict: bool,
    /// Only look: nothing of our own is written, `parlor:epoch` included. The embedded engine then shows what was last
    /// written to `data`, beside the process that has it open, and refuses writes.
    pub read_only: bool,
    /// For tests: the time, moved by hand.
    pub clock: Option<ManualClock>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            url: StoreUrl::Embedded,
            data_folder: None,
            timeout: Duration::from_secs(1),
            connections_per_server: 1,
            key_prefix: String::new(),
            scripts: Vec::new(),
            ca_cert: None,
            client_cert: None,
            client_key: None,
            strict: false,
            read_only: false,
            clock: None,
        }
    }
}

impl StoreOptions {
    /// Options for one URL, the rest as by default.
    pub fn new(url: StoreUrl) -> Self {
        Self {
            url,
            ..Self::default()
        }
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// Nobody answers there, or not in time. Trying again later may help.
    #[error("store {url} cannot be reached: {source}")]
    Unreachable {
        /// The store, without its password.
        url: String,
        /// What went wrong.
        source: redis::RedisError,
    },
    /// User or password are wrong.
    #[error("store {url} rejected the login, check user and password: {source}")]
    AuthenticationFailed {
        /// The store, without its password.
        url: String,
        /// What the server said.
        source: redis::RedisError,
    },
    /// The server is there and is not what the URL says.
    #[error("store {url} cannot be used: {reason}")]
    Misconfigured {
        /// The store, without its password.
        url: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A certificate or key cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    UnreadableFile {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The embedded engine refuses.
    #[error(transparent)]
    Embedded(#[from] parlor_embedded::EngineOpenError),
}
