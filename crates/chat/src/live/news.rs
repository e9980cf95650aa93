//! What a follower is told.
//!
//! Always true: whoever is told must not block or wait, for it is called where the bus is read, or under a lock of the
//! room's own. It may drop its own [`Follow`](super::Follow) or any other.

use crate::ids::{ConversationId, UserId};
use crate::typing::TypingChange;
use crate::unread::ReceiptChange;

/// Somebody who is told what happens in a conversation.
pub trait ConversationSubscriber: Send + Sync + 'static {
    /// Something happened. Called by one at a time, in order.
    fn on_event(&self, news: &ConversationEvent<'_>);

    /// Who is shown the conversation here. Asked when news of its members may be missing: those who are no members any more
    /// are told to have left, before anything that happened since. Called as [`told`](Self::told) is.
    fn users(&self) -> Vec<UserId>;
}

/// Something that happened in a conversation.
#[derive(Debug, Clone, Copy)]
pub enum ConversationEvent<'a> {
    /// A message: each once, in the order of `seq`, none left out.
    MessageCreated {
        /// Its number.
        seq: u64,
        /// Its revision: higher than that of its creation if it was changed before it could be told.
        rev: u64,
        /// The message as JSON.
        json: &'a [u8],
    },
    /// A message that was told, or that is older than the following, was edited or deleted. Of one message the revision
    /// only rises.
    MessageChanged {
        /// Its number.
        seq: u64,
        /// Its revision.
        rev: u64,
        /// Whether it is deleted.
        deleted: bool,
        /// The message as JSON.
        json: &'a [u8],
    },
    /// A message was edited or deleted that is yet to be told, and will be told as it is then: for those who know it from
    /// elsewhere. In order with the other changes.
    UndeliveredMessageChanged {
        /// Its number.
        seq: u64,
        /// Its revision.
        rev: u64,
        /// Whether it is deleted.
        deleted: bool,
        /// The message as JSON.
        json: &'a [u8],
    },
    /// A member has got or read messages. One may come twice. After a time without a bus those of a small conversation are
    /// told as they stand; those of a larger one are not made up for.
    ReceiptMoved {
        /// They got messages, up to `delivered_seq`.
        delivered: bool,
        /// They read messages, up to `read_seq`, and got them by that.
        read: bool,
        /// Who, and how far.
        change: &'a ReceiptChange,
    },
    /// Somebody types, still does, or no longer; each end is told once.
    TypingChanged(&'a TypingChange),
    /// Members came or went. In order with the messages: who left is told before what they must not see.
    MembersChanged {
        /// The version of the members after it.
        members_version: u64,
        /// Who came, as far as it is known.
        joined: &'a [UserId],
        /// Who went.
        left: &'a [UserId],
    },
    /// The conversation was deleted. Nothing follows.
    ConversationDeleted,
}

/// Somebody who is told what concerns a user.
pub trait UserSubscriber: Send + Sync + 'static {
    /// Something happened. May be called by two at once.
    fn on_event(&self, news: &UserEvent<'_>);
}

/// Something that concerns a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserEvent<'a> {
    /// What waits for the user in a conversation changed, as JSON: `{conversationId, count, total}`, or in a large
    /// conversation `{conversationId, lastSeq}`, at most once a second.
    UnreadChanged(&'a [u8]),
    /// The user came into a conversation or left it. May come twice.
    MembershipChanged {
        /// Which.
        conversation: ConversationId,
        /// Whether they are a member now.
        joined: bool,
    },
    /// News may be missing here. What the user is shown should be read again.
    EventsMaybeLost,
}
