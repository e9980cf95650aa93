//! Where the store is: the value of `store.url`, parsed and checked.
//!
//! Always true: a parsed URL names at least one server with a port, and nothing that prints one shows a password.

mod parse;

use std::fmt;

/// Which store to open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StoreUrl {
    /// `embedded:`: the engine inside this process.
    #[default]
    Embedded,
    /// `redis://[user:password@]host[:port][/database]`: one Redis or Valkey server.
    Redis {
        /// Whether and how the connection is encrypted.
        tls: StoreTls,
        /// The account to use.
        login: StoreCredentials,
        /// The server.
        server: ServerAddress,
        /// The database number.
        database: u32,
    },
    /// `redis+sentinel://[user:password@]host[:port],…/primary[/database]`: the primary that the sentinels name.
    Sentinel {
        /// Whether and how the connections are encrypted, to the sentinels too.
        tls: StoreTls,
        /// The account on the data servers; sentinels get it only if they ask for one.
        login: StoreCredentials,
        /// The sentinels.
        sentinels: Vec<ServerAddress>,
        /// The name under which the sentinels know the primary.
        primary_name: String,
        /// The database number.
        database: u32,
    },
    /// `redis+cluster://[user:password@]host[:port],…`: a Redis or Valkey Cluster.
    Cluster {
        /// Whether and how the connections are encrypted.
        tls: StoreTls,
        /// The account to use.
        login: StoreCredentials,
        /// Nodes to learn the others from.
        seeds: Vec<ServerAddress>,
    },
}

/// Encryption of the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreTls {
    /// Plain TCP.
    #[default]
    Off,
    /// TLS with a checked certificate.
    On,
    /// TLS that accepts any certificate (`#insecure` at the end of the URL).
    Insecure,
}

/// User and password.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StoreCredentials {
    /// The ACL user; none means `default`.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

/// Host and port of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerAddress {
    /// A name or an address, IPv6 without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Why a store URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// Nothing before the `:`.
    #[error(
        "store url `{0}` has no scheme: write `embedded:`, `redis://host:6379/0`, `redis+sentinel://host:26379/primary` or `redis+cluster://host:6379`"
    )]
    NoScheme(String),
    /// A scheme we do not know.
    #[error("store url has the unknown scheme `{found}`: did you mean `{suggestion}`?")]
    UnknownScheme {
        /// What was written.
        found: String,
        /// The known scheme that is nearest.
        suggestion: &'static str,
    },
    /// Something after `embedded:`.
    #[error(
        "store url `embedded:` must have nothing after the colon, found `{0}`: the folder is set by `server.data`"
    )]
    EmbeddedWithPath(String),
    /// No host where one belongs.
    #[error("store url has no host: write `{scheme}://host:{port}`")]
    MissingHost {
        /// The scheme of the URL.
        scheme: String,
        /// The usual port.
        port: u16,
    },
    /// A port that is no number between 1 and 65535.
    #[error("store url has {0}: a port is a number between 1 and 65535")]
    InvalidPort(String),
    /// A database that is no number.
    #[error("store url has the database `{0}`: a database is a number such as 0")]
    InvalidDatabase(String),
    /// A Sentinel URL that does not name its primary.
    #[error(
        "store url does not name the primary: write `{0}://host:26379/primary`, with the name that the sentinels use"
    )]
    MissingPrimaryName(String),
    /// Several hosts where one belongs.
    #[error(
        "store url names several hosts: write `{0}+cluster://` for a Cluster or `{0}+sentinel://` for sentinels"
    )]
    SeveralHosts(String),
    /// Something that no URL of this scheme has.
    #[error("store url ends in `{found}`, which `{scheme}` does not allow: {hint}")]
    UnexpectedPart {
        /// The part in question.
        found: String,
        /// The scheme of the URL.
        scheme: String,
        /// What to do.
        hint: &'static str,
    },
    /// One word before the `@`: a user or a password?
    #[error(
        "store url has credentials without `:`: write `{0}://user:password@host`, or `{0}://:password@host` without a user"
    )]
    InvalidCredentials(String),
    /// A broken `%` sequence in user or password.
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
                login,
                server,
                database,
            } => (tls, format!("://{login}{server}/{database}")),
            Self::Sentinel {
                tls,
                login,
                sentinels,
                primary_name: primary,
                database,
            } => (
                tls,
                format!(
                    "+sentinel://{login}{}/{primary}/{database}",
                    list(sentinels)
                ),
            ),
            Self::Cluster { tls, login, seeds } => {
                (tls, format!("+cluster://{login}{}", list(seeds)))
            }
        };
        let (scheme, mark) = match tls {
            StoreTls::Off => ("redis", ""),
            StoreTls::On => ("rediss", ""),
            StoreTls::Insecure => ("rediss", "#insecure"),
        };
        write!(f, "{scheme}{rest}{mark}")
    }
}
