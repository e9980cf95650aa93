//! Types of unread counts and receipts, and the committed messages that they are updated by.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{ConversationId, UserId};

/// Committed messages of one conversation, in their order.
#[derive(Debug, Clone, Copy)]
pub struct CountedMessages<'a> {
    /// Conversation that the messages were sent to.
    pub conversation: &'a ConversationId,
    /// `seq` of the last message.
    pub seq: u64,
    /// Positions of the senders, in the order of the messages.
    pub sender_positions: &'a [SenderPosition],
    /// Members at `members_version`, among them perhaps the senders; `None` if the conversation has too many to list.
    pub members: Option<&'a [UserId]>,
    /// `members_version` of the conversation when the messages got their `seq`.
    pub members_version: u64,
}

/// Position of a sender after their message.
#[derive(Debug, Clone)]
pub struct SenderPosition {
    /// Id of the sender.
    pub user: UserId,
    /// `seq` of the message.
    pub seq: u64,
    /// `joined_version` of the sender's row.
    pub joined_version: u64,
    /// `position_version` of the sender's row after the message.
    pub position_version: u64,
}

/// Unread count of a conversation and the user's total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnreadCount {
    /// Unread messages in the conversation.
    pub unread: u64,
    /// Unread messages in all conversations that are not muted.
    pub total: u64,
}

/// All unread counts of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnreadSummary {
    /// Unread messages in all conversations that are not muted.
    pub total: u64,
    /// Unread messages that mention the user, in all conversations that are not muted.
    pub mentions: u64,
    /// Conversations with unread messages, sorted by their last activity, newest first.
    pub conversations: Vec<ConversationUnread>,
}

/// Unread count of one conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationUnread {
    /// Id of the conversation.
    pub conversation_id: ConversationId,
    /// Unread messages in the conversation.
    pub count: u64,
    /// Unread messages in the conversation that mention the user.
    pub mentions: u64,
    /// True if the conversation is muted and not part of the totals.
    pub muted: bool,
}

/// How far a member has received and read the messages of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadReceipt {
    /// Id of the member.
    pub user_id: UserId,
    /// `seq` of the last message that was delivered to the member.
    pub delivered_seq: u64,
    /// `seq` of the last message that the member has read.
    pub read_seq: u64,
}

/// A page of receipts, ordered by user id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadReceiptPage {
    /// Receipts of the page.
    pub receipts: Vec<ReadReceipt>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

// JSON body of a frame of kind `UnreadChanged`, and of the event that clients receive.
/// The unread count of a conversation changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadChange {
    /// Id of the conversation.
    pub conversation_id: ConversationId,
    /// Unread messages in the conversation.
    pub count: u64,
    /// Unread messages in all conversations that are not muted.
    pub total: u64,
}

// JSON body of a frame of kind `Receipt`.
/// A member received or read messages. The event can be delivered twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptChange {
    /// Id of the conversation.
    pub conversation_id: ConversationId,
    /// Both positions of the member.
    #[serde(flatten)]
    pub receipt: ReadReceipt,
    /// Position that moved.
    pub moved: ReceiptKind,
}

/// Which position of a receipt moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceiptKind {
    /// Messages were delivered to the member.
    Delivered,
    /// The member read messages, which also marks them as delivered.
    Read,
}

/// Computes the unread count: the messages after the badge position, without the member's own.
pub fn count(last_seq: u64, badge_seq: u64, own_after: u64) -> u64 {
    last_seq.saturating_sub(badge_seq).saturating_sub(own_after)
}
