//! Error replies of commands, with Redis's codes and texts, and errors of opening an engine.

use std::borrow::Cow;
use std::path::PathBuf;

use bstr::ByteSlice;
use redis::{RedisError, Value};

/// An error reply. Its first word is the code, as in the Redis protocol (`WRONGTYPE Operation against …`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError(Cow<'static, str>);

/// Result of a command.
pub type CommandResult = Result<Value, CommandError>;

/// The key holds a value of another type than the command needs.
pub const WRONG_TYPE: CommandError =
    CommandError::from_static("WRONGTYPE Operation against a key holding the wrong kind of value");
/// An option does not exist, or two options exclude each other.
pub const SYNTAX_ERROR: CommandError = CommandError::from_static("ERR syntax error");
/// An argument is not a 64-bit integer.
pub const NOT_AN_INTEGER: CommandError =
    CommandError::from_static("ERR value is not an integer or out of range");
/// An argument is not a float, or is NaN.
pub const NOT_A_FLOAT: CommandError = CommandError::from_static("ERR value is not a valid float");
/// An increment would leave the range of a 64-bit integer.
pub const INCREMENT_OVERFLOW: CommandError =
    CommandError::from_static("ERR increment or decrement would overflow");
/// The index of `LSET` or a similar command is past the end.
pub const INDEX_OUT_OF_RANGE: CommandError = CommandError::from_static("ERR index out of range");
/// The source key of `RENAME` or a similar command does not exist.
pub const NO_SUCH_KEY: CommandError = CommandError::from_static("ERR no such key");
/// `EVALSHA` called a script that is not loaded.
pub const NO_SCRIPT: CommandError =
    CommandError::from_static("NOSCRIPT No matching script. Please use EVAL.");
/// A count or a similar argument is negative.
pub const MUST_BE_POSITIVE: CommandError =
    CommandError::from_static("ERR value is out of range, must be positive");

impl CommandError {
    /// Error with a constant text.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Error with a text made at run time. Line ends would break the protocol, so they become blanks.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.contains(['\r', '\n']) {
            text = text.replace(['\r', '\n'], " ");
        }
        Self(Cow::Owned(text))
    }

    /// Error for a wrong argument count of a command or subcommand (`set`, `script|load`).
    pub fn wrong_arity(command: &str) -> Self {
        Self::new(format!(
            "ERR wrong number of arguments for '{}' command",
            command.to_ascii_lowercase()
        ))
    }

    /// Error for a TTL argument that is zero, negative or too large.
    pub fn invalid_expire(command: &[u8]) -> Self {
        Self::new(format!(
            "ERR invalid expire time in '{}' command",
            command.to_ascii_lowercase().as_bstr()
        ))
    }

    /// Code and text, as in the protocol without the leading `-`.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The error as an element of the reply of a pipeline or transaction.
    pub fn into_value(self) -> Value {
        let line = format!("-{}\r\n", self.0);
        redis::parse_redis_value(line.as_bytes())
            .unwrap_or_else(|_| Value::SimpleString(self.0.into_owned()))
    }
}

impl From<CommandError> for RedisError {
    fn from(error: CommandError) -> Self {
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

/// Why an engine could not be opened. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum EngineOpenError {
    /// Another process holds the lock of the data folder.
    #[error(
        "data folder {path} is in use by another process (it holds the lock on {path}/store.lock); \
         stop it or choose another folder"
    )]
    Locked {
        /// The data folder.
        path: PathBuf,
    },
    /// The file exists but is corrupt.
    #[error(
        "store file {path} is corrupt: {problem}; restore the data folder from a backup, or move {path} and {path}-wal away to start with an empty store"
    )]
    Corrupt {
        /// The store file.
        path: PathBuf,
        /// The problem that was found in the file.
        problem: String,
    },
    /// A newer version of Parlor wrote the file.
    #[error(
        "store file {path} has format {found_version}, this version of Parlor reads formats up to {supported_version}; use a newer version"
    )]
    NewerFormat {
        /// The store file.
        path: PathBuf,
        /// Format version of the file.
        found_version: i64,
        /// Newest format version that this version of Parlor reads.
        supported_version: i64,
    },
    /// The folder or a file in it could not be read or created.
    #[error("cannot open the store in {path}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// SQLite returned an error that does not mean corruption.
    #[error("cannot open store file {path}")]
    Sqlite {
        /// The store file.
        path: PathBuf,
        /// The SQLite error.
        #[source]
        source: rusqlite::Error,
    },
}
