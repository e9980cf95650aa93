//! Why an operation failed: a closed set, which each gateway maps to its wire once.

use parlor_store::{Fault, fault};
use redis::RedisError;

/// Why an operation of a capability failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store is away or not ready; trying again later helps.
    #[error("the store does not answer, try again later")]
    StoreUnavailable(#[source] RedisError),
    /// The store has no room.
    #[error("the store is full, give it more memory or disk")]
    StoreFull(#[source] RedisError),
    /// The store refused a command, which is a fault of this program or of a key that somebody else wrote.
    #[error("the store refused a command")]
    Internal(#[source] RedisError),
    /// More was asked for than one call may.
    #[error("{given} {what} are too many, ask for at most {most}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many were given.
        given: usize,
        /// How many are allowed.
        most: usize,
    },
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The code that clients see.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::StoreUnavailable(_) => "store_unavailable",
            Self::StoreFull(_) => "store_full",
            Self::Internal(_) => "internal",
            Self::TooMany { .. } => "too_many",
        }
    }

    /// Whether the store is away.
    pub const fn is_away(&self) -> bool {
        matches!(self, Self::StoreUnavailable(_))
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        match fault(&error) {
            Fault::Away => Self::StoreUnavailable(error),
            Fault::Full => Self::StoreFull(error),
            Fault::Refused => Self::Internal(error),
        }
    }
}
