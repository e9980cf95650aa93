//! Messages as callers see them, and what callers pass to send, edit and list them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{ConversationId, UserId};

/// Upper bound for a `seq` in a request. No message reaches it, and a Lua number represents it exactly.
pub(crate) const MAX_SEQ: u64 = 1 << 52;

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

/// A message to send.
#[derive(Debug, Clone, Default)]
pub struct NewMessage {
    /// Text of the message.
    pub content: String,
    /// Additional data: a JSON object.
    pub metadata: Option<serde_json::Value>,
    /// Id that the client chose. A repetition with the same id does not create a second message.
    pub client_id: Option<String>,
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SentMessage {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// True if the message existed already under the same `clientId`.
    #[serde(skip)]
    pub is_duplicate: bool,
}

/// New content of a message. Absent fields stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct MessageEdit {
    /// New text.
    pub content: Option<String>,
    /// New metadata.
    pub metadata: Option<serde_json::Value>,
}

/// Start of a page: the newest message, or a `seq` and a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryAnchor {
    /// The page contains the newest messages.
    Newest,
    /// The page contains the messages right before this `seq`.
    Before(u64),
    /// The page contains the messages right after this `seq`.
    After(u64),
}

/// A page of messages, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageList {
    /// Messages of the page.
    pub messages: Vec<Message>,
    /// True if there are more messages in the requested direction.
    pub has_more: bool,
}

/// Messages and changes since a position.
#[derive(Debug, Clone, PartialEq)]
pub struct MissedMessages {
    /// Messages that were sent or changed, by `seq`.
    pub messages: Vec<Message>,
    /// `seq` of the newest message when they were read.
    pub last_seq: u64,
    /// Revision up to which all changes are included.
    pub rev: u64,
    /// True if there is more than fits into one reply.
    pub has_more: bool,
}
