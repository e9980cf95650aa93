//! Connections to single servers: TLS, authentication, and the first requests on each new connection.
//!
//! Invariants:
//! 1. A connection has TCP_NODELAY, has no request timeout of the redis crate's own, and was established within
//!    `connect_timeout`.

use std::time::Duration;

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates, Value,
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
    login: StoreCredentials,
    database: u32,
    patience: Duration,
}

impl ServerConnector {
    pub(crate) fn new(
        options: &StoreOptions,
        tls: StoreTls,
        login: &StoreCredentials,
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
            login: login.clone(),
            database,
            patience: options.timeout.max(MIN_CONNECT_TIMEOUT),
        })
    }

    /// The same connector without credentials, for database 0.
    pub(crate) fn without_credentials(&self) -> Self {
        Self {
            login: StoreCredentials::default(),
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
        self.patience
    }

    pub(crate) fn has_credentials(&self) -> bool {
        self.login.password.is_some()
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
            .set_connection_timeout(Some(self.patience))
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
        if let Some(user) = &self.login.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.login.password {
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
        tokio::time::timeout(self.patience, connect)
            .await
            .map_err(|_| timeout_error("could not connect in time"))?
    }
}

/// Builds a timeout error.
pub(crate) fn timeout_error(what: &'static str) -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, what).into()
}

/// Properties of a server as `INFO` reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// Changes with every start of the server, and with every promotion to primary without a restart. `None` if the
    /// user may not run `INFO`.
    pub(crate) incarnation: Option<String>,
    pub(crate) is_replica: bool,
    pub(crate) is_cluster_node: bool,
    /// Version, such as `redis 7.0.15` or `valkey 9.1.2`.
    pub(crate) version: String,
    /// Whether the server supports sharded pub/sub (Redis 7.0 and every Valkey).
    pub(crate) supports_sharded_pubsub: bool,
}

impl ServerInfo {
    /// Runs `INFO`. If the server rejects it, returns default values and the error text.
    pub(crate) async fn fetch(
        con: &mut MultiplexedConnection,
    ) -> RedisResult<(Self, Option<String>)> {
        let mut pipe = redis::pipe();
        pipe.cmd("INFO")
            .arg("server")
            .cmd("INFO")
            .arg("replication");
        let count = pipe.len();
        let replies = con.send_packed_commands(&pipe, 0, count).await?;
        let mut text = String::new();
        for reply in replies {
            match reply {
                Value::ServerError(error) => return Ok((Self::default(), Some(error.to_string()))),
                reply => text += &redis::from_redis_value::<String>(reply)?,
            }
        }
        Ok((Self::parse(&text), None))
    }

    fn parse(info: &str) -> Self {
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            lines
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.trim())
        };
        let redis = field("redis_version").unwrap_or("0");
        let version = match field("valkey_version") {
            Some(valkey) => format!("valkey {valkey}"),
            None => format!("redis {redis}"),
        };
        // Rises with each promotion and only then, so it shows whether a primary was a replica in the meantime.
        let promotion = field("second_repl_offset").unwrap_or("-1");
        let major = redis
            .split('.')
            .next()
            .and_then(|major| major.parse::<u32>().ok());
        Self {
            incarnation: field("run_id").map(|run_id| format!("{run_id}:{promotion}")),
            is_replica: field("role") == Some("slave"),
            is_cluster_node: field("redis_mode") == Some("cluster"),
            version,
            supports_sharded_pubsub: major.is_some_and(|major| major >= 7),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_origin_is_run_id_and_second_repl_offset() {
        let redis = "# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\nrun_id:abc\r\n# Replication\r\nrole:slave\r\nsecond_repl_offset:-1\r\n";
        let redis = ServerInfo::parse(redis);
        assert_eq!(redis.incarnation.as_deref(), Some("abc:-1"));
        assert_eq!(redis.version, "redis 6.2.14");
        assert!(redis.is_replica && !redis.is_cluster_node && !redis.supports_sharded_pubsub);

        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nredis_mode:cluster\r\nrun_id:d\r\nrole:master\r\nsecond_repl_offset:77\r\n";
        let valkey = ServerInfo::parse(valkey);
        assert_eq!(valkey.incarnation.as_deref(), Some("d:77"));
        assert_eq!(valkey.version, "valkey 9.1.2");
        assert!(!valkey.is_replica && valkey.is_cluster_node && valkey.supports_sharded_pubsub);
    }
}
