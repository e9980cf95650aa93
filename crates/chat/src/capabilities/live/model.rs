//! Events of the live feeds, and the traits of their subscribers.
//!
//! Invariants:
//! 1. A subscriber must not block or wait, because it is called on the task that reads the bus or under the lock of a
//!    feed. It may drop its own subscription or any other one.

use crate::conversations::MemberChange;
use crate::ids::{ConversationId, UserId};
use crate::typing::TypingChange;
use crate::unread::ReceiptChange;

/// Receives the events of a conversation.
pub trait ConversationSubscriber: Send + Sync + 'static {
    /// Handles one event. Calls do not overlap and have the order of the events.
    fn on_event(&self, event: &ConversationEvent<'_>);

    /// Returns the users that this node shows the conversation to. The feed calls it if member changes may be missing:
    /// users of this list who are no longer members are delivered as `left` before any later event. The call obeys the
    /// same rules as [`on_event`](Self::on_event).
    fn users(&self) -> Vec<UserId>;
}

/// An event of a conversation feed.
#[derive(Debug, Clone, Copy)]
pub enum ConversationEvent<'a> {
    /// A new message. Each message is delivered once, in the order of `seq` and without gaps.
    MessageCreated {
        /// `seq` of the message.
        seq: u64,
        /// Revision of the message, above that of its creation if the message was changed before its delivery.
        rev: u64,
        /// The message as JSON.
        json: &'a [u8],
    },
    /// A message was edited or deleted that the feed has delivered, or that is older than the subscription. The
    /// revisions of one message only increase.
    MessageChanged {
        /// `seq` of the message.
        seq: u64,
        /// New revision of the message.
        rev: u64,
        /// True if the message is deleted.
        deleted: bool,
        /// The message as JSON.
        json: &'a [u8],
    },
    /// A message was edited or deleted that the feed has not delivered yet, and will deliver in its changed state. For
    /// clients that have loaded the message from the history. Ordered by `rev` with the other changes.
    UndeliveredMessageChanged {
        /// `seq` of the message.
        seq: u64,
        /// New revision of the message.
        rev: u64,
        /// True if the message is deleted.
        deleted: bool,
        /// The message as JSON.
        json: &'a [u8],
    },
    /// A member received or read messages. A receipt can be delivered twice. After frames were lost, the current
    /// receipts of a small conversation are delivered again; those of a larger one are not.
    ReceiptMoved(&'a ReceiptChange),
    /// A member types, still types, or stopped. Each stop is delivered once.
    TypingChanged(&'a TypingChange),
    /// Members joined, left or got another role. Ordered with the messages: a leave is delivered before messages that the
    /// user must not see. If frames were lost, only those who left are known; `ConversationUpdated` then follows with the
    /// new version of the members.
    MembersChanged {
        /// Version of the members after the change.
        members_version: u64,
        /// The changes.
        members: &'a [MemberChange],
    },
    /// Title, `open`, `history` or priority of the conversation changed, or members changed and the changes are not
    /// known.
    ConversationUpdated {
        /// The [`Conversation`](crate::conversations::Conversation) as JSON.
        json: &'a [u8],
    },
    /// The conversation was deleted. No event follows.
    ConversationDeleted,
}

/// Receives the events of a user.
pub trait UserSubscriber: Send + Sync + 'static {
    /// Handles one event. Two calls can overlap.
    fn on_event(&self, event: &UserEvent<'_>);
}

/// An event of a user feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserEvent<'a> {
    /// Unread counts of the user changed. The JSON is `{conversationId, count, total}`, or `{conversationId, lastSeq}`
    /// for a large conversation, at most once per second.
    UnreadChanged(&'a [u8]),
    /// The user joined or left a conversation. Can be delivered twice.
    MembershipChanged {
        /// Id of the conversation.
        conversation: ConversationId,
        /// True if the user is a member now.
        joined: bool,
    },
    /// Title, `open`, `history` or priority of a conversation changed. Can be delivered twice, and late: its `version`
    /// shows which state is newer. Not delivered for conversations above the fan-out limit.
    ConversationUpdated {
        /// Id of the conversation.
        conversation: ConversationId,
        /// The [`Conversation`](crate::conversations::Conversation) as JSON.
        json: &'a [u8],
    },
    /// Events may have been lost; the client should load its state again.
    EventsMaybeLost,
}
