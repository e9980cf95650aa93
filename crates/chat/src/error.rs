//! Why an operation failed. Each error has one [`Code`], which each gateway maps to its wire once.

use parlor_store::{Fault, fault};
use redis::RedisError;

use crate::code::Code;
use crate::database;
use crate::ids::{ConversationId, InvalidId};
use crate::keys::Key;

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
    /// The database does not answer; trying again later helps.
    #[error("the database does not answer, try again later")]
    DatabaseUnavailable(#[source] sqlx::Error),
    /// The database has no room.
    #[error("the database is full, give it more disk")]
    DatabaseFull(#[source] sqlx::Error),
    /// The database refused a statement, which is a fault of this program.
    #[error("the database refused a statement")]
    Statement(#[source] sqlx::Error),
    /// A change is committed, but the store did not take it in.
    #[error(
        "the change is made, but the store does not answer: others may learn of it late; repeat the call to be sure"
    )]
    Untold(#[source] Box<Error>),
    /// The store belongs to another database.
    #[error(
        "the store belongs to another database ({key} is {found}); use the database it was filled from, or an empty store"
    )]
    OtherDatabase {
        /// The key that says so.
        key: Key,
        /// The database it names.
        found: String,
    },
    /// The store is half of one that is being moved here.
    #[error(
        "the store holds a copy that was not completed ({key} is {found}); run `parlor migrate-store` again, it goes on where it stopped"
    )]
    UnfinishedCopy {
        /// The key that says so.
        key: Key,
        /// What it says.
        found: String,
    },
    /// More was asked for in a time than is allowed.
    #[error("that was too often, try again in {retry_after_ms} ms")]
    RateLimited {
        /// When the same call would be taken, in milliseconds from now.
        retry_after_ms: u64,
    },
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
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// There is a conversation with this id.
    #[error("there is a conversation {0} already")]
    ConversationExists(ConversationId),
    /// A part of a message is too large.
    #[error("{what} has {given} bytes, at most {most} are allowed")]
    ContentTooLarge {
        /// Which part.
        what: &'static str,
        /// How large it is.
        given: usize,
        /// How large it may be.
        most: usize,
    },
    /// A message can no longer be changed by its sender.
    #[error("a message can be changed by its sender for {0} s only")]
    EditWindowOver(u64),
    /// A message was deleted.
    #[error("message {0} was deleted")]
    MessageDeleted(u64),
    /// The user has no session.
    #[error("there is no session; begin one with POST /v1/sessions")]
    SessionExpired,
    /// The user is blocked.
    #[error("the user is blocked")]
    SessionBlocked,
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
            Self::Untold(cause) => cause.code(),
            Self::Internal(_)
            | Self::Statement(_)
            | Self::OtherDatabase { .. }
            | Self::UnfinishedCopy { .. } => Code::Internal,
            Self::DatabaseUnavailable(_) => Code::DatabaseUnavailable,
            Self::DatabaseFull(_) => Code::DatabaseFull,
            Self::RateLimited { .. } => Code::RateLimited,
            Self::NotFound(_) => Code::NotFound,
            Self::ConversationExists(_) => Code::ConversationExists,
            Self::ContentTooLarge { .. } => Code::ContentTooLarge,
            Self::EditWindowOver(_) => Code::EditWindowOver,
            Self::MessageDeleted(_) => Code::MessageDeleted,
            Self::SessionExpired => Code::SessionExpired,
            Self::SessionBlocked => Code::SessionBlocked,
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

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match database::fault(&error) {
            // Whoever can repeat has done so before.
            database::Fault::Away | database::Fault::Conflict => Self::DatabaseUnavailable(error),
            database::Fault::Full => Self::DatabaseFull(error),
            database::Fault::Exists | database::Fault::Refused => Self::Statement(error),
        }
    }
}
