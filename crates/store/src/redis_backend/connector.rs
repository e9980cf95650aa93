//! Opens connections to single servers: TLS and authentication.
//!
//! Invariants:
//! 1. A connection has TCP_NODELAY, has no request timeout of the redis crate's own, and was established within
//!    `connect_timeout`.

use std::time::Duration;

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates,
    io::tcp::TcpSettings,
};

use crate::options::{StoreOpenError, StoreOptions};
use crate::url::{ServerAddress, StoreCredentials, StoreTls};

/// Minimum of the connect timeout, however short the request timeout is.
const MIN_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Requests that may wait for the task of a connection.
const MAX_PIPELINED_REQUESTS: usize = 1_024;

/// Opens connections with TLS and credentials.
#[derive(Clone)]
pub(crate) struct ServerConnector {
    tls: StoreTls,
    certificates: TlsCertificates,
    credentials: StoreCredentials,
    database: u32,
    connect_timeout: Duration,
}

impl ServerConnector {
    pub(crate) fn new(
        options: &StoreOptions,
        tls: StoreTls,
        credentials: &StoreCredentials,
        database: u32,
    ) -> Result<Self, StoreOpenError> {
        let read = |path: &std::path::PathBuf| {
            std::fs::read(path).map_err(|source| StoreOpenError::UnreadableFile {
                path: path.clone(),
                source,
            })
        };
        let root_cert = options.ca_cert.as_ref().map(read).transpose()?;
        let client_tls = match (&options.client_cert, &options.client_key) {
            (Some(cert), Some(key)) => Some(ClientTlsConfig {
                client_cert: read(cert)?,
                client_key: read(key)?,
            }),
            (None, None) => None,
            _ => {
                return Err(StoreOpenError::Misconfigured {
                    url: options.url.to_string(),
                    reason: "`client_cert` and `client_key` go together: set both or none"
                        .to_owned(),
                });
            }
        };
        if tls != StoreTls::Off {
            // An error means that the process already has a crypto provider, which is fine.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        Ok(Self {
            tls,
            certificates: TlsCertificates {
                client_tls,
                root_cert,
            },
            credentials: credentials.clone(),
            database,
            connect_timeout: options.request_timeout.max(MIN_CONNECT_TIMEOUT),
        })
    }

    /// The same connector without credentials, for database 0.
    pub(crate) fn without_credentials(&self) -> Self {
        Self {
            credentials: StoreCredentials::default(),
            database: 0,
            ..self.clone()
        }
    }

    /// The same connector for database 0.
    pub(crate) fn without_database(&self) -> Self {
        Self {
            database: 0,
            ..self.clone()
        }
    }

    /// Time limit for connecting and for a heartbeat.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    pub(crate) fn has_credentials(&self) -> bool {
        self.credentials.password.is_some()
    }

    /// Opens a connection for commands. It uses RESP2, so that replies have the same shape on every server and on the
    /// embedded engine.
    pub(crate) async fn connect(
        &self,
        server: &ServerAddress,
    ) -> RedisResult<MultiplexedConnection> {
        self.connect_with(server, ProtocolVersion::RESP2, self.config())
            .await
    }

    /// Opens a connection for pub/sub, which passes published messages to `push`.
    pub(crate) async fn connect_pubsub(
        &self,
        server: &ServerAddress,
        push: impl AsyncPushSender,
    ) -> RedisResult<MultiplexedConnection> {
        self.connect_with(
            server,
            ProtocolVersion::RESP3,
            self.config().set_push_sender(push),
        )
        .await
    }

    fn config(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(MAX_PIPELINED_REQUESTS)
    }

    async fn connect_with(
        &self,
        server: &ServerAddress,
        protocol: ProtocolVersion,
        config: AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let (host, port) = (server.host.clone(), server.port);
        let addr = match self.tls {
            StoreTls::Off => ConnectionAddr::Tcp(host, port),
            tls => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: tls == StoreTls::Insecure,
                tls_params: None,
            },
        };
        let mut settings = RedisConnectionInfo::default()
            .set_db(self.database.into())
            .set_protocol(protocol)
            .set_lib_name("parlor", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &self.credentials.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.credentials.password {
            settings = settings.set_password(password);
        }
        let info = addr
            .into_connection_info()?
            .set_redis_settings(settings)
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = match self.tls {
            StoreTls::Off => Client::open(info)?,
            _ => Client::build_with_tls(info, self.certificates.clone())?,
        };
        let connect = client.get_multiplexed_async_connection_with_config(&config);
        tokio::time::timeout(self.connect_timeout, connect)
            .await
            .map_err(|_| timeout_error("could not connect in time"))?
    }
}

pub(crate) fn timeout_error(what: &'static str) -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, what).into()
}
