//! Options to open a store, and the errors of opening one.

use std::path::PathBuf;
use std::time::Duration;

use parlor_embedded::ManualClock;

use crate::script::LuaScript;
use crate::url::StoreUrl;

/// Options to open a [`Store`](crate::Store). The default is the embedded engine without a data folder.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// URL of the store. Default: `embedded:`.
    pub url: StoreUrl,
    /// Data folder of the embedded engine. Default: none, and the data is lost when the process ends.
    pub data_folder: Option<PathBuf>,
    /// Time limit of one request, all its attempts included. Default: 1 second.
    pub request_timeout: Duration,
    /// Multiplexed connections to each server. Default: 1.
    pub connections_per_server: usize,
    /// Prefix of this crate's own key, `parlor:epoch`. Default: empty.
    pub key_prefix: String,
    /// Scripts that are loaded on each new connection. Any other script is loaded when it is first called. Default:
    /// none.
    pub scripts: Vec<&'static LuaScript>,
    /// PEM file of the certificate authority to trust instead of the system's.
    pub ca_cert: Option<PathBuf>,
    /// PEM file of the client certificate. Requires `client_key`.
    pub client_cert: Option<PathBuf>,
    /// PEM file of the client's private key. Requires `client_cert`.
    pub client_key: Option<PathBuf>,
    /// Embedded engine only: rejects scripts that use undeclared keys or keys of two slots, and commands newer than
    /// Redis 6.2. Default: off.
    pub strict: bool,
    /// Opens the store read-only: this crate writes nothing of its own, not even `parlor:epoch`. The embedded engine
    /// then loads the last flushed state of `data_folder`, which another process may have open, and rejects writes.
    /// Default: off.
    pub read_only: bool,
    /// For tests: a clock that the test moves. Default: the server's time.
    pub clock: Option<ManualClock>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            url: StoreUrl::Embedded,
            data_folder: None,
            request_timeout: Duration::from_secs(1),
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
    /// Options with this URL and otherwise the defaults.
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
    /// The server is unreachable or does not answer in time. A later attempt may succeed.
    #[error("store {url} cannot be reached: {source}")]
    Unreachable {
        /// URL of the store, without its password.
        url: String,
        /// The error.
        source: redis::RedisError,
    },
    /// The server rejects the user or the password.
    #[error("store {url} rejected the login, check user and password: {source}")]
    AuthenticationFailed {
        /// URL of the store, without its password.
        url: String,
        /// Error reply of the server.
        source: redis::RedisError,
    },
    /// The server answers, but it is not what the URL says, or the options do not fit together.
    #[error("store {url} cannot be used: {reason}")]
    Misconfigured {
        /// URL of the store, without its password.
        url: String,
        /// The problem, and what to do.
        reason: String,
    },
    /// A certificate or key file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    UnreadableFile {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// The embedded engine cannot be opened.
    #[error(transparent)]
    Embedded(#[from] parlor_embedded::EngineOpenError),
}
