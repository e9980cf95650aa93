//! Errors: those a command answers with (Redis's codes and texts), and those that stop a start.

use std::borrow::Cow;
use std::path::PathBuf;

use redis::{RedisError, Value};

/// An error reply: its first word is the code, as on the wire (`WRONGTYPE Operation against …`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError(Cow<'static, str>);

/// What a command answers.
pub type CommandResult = Result<Value, CommandError>;

/// The key holds another type than the command works on.
pub const WRONG_TYPE: CommandError =
    CommandError::from_static("WRONGTYPE Operation against a key holding the wrong kind of value");
/// An option does not exist or options exclude each other.
pub const SYNTAX_ERROR: CommandError = CommandError::from_static("ERR syntax error");
/// An argument is no 64-bit integer.
pub const NOT_AN_INTEGER: CommandError =
    CommandError::from_static("ERR value is not an integer or out of range");
/// An argument is no float, or NaN.
pub const NOT_A_FLOAT: CommandError = CommandError::from_static("ERR value is not a valid float");
/// An increment would leave the range of a 64-bit integer.
pub const INCREMENT_OVERFLOW: CommandError =
    CommandError::from_static("ERR increment or decrement would overflow");
/// `LSET` and its like beyond the end.
pub const INDEX_OUT_OF_RANGE: CommandError = CommandError::from_static("ERR index out of range");
/// `RENAME` and its like without a source.
pub const NO_SUCH_KEY: CommandError = CommandError::from_static("ERR no such key");
/// `EVALSHA` of a script that was never loaded.
pub const NO_SCRIPT: CommandError =
    CommandError::from_static("NOSCRIPT No matching script. Please use EVAL.");
/// A negative count or similar.
pub const MUST_BE_POSITIVE: CommandError =
    CommandError::from_static("ERR value is out of range, must be positive");

impl CommandError {
    /// An error with a constant text.
    pub const fn from_static(text: &'static str) -> Self {
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

/// Why a store could not be opened. Each text says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum EngineOpenError {
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
        "store file {path} is corrupt: {problem}; restore the data folder from a backup, or move {path} and {path}-wal away to start with an empty store"
    )]
    Corrupt {
        /// The store file.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
    /// The file was written by a newer version.
    #[error(
        "store file {path} has format {found_version}, this version of Parlor reads formats up to {supported_version}; use a newer version"
    )]
    NewerFormat {
        /// The store file.
        path: PathBuf,
        /// The format in the file.
        found_version: i64,
        /// The newest format this version knows.
        supported_version: i64,
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
