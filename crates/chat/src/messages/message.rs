//! A message, as clients get it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{ConversationId, UserId};

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its id, a UUIDv7.
    pub id: String,
    /// Where it was sent.
    pub conversation_id: ConversationId,
    /// Its number in the conversation: 1, 2, 3, without a gap.
    pub seq: u64,
    /// Who sent it.
    pub sender_id: UserId,
    /// The text; empty when it was deleted.
    pub content: String,
    /// What the sender added; absent when it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<serde_json::Value>,
    /// What the sender calls it, so that a repetition is not a second message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// When it was sent, in ISO 8601.
    pub created_at: String,
    /// When it was last edited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<String>,
    /// When it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<String>,
    /// The conversation's revision when it was last changed: of two versions of a message the higher is the newer one.
    pub rev: u64,
}
