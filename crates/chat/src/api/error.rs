//! [`Error`]: the failures of operations.
//!
//! Invariants:
//! 1. Each error has one [`ErrorCode`], which each gateway maps to its protocol in one table.
//! 2. An error of the store or the database is classified once, when it becomes an [`Error`]: unavailable and full can be
//!    retried, rejected is a bug.

use parlor_store::{StoreErrorClass, classify_error};
use redis::RedisError;

use crate::api::error_code::ErrorCode;
use crate::database;
use crate::ids::{ConversationId, InvalidId};
use crate::keys::Key;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store is unavailable or not ready. The request can be retried later.
    #[error("the store is unavailable; retry later")]
    StoreUnavailable(#[source] RedisError),
    /// The store has not been opened yet.
    #[error("the store is not connected yet; retry later")]
    StoreNotOpen,
    /// The store is out of memory or disk.
    #[error("the store is out of memory or disk; add capacity")]
    StoreFull(#[source] RedisError),
    /// The store rejected a command: a bug of this program, or a key that another service wrote with a wrong type.
    #[error("the store rejected a command")]
    StoreRejected(#[source] RedisError),
    /// The database is unavailable. The request can be retried later.
    #[error("the database is unavailable; retry later")]
    DatabaseUnavailable(#[source] sqlx::Error),
    /// The disk of the database is full.
    #[error("the disk of the database is full; add capacity")]
    DatabaseFull(#[source] sqlx::Error),
    /// The database rejected a statement, which is a bug of this program.
    #[error("the database rejected a statement")]
    DatabaseRejected(#[source] sqlx::Error),
    /// The change is committed, but the store was not updated. The code is that of the failed store update.
    #[error(
        "the change is saved, but the store is unavailable, so other clients see it late; the request need not be repeated"
    )]
    CommittedNotPublished(#[source] Box<Error>),
    /// A newer version of Parlor has added a kind of outbox entries.
    #[error(
        "this version of Parlor does not know outbox entries of the kind {0}; a node of the newer version applies them"
    )]
    UnknownOutboxKind(String),
    /// The store belongs to another database.
    #[error(
        "the store belongs to another database ({key} is {found}); use that database or an empty store"
    )]
    StoreOfOtherDatabase {
        /// Key that contains the database id.
        key: Key,
        /// Id of the other database.
        found: String,
    },
    /// A newer version of Parlor has used the store.
    #[error(
        "a newer version of Parlor has used the store ({key} is {found}, but this program knows schemas up to {known} only); run that version or a later one"
    )]
    StoreOfNewerVersion {
        /// Key that contains the number of the key schema.
        key: Key,
        /// Number of the key schema of the store.
        found: u64,
        /// Number of the key schema of this program.
        known: u64,
    },
    /// The store contains an incomplete copy made by `parlor migrate-store`.
    #[error(
        "the store contains an incomplete copy ({key} is {found}); run `parlor migrate-store` again to resume it"
    )]
    StoreCopyIncomplete {
        /// Key that contains the database id.
        key: Key,
        /// Value of the key.
        found: String,
    },
    /// A rate limit is exceeded.
    #[error("rate limit exceeded; retry in {retry_after_ms} ms")]
    RateLimited {
        /// Milliseconds until the same request is allowed.
        retry_after_ms: u64,
    },
    /// A list or a number in the request exceeds its maximum.
    #[error("{given} {items} exceed the maximum of {max}")]
    TooMany {
        /// Name of the items, in the plural.
        items: &'static str,
        /// Number of items in the request.
        given: usize,
        /// Maximum number of items.
        max: usize,
    },
    /// The text is not a valid identifier.
    #[error(transparent)]
    InvalidId(#[from] InvalidId),
    /// The request cannot be parsed, or its fields contradict each other.
    #[error("{0}")]
    InvalidRequest(String),
    /// A service did not name the user it acts for.
    #[error("a service must name the user it acts for: header `Parlor-User`, or `user_id` in gRPC")]
    UserRequired,
    /// The caller is not authorized to do this.
    #[error("{0}")]
    Forbidden(String),
    /// The caller is not a member of the conversation.
    #[error("the caller is not a member of conversation {0}")]
    NotAMember(ConversationId),
    /// The requested object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// A conversation with this id already exists.
    #[error("conversation {0} already exists")]
    ConversationExists(ConversationId),
    /// A part of a message exceeds its maximum size.
    #[error("{part} has {given} bytes; the maximum is {max}")]
    ContentTooLarge {
        /// Part of the message.
        part: &'static str,
        /// Its size in bytes.
        given: usize,
        /// Maximum size in bytes.
        max: usize,
    },
    /// The time in which the sender may change the message is over.
    #[error("the sender can change a message for {0} s only")]
    EditWindowOver(u64),
    /// The message was deleted.
    #[error("message {0} was deleted")]
    MessageDeleted(u64),
    /// The user has no session.
    #[error("no valid session; create one with POST /v1/sessions")]
    SessionExpired,
    /// The token is older than the last logout of the user. It cannot begin a session either.
    #[error("the token was issued before the last logout; sign in again to get a new token")]
    TokenRevoked,
    /// The user is blocked.
    #[error("the user is blocked")]
    SessionBlocked,
    /// A visitor has read-only access.
    #[error("visitors have read-only access; sign in to write")]
    ReadOnlySession,
}

