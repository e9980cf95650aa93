//! Types of typing indicators.

use serde::Serialize;
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::ids::{ConversationId, UserId};

/// A user who is typing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TypingUser {
    /// Id of the user.
    pub user_id: UserId,
    /// Display name, if known.
    pub username: Option<String>,
    /// Time at which the typing ends without a renewal.
    #[serde(skip)]
    pub until: Timestamp,
}

/// A user is typing in a conversation, or stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TypingChange {
    /// Conversation in which the user types.
    pub conversation_id: ConversationId,
    /// Id of the user.
    pub user_id: UserId,
    /// Display name, if known.
    pub username: Option<String>,
    /// True if the user is typing, false if the user stopped.
    pub typing: bool,
}
