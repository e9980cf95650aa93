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
    #[error("the store is unavailable; retry later")]
    StoreUnavailable(#[source] RedisError),
    /// The store has not been opened yet.
    #[error("the store is not connected yet; retry later")]
    StoreNotOpen,
    /// The store has no room.
    #[error("the store is out of memory or disk; add capacity")]
    StoreFull(#[source] RedisError),
    /// The store refused a command, which is a fault of this program or of a key that somebody else wrote.
    #[error("the store rejected a command")]
    StoreRejected(#[source] RedisError),
    /// The database does not answer; trying again later helps.
    #[error("the database is unavailable; retry later")]
    DatabaseUnavailable(#[source] sqlx::Error),
    /// The database has no room.
    #[error("the disk of the database is full; add capacity")]
    DatabaseFull(#[source] sqlx::Error),
    /// The database refused a statement, which is a fault of this program.
    #[error("the database rejected a statement")]
    DatabaseRejected(#[source] sqlx::Error),
    /// A change is committed, but the store did not take it in.
    #[error(
        "the change is saved, but the store is unavailable, so other clients may see it late; repeat the request to make sure"
    )]
    CommittedNotPublished(#[source] Box<Error>),
    /// The store belongs to another database.
    #[error(
        "the store belongs to another database ({key} is {found}); use that database or an empty store"
    )]
    StoreOfOtherDatabase {
        /// The key that says so.
        key: Key,
        /// The database it names.
        found: String,
    },
    /// The store is half of one that is being moved here.
    #[error(
        "the store contains an incomplete copy ({key} is {found}); run `parlor migrate-store` again to resume it"
    )]
    StoreCopyIncomplete {
        /// The key that says so.
        key: Key,
        /// What it says.
        found: String,
    },
    /// More was asked for in a time than is allowed.
    #[error("rate limit exceeded; retry in {retry_after_ms} ms")]
    RateLimited {
        /// When the same call would be taken, in milliseconds from now.
        retry_after_ms: u64,
    },
    /// More was asked for than one call may.
    #[error("{given} {items} exceed the maximum of {max}")]
    TooMany {
        /// What there is too much of.
        items: &'static str,
        /// How many were given.
        given: usize,
        /// How many are allowed.
        max: usize,
    },
    /// An identifier that cannot be one.
    #[error(transparent)]
    InvalidId(#[from] InvalidId),
    /// A request that cannot be read or makes no sense.
    #[error("{0}")]
    InvalidRequest(String),
    /// A service did not say for whom it acts.
    #[error("a service must name the user it acts for: header `Parlor-User`, or `user_id` in gRPC")]
    UserRequired,
    /// The caller may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// The caller is not a member.
    #[error("the caller is not a member of conversation {0}")]
    NotAMember(ConversationId),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// There is a conversation with this id.
    #[error("conversation {0} already exists")]
    ConversationExists(ConversationId),
    /// A part of a message is too large.
    #[error("{part} has {given} bytes; the maximum is {max}")]
    ContentTooLarge {
        /// Which part.
        part: &'static str,
        /// How large it is.
        given: usize,
        /// How large it may be.
        max: usize,
    },
    /// A message can no longer be changed by its sender.
    #[error("the sender can change a message for {0} s only")]
    EditWindowOver(u64),
    /// A message was deleted.
    #[error("message {0} was deleted")]
    MessageDeleted(u64),
    /// The user has no session.
    #[error("no valid session; create one with POST /v1/sessions")]
    SessionExpired,
    /// The user is blocked.
    #[error("the user is blocked")]
    SessionBlocked,
    /// A visitor may read only.
    #[error("visitors have read-only access; sign in to write")]
    ReadOnlySession,
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The code that clients see.
    pub const fn code(&self) -> Code {
        match self {
            Self::StoreUnavailable(_) | Self::StoreNotOpen => Code::StoreUnavailable,
            Self::StoreFull(_) => Code::StoreFull,
            Self::CommittedNotPublished(cause) => cause.code(),
            Self::StoreRejected(_)
            | Self::DatabaseRejected(_)
            | Self::StoreOfOtherDatabase { .. }
            | Self::StoreCopyIncomplete { .. } => Code::Internal,
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
            Self::ReadOnlySession => Code::ReadOnlySession,
        }
    }

    /// Whether the store is away.
    pub const fn is_store_unavailable(&self) -> bool {
        matches!(self, Self::StoreUnavailable(_) | Self::StoreNotOpen)
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        match fault(&error) {
            Fault::Unavailable => Self::StoreUnavailable(error),
            Fault::Full => Self::StoreFull(error),
            Fault::Rejected => Self::StoreRejected(error),
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match database::classify_error(&error) {
            // Whoever can repeat has done so before.
            database::DatabaseErrorKind::Unavailable | database::DatabaseErrorKind::Conflict => {
                Self::DatabaseUnavailable(error)
            }
            database::DatabaseErrorKind::Full => Self::DatabaseFull(error),
            database::DatabaseErrorKind::UniqueViolation
            | database::DatabaseErrorKind::Rejected => Self::DatabaseRejected(error),
        }
    }
}