/// Result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The stable code that clients see.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::StoreUnavailable(_) | Self::StoreNotOpen => ErrorCode::StoreUnavailable,
            Self::StoreFull(_) => ErrorCode::StoreFull,
            Self::CommittedNotPublished(cause) => cause.code(),
            Self::StoreRejected(_)
            | Self::DatabaseRejected(_)
            | Self::UnknownOutboxKind(_)
            | Self::StoreOfOtherDatabase { .. }
            | Self::StoreOfNewerVersion { .. }
            | Self::StoreCopyIncomplete { .. } => ErrorCode::Internal,
            Self::DatabaseUnavailable(_) => ErrorCode::DatabaseUnavailable,
            Self::DatabaseFull(_) => ErrorCode::DatabaseFull,
            Self::RateLimited { .. } => ErrorCode::RateLimited,
            Self::NotFound(_) => ErrorCode::NotFound,
            Self::ConversationExists(_) => ErrorCode::ConversationExists,
            Self::ContentTooLarge { .. } => ErrorCode::ContentTooLarge,
            Self::EditWindowOver(_) => ErrorCode::EditWindowOver,
            Self::MessageDeleted(_) => ErrorCode::MessageDeleted,
            Self::SessionExpired | Self::TokenRevoked => ErrorCode::SessionExpired,
            Self::SessionBlocked => ErrorCode::SessionBlocked,
            Self::TooMany { .. } => ErrorCode::TooMany,
            Self::InvalidId(_) => ErrorCode::InvalidId,
            Self::InvalidRequest(_) => ErrorCode::InvalidRequest,
            Self::UserRequired => ErrorCode::UserRequired,
            Self::Forbidden(_) => ErrorCode::Forbidden,
            Self::NotAMember(_) => ErrorCode::NotAMember,
            Self::ReadOnlySession => ErrorCode::ReadOnlySession,
        }
    }

    /// True if the store is unavailable or not connected yet.
    pub const fn is_store_unavailable(&self) -> bool {
        matches!(self, Self::StoreUnavailable(_) | Self::StoreNotOpen)
    }

    /// True if the store is unavailable or full: a later attempt may succeed, and what has rows can be read from them.
    pub const fn is_store_outage(&self) -> bool {
        self.is_store_unavailable() || matches!(self, Self::StoreFull(_))
    }

    /// True if the store or the database is unavailable or full, so that other work fails in the same way.
    pub const fn is_unavailable(&self) -> bool {
        match self {
            Self::CommittedNotPublished(cause) => cause.is_unavailable(),
            Self::StoreFull(_) | Self::DatabaseUnavailable(_) | Self::DatabaseFull(_) => true,
            _ => self.is_store_unavailable(),
        }
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        match classify_error(&error) {
            StoreErrorClass::Unavailable => Self::StoreUnavailable(error),
            StoreErrorClass::Full => Self::StoreFull(error),
            StoreErrorClass::Rejected => Self::StoreRejected(error),
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match database::classify_error(&error) {
            // ErrorCode that can retry a conflict has done so already, so the client has to retry later.
            database::DatabaseErrorKind::Unavailable | database::DatabaseErrorKind::Conflict => {
                Self::DatabaseUnavailable(error)
            }
            database::DatabaseErrorKind::Full => Self::DatabaseFull(error),
            database::DatabaseErrorKind::UniqueViolation
            | database::DatabaseErrorKind::Rejected => Self::DatabaseRejected(error),
        }
    }
}
