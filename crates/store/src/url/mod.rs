//! The value of `store.url`, parsed and checked.
//!
//! Invariants:
//! 1. A parsed URL of a server store names at least one server with a port.
//! 2. No output of a URL or of an error about a URL contains a password.

mod parse;

use std::fmt;

/// URL of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StoreUrl {
    /// `embedded:`: the engine inside this process.
    #[default]
    Embedded,
    /// `redis://[user:password@]host[:port][/database]`: one Redis or Valkey server.
    Redis {
        /// TLS mode of the connection.
        tls: StoreTls,
        /// User and password.
        credentials: StoreCredentials,
        /// The server.
        server: ServerAddress,
        /// Database number.
        database: u32,
    },
    /// `redis+sentinel://[user:password@]host[:port],…/primary[/database]`: the primary that the sentinels name.
    Sentinel {
        /// TLS mode of all connections, including connections to the sentinels.
        tls: StoreTls,
        /// User and password of the data servers. Sentinels get them only if they require authentication.
        credentials: StoreCredentials,
        /// The sentinels.
        sentinels: Vec<ServerAddress>,
        /// Name of the primary at the sentinels.
        primary_name: String,
        /// Database number.
        database: u32,
    },
    /// `redis+cluster://[user:password@]host[:port],…`: a Redis or Valkey Cluster.
    Cluster {
        /// TLS mode of the connections.
        tls: StoreTls,
        /// User and password.
        credentials: StoreCredentials,
        /// Nodes from which the topology is learned.
        seeds: Vec<ServerAddress>,
    },
}

/// TLS mode of the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreTls {
    /// Plain TCP.
    #[default]
    Off,
    /// TLS with a verified certificate.
    On,
    /// TLS that accepts any certificate (`#insecure` at the end of the URL).
    Insecure,
}

/// User and password.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StoreCredentials {
    /// ACL user. `None` means `default`.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

/// Host and port of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerAddress {
    /// Host name or IP address. IPv6 addresses have no brackets here.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Why a store URL is invalid: the text says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("store url {0}")]
pub struct StoreUrlError(String);

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for StoreCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.user, &self.password) {
            (None, None) => Ok(()),
            (user, password) => {
                let password = password.as_ref().map_or("", |_| ":***");
                write!(f, "{}{password}@", user.as_deref().unwrap_or(""))
            }
        }
    }
}

impl fmt::Debug for StoreCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreCredentials({self})")
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |hosts: &[ServerAddress]| {
            let hosts: Vec<_> = hosts.iter().map(ServerAddress::to_string).collect();
            hosts.join(",")
        };
        let (tls, rest) = match self {
            Self::Embedded => return f.write_str("embedded:"),
            Self::Redis {
                tls,
                credentials,
                server,
                database,
            } => (tls, format!("://{credentials}{server}/{database}")),
            Self::Sentinel {
                tls,
                credentials,
                sentinels,
                primary_name,
                database,
            } => (
                tls,
                format!(
                    "+sentinel://{credentials}{}/{primary_name}/{database}",
                    list(sentinels)
                ),
            ),
            Self::Cluster {
                tls,
                credentials,
                seeds,
            } => (tls, format!("+cluster://{credentials}{}", list(seeds))),
        };
        let (scheme, mark) = match tls {
            StoreTls::Off => ("redis", ""),
            StoreTls::On => ("rediss", ""),
            StoreTls::Insecure => ("rediss", "#insecure"),
        };
        write!(f, "{scheme}{rest}{mark}")
    }
}
