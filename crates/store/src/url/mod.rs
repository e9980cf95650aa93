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

/// Why a store URL is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// The URL has no scheme.
    #[error(
        "store url `{0}` has no scheme: write `embedded:`, `redis://host:6379/0`, `redis+sentinel://host:26379/primary` or `redis+cluster://host:6379`"
    )]
    NoScheme(String),
    /// The scheme is unknown.
    #[error("store url has the unknown scheme `{found}`: did you mean `{suggestion}`?")]
    UnknownScheme {
        /// The scheme in the URL.
        found: String,
        /// The most similar known scheme.
        suggestion: &'static str,
    },
    /// `embedded:` is followed by other text.
    #[error(
        "store url `embedded:` must have nothing after the colon, found `{0}`: the folder is set by `server.data`"
    )]
    EmbeddedWithPath(String),
    /// The URL has no host.
    #[error("store url has no host: write `{scheme}://host:{port}`")]
    MissingHost {
        /// Scheme of the URL.
        scheme: String,
        /// Default port of the scheme.
        port: u16,
    },
    /// A port is not a number between 1 and 65535.
    #[error("store url has {0}: a port is a number between 1 and 65535")]
    InvalidPort(String),
    /// The database is not a number.
    #[error("store url has the database `{0}`: a database is a number such as 0")]
    InvalidDatabase(String),
    /// A Sentinel URL does not name its primary.
    #[error(
        "store url does not name the primary: write `{0}://host:26379/primary`, with the name that the sentinels use"
    )]
    MissingPrimaryName(String),
    /// The URL has several hosts, but its scheme allows one.
    #[error(
        "store url names several hosts: write `{0}+cluster://` for a Cluster or `{0}+sentinel://` for sentinels"
    )]
    SeveralHosts(String),
    /// The URL has a part that its scheme does not allow.
    #[error("store url ends in `{found}`, which `{scheme}` does not allow: {hint}")]
    UnexpectedPart {
        /// The unexpected part.
        found: String,
        /// Scheme of the URL.
        scheme: String,
        /// How to fix the URL.
        hint: &'static str,
    },
    /// The text before the `@` has no `:`, so it is not clear whether it is a user or a password.
    #[error(
        "store url has credentials without `:`: write `{0}://user:password@host`, or `{0}://:password@host` without a user"
    )]
    InvalidCredentials(String),
    /// The user or the password has an invalid `%` sequence.
    #[error(
        "store url has an invalid `%` sequence in its user or password: write `%25` for a percent sign"
    )]
    InvalidPercentEncoding,
}

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
            hosts
                .iter()
                .map(ServerAddress::to_string)
                .collect::<Vec<_>>()
                .join(",")
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
