//! Model of a message.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{ConversationId, UserId};

/// A message as clients receive it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Id of the message, a UUIDv7.
    pub id: String,
    /// Id of the conversation.
    pub conversation_id: ConversationId,
    /// Number of the message in the conversation: 1, 2, 3, without gaps.
    pub seq: u64,
    /// Id of the user who sent the message.
    pub sender_id: UserId,
    /// Text of the message; empty if the message was deleted.
    pub content: String,
    /// Additional data from the sender; absent if there is none or the message was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<serde_json::Value>,
    /// Id that the client chose when it sent the message; absent if it chose none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Time of sending, ISO 8601.
    pub created_at: String,
    /// Time of the last edit, ISO 8601; absent if the message was never edited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<String>,
    /// Time of the deletion, ISO 8601; absent if the message was not deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<String>,
    /// Revision of the conversation at which the message was last changed. Of two versions of a message, the one with
    /// the higher `rev` is newer.
    pub rev: u64,
}
