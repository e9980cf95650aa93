//! What is told about unread messages, and what happened that they are counted by.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{ConversationId, UserId};

/// Messages were sent, one after the other, and their rows are committed.
#[derive(Debug, Clone, Copy)]
pub struct CountedMessages<'a> {
    /// Where.
    pub conversation: &'a ConversationId,
    /// The number of the last.
    pub seq: u64,
    /// Who sent them, in their order.
    pub sender_positions: &'a [SenderPosition],
    /// The members, of the version below; none above the fan-out limit. The senders may be among them.
    pub members: Option<&'a [UserId]>,
    /// The `members_version` of the conversation when the messages were numbered.
    pub members_version: u64,
}

/// Somebody sent a message.
#[derive(Debug, Clone)]
pub struct SenderPosition {
    /// Who.
    pub user: UserId,
    /// The message's number.
    pub seq: u64,
    /// The `joined_version` of the sender's row.
    pub joined_version: u64,
    /// The `position_version` of the sender's row after it.
    pub position_version: u64,
}

/// What waits for a user in a conversation, and in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnreadCount {
    /// Unread messages in the conversation.
    pub unread: u64,
    /// Unread messages in all conversations that are not muted.
    pub total: u64,
}

/// What waits for a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnreadSummary {
    /// Unread messages in all conversations that are not muted.
    pub total: u64,
    /// Those among them that mention the user.
    pub mentions: u64,
    /// The conversations with unread messages, the latest activity first.
    pub conversations: Vec<ConversationUnread>,
}

/// What waits for a user in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationUnread {
    /// Which.
    pub conversation_id: ConversationId,
    /// Unread messages.
    pub count: u64,
    /// Those among them that mention the user.
    pub mentions: u64,
    /// Whether they stay out of the total.
    pub muted: bool,
}

/// How far a member has got and read the messages of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadReceipt {
    /// Who.
    pub user_id: UserId,
    /// The last message that reached them.
    pub delivered_seq: u64,
    /// The last message that they read.
    pub read_seq: u64,
}

/// A part of a conversation's receipts, by user id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadReceiptPage {
    /// The receipts.
    pub receipts: Vec<ReadReceipt>,
    /// What to ask for the next part with; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

// The body of a frame of `Kind::Unread`, as JSON, and of what clients are told.
/// What waits for a user in a conversation, and in all, has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadChange {
    /// Where.
    pub conversation_id: ConversationId,
    /// Unread messages there.
    pub count: u64,
    /// Unread messages in all conversations that are not muted.
    pub total: u64,
}

/// The body of a frame of [`Kind::Receipt`](crate::bus::frame::Kind::Receipt), as JSON. May come twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptChange {
    /// Where.
    pub conversation_id: ConversationId,
    /// Whose, and how far.
    #[serde(flatten)]
    pub receipt: ReadReceipt,
    /// Which of the two moved.
    pub moved: ReceiptKind,
}

/// What moved of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceiptKind {
    /// Messages reached the member.
    Delivered,
    /// The member read messages, and got them by that.
    Read,
}

/// The unread messages of a member: the numbers after the badge position, without their own.
pub fn count(last_seq: u64, badge_seq: u64, own_after: u64) -> u64 {
    last_seq.saturating_sub(badge_seq).saturating_sub(own_after)
}
