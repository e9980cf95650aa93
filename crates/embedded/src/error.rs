//! Errors: those a command answers with (Redis's codes and texts), and those that stop a start.

use std::borrow::Cow;
use std::path::PathBuf;

use redis::{RedisError, Value};

/// An error reply: its first word is the code, as on the wire (`WRONGTYPE Operation against …`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Cow<'static, str>);

/// What a command answers.
pub type Reply = Result<Value, Error>;

/// The key holds another type than the command works on.
pub const WRONG_TYPE: Error =
    Error::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
/// An option does not exist or options exclude each other.
pub const SYNTAX: Error = Error::fixed("ERR syntax error");
/// An argument is no 64-bit integer.
pub const NOT_AN_INTEGER: Error = Error::fixed("ERR value is not an integer or out of range");
/// An argument is no float, or NaN.
pub const NOT_A_FLOAT: Error = Error::fixed("ERR value is not a valid float");
/// An increment would leave the range of a 64-bit integer.
pub const OVERFLOW: Error = Error::fixed("ERR increment or decrement would overflow");
/// `LSET` and its like beyond the end.
pub const INDEX_OUT_OF_RANGE: Error = Error::fixed("ERR index out of range");
/// `RENAME` and its like without a source.
pub const NO_SUCH_KEY: Error = Error::fixed("ERR no such key");
/// `EVALSHA` of a script that was never loaded.
pub const NO_SCRIPT: Error = Error::fixed("NOSCRIPT No matching script. Please use EVAL.");
/// A negative count or similar.
pub const MUST_BE_POSITIVE: Error = Error::fixed("ERR value is out of range, must be positive");

impl Error {
    /// An error with a constant text.
    pub const fn fixed(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// An error with a text made at run time. Line ends would break the wire format and become blanks.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.contains(['\r', '\n']) {
            text = text.replace(['\r', '\n'], " ");
        }
        Self(Cow::Owned(text))
    }

    /// The arity error of a command or subcommand (`set`, `script|load`).
    pub fn wrong_arity(command: &str) -> Self {
        Self::new(format!(
            "ERR wrong number of arguments for '{}' command",
            command.to_ascii_lowercase()
        ))
    }

    /// A TTL argument of a command that is zero, negative or overflows.
    pub fn invalid_expire(command: &str) -> Self {
        Self::new(format!("ERR invalid expire time in '{command}' command"))
    }

    /// Code and text, as on the wire without the leading `-`.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The same error as an element of a pipeline's or transaction's reply.
    pub fn into_value(self) -> Value {
        let line = format!("-{}\r\n", self.0);
        redis::parse_redis_value(line.as_bytes())
            .unwrap_or_else(|_| Value::SimpleString(self.0.into_owned()))
    }
}

impl From<Error> for RedisError {
    fn from(error: Error) -> Self {
        match error.into_value() {
            Value::ServerError(server) => server.into(),
            other => (
                redis::ErrorKind::Parse,
                "an error reply of the embedded store could not be read",
                format!("{other:?}"),
            )
                .into(),
        }
    }
}

/// Why a store could not be opened. Each text says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the folder.
    #[error(
        "data folder {path} is in use by another process (it holds the lock on {path}/store.lock); \
         stop it or choose another folder"
    )]
    Locked {
        /// The data folder.
        path: PathBuf,
    },
    /// The file exists but cannot be trusted.
    #[error(
        "store file {path} is damaged: {what}; restore the data folder from a backup, or move {path} and {path}-wal away to start with an empty store"
    )]
    Damaged {
        /// The store file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The file was written by a newer version.
    #[error(
        "store file {path} has format {found}, this version reads up to {known}; use a newer version"
    )]
    Newer {
        /// The store file.
        path: PathBuf,
        /// The format in the file.
        found: i64,
        /// The newest format this version knows.
        known: i64,
    },
    /// The folder or a file in it could not be read or made.
    #[error("cannot open the store in {path}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// SQLite refused for a reason other than damage.
    #[error("cannot open store file {path}")]
    Sqlite {
        /// The store file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: rusqlite::Error,
    },
}
