//! Why an operation failed. Each error has one [`Code`], which each gateway maps to its wire once.

use parlor_store::{Fault, fault};
use redis::RedisError;

use crate::code::Code;
use crate::ids::{ConversationId, InvalidId};

/// Why an operation of a capability failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store is away or not ready; trying again later helps.
    #[error("the store does not answer, try again later")]
    StoreUnavailable(#[source] RedisError),
    /// The store has not been opened yet.
    #[error("the store does not answer yet, try again later")]
    StoreNotOpen,
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
    /// An identifier that cannot be one.
    #[error(transparent)]
    InvalidId(#[from] InvalidId),
    /// A request that cannot be read or makes no sense.
    #[error("{0}")]
    InvalidRequest(String),
    /// A service did not say for whom it acts.
    #[error(
        "a service acts for a user: name one with the header `Parlor-User`, or as `user_id` in gRPC"
    )]
    UserRequired,
    /// The caller may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// The caller is not a member.
    #[error("the caller is not a member of {0}")]
    NotAMember(ConversationId),
    /// A visitor may read only.
    #[error("a visitor without an account may read only; sign in to write")]
    ReadOnly,
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The code that clients see.
    pub const fn code(&self) -> Code {
        match self {
            Self::StoreUnavailable(_) | Self::StoreNotOpen => Code::StoreUnavailable,
            Self::StoreFull(_) => Code::StoreFull,
            Self::Internal(_) => Code::Internal,
            Self::TooMany { .. } => Code::TooMany,
            Self::InvalidId(_) => Code::InvalidId,
            Self::InvalidRequest(_) => Code::InvalidRequest,
            Self::UserRequired => Code::UserRequired,
            Self::Forbidden(_) => Code::Forbidden,
            Self::NotAMember(_) => Code::NotAMember,
            Self::ReadOnly => Code::ReadOnlySession,
        }
    }

    /// Whether the store is away.
    pub const fn is_away(&self) -> bool {
        matches!(self, Self::StoreUnavailable(_) | Self::StoreNotOpen)
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
