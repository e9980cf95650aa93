//! [`ErrorCode`]: the closed set of error codes. Clients compare the codes; the texts are for people.
//!
//! Invariant: a published code keeps its name and its meaning. Each gateway maps the codes to its protocol in one
//! table.

use crate::keys::named_enum;

named_enum! {
    /// Stable code of a failed request.
    pub enum ErrorCode {
        /// No token was sent.
        TokenMissing = "token_missing",
        /// The token cannot be parsed, its signature is not trusted, or a claim is missing or wrong.
        TokenInvalid = "token_invalid",
        /// The token has expired.
        TokenExpired = "token_expired",
        /// The token is not valid yet.
        TokenNotYetValid = "token_not_yet_valid",
        /// The signing keys of the issuer cannot be fetched at the moment.
        KeysUnavailable = "keys_unavailable",
        /// A service must name the user it acts for.
        UserRequired = "user_required",
        /// The caller is not authorized to do this.
        Forbidden = "forbidden",
        /// The user has no session, or it has ended; create one with `POST /v1/sessions`. After a logout, sign in again
        /// first: the logout has revoked the older tokens.
        SessionExpired = "session_expired",
        /// The user is blocked.
        SessionBlocked = "session_blocked",
        /// A visitor without an account has read-only access.
        ReadOnlySession = "read_only_session",
        /// The user is not a member of the conversation.
        NotAMember = "not_a_member",
        /// The origin of the page is not listed in `server.allowed_origins`.
        OriginNotAllowed = "origin_not_allowed",
        /// An identifier is empty, too long, reserved, or contains a forbidden character.
        InvalidId = "invalid_id",
        /// The request cannot be parsed: a field is missing or invalid.
        InvalidRequest = "invalid_request",
        /// A conversation with this id already exists.
        ConversationExists = "conversation_exists",
        /// The content or the metadata of a message exceeds its maximum size.
        ContentTooLarge = "content_too_large",
        /// The time in which the sender may change the message is over.
        EditWindowOver = "edit_window_over",
        /// The message was deleted.
        MessageDeleted = "message_deleted",
        /// A rate limit is exceeded; the reply says when to retry.
        RateLimited = "rate_limited",
        /// A list or a number in the request exceeds its maximum.
        TooMany = "too_many",
        /// The request body is larger than this route accepts.
        BodyTooLarge = "body_too_large",
        /// The request body did not arrive in time.
        RequestTimeout = "request_timeout",
        /// The address or the message does not exist.
        NotFound = "not_found",
        /// The address does not support this method.
        MethodNotAllowed = "method_not_allowed",
        /// The store is unavailable at the moment.
        StoreUnavailable = "store_unavailable",
        /// The store is out of memory or disk.
        StoreFull = "store_full",
        /// The database is unavailable at the moment.
        DatabaseUnavailable = "database_unavailable",
        /// The disk of the database is full.
        DatabaseFull = "database_full",
        /// The server is shutting down; reconnect.
        ShuttingDown = "shutting_down",
        /// Internal error; the server log has the details under the id in the message.
        Internal = "internal",
    }
}

impl ErrorCode {
    /// True if the same request can succeed later.
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
