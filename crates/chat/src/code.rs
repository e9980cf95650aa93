//! The codes of errors: a closed set, part of the product. Programs go by them; texts are for people.
//!
//! Always true: a code that was published keeps its name and its meaning. Each gateway maps the set to its wire in one table.

use std::fmt;

macro_rules! error_codes {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why something was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($(#[doc = $meaning])+ $variant,)+
        }

        impl Code {
            /// Every code, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that programs see.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What it means, for the reference.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($meaning),+).trim_start(),)+
                }
            }
        }
    };
}

error_codes! {
    /// No token was sent.
    TokenMissing = "token_missing",
    /// The token cannot be read, is signed by nobody known here, or has a claim that is missing or wrong.
    TokenInvalid = "token_invalid",
    /// The token's time is over.
    TokenExpired = "token_expired",
    /// The token's time has not come.
    TokenNotYetValid = "token_not_yet_valid",
    /// The issuer's keys cannot be fetched at the moment.
    KeysUnavailable = "keys_unavailable",
    /// A service has to name the user it acts for.
    UserRequired = "user_required",
    /// The caller may not do this.
    Forbidden = "forbidden",
    /// The user has no session, or it is over: begin one with `POST /v1/sessions`.
    SessionExpired = "session_expired",
    /// The user is blocked.
    SessionBlocked = "session_blocked",
    /// A visitor without an account may read only.
    ReadOnlySession = "read_only_session",
    /// The user is not a member of the conversation.
    NotAMember = "not_a_member",
    /// Pages of this origin may not call; `server.allowed_origins` names those that may.
    OriginNotAllowed = "origin_not_allowed",
    /// An identifier is empty, too long, reserved, or has a character that cannot stand in a key.
    InvalidId = "invalid_id",
    /// The request cannot be read: a field is missing or wrong.
    InvalidRequest = "invalid_request",
    /// There is a conversation with this id already.
    ConversationExists = "conversation_exists",
    /// The text or the metadata of a message is larger than allowed.
    ContentTooLarge = "content_too_large",
    /// The time in which a sender may change a message is over.
    EditWindowOver = "edit_window_over",
    /// The message was deleted.
    MessageDeleted = "message_deleted",
    /// More was asked for in a time than is allowed; the answer says when to try again.
    RateLimited = "rate_limited",
    /// More was asked for than one call may.
    TooMany = "too_many",
    /// The body is larger than this route takes.
    BodyTooLarge = "body_too_large",
    /// The body did not come in time.
    RequestTimeout = "request_timeout",
    /// There is nothing at this address, or no message of this number.
    NotFound = "not_found",
    /// The address does not take this method.
    MethodNotAllowed = "method_not_allowed",
    /// The store does not answer at the moment.
    StoreUnavailable = "store_unavailable",
    /// The store has no room.
    StoreFull = "store_full",
    /// The database does not answer at the moment.
    DatabaseUnavailable = "database_unavailable",
    /// The database has no room.
    DatabaseFull = "database_full",
    /// The server is about to end; connect again.
    ShuttingDown = "shutting_down",
    /// A fault of the server; its log has the details under the id in the text.
    Internal = "internal",
}

impl Code {
    /// Whether the same request may succeed later.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::KeysUnavailable
                | Self::RateLimited
                | Self::StoreUnavailable
                | Self::StoreFull
                | Self::DatabaseUnavailable
                | Self::DatabaseFull
                | Self::ShuttingDown
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
