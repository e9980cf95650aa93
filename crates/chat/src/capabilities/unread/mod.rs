//! Unread counts of users, per conversation and in total, and how far each member has received and read a conversation.
//!
//! Invariants:
//! 1. Replies are computed from the database: the conversation's `last_seq` minus the member's `badge_seq` and their
//!    own messages after it. They are exact in a conversation of any size, also while the store is unavailable.
//! 2. The keys in the store repeat these counts for other services. Updates carry positions that are merged as maxima,
//!    so an update can come late, twice or in any order. No counter is ever incremented.
//! 3. One script call in the user's hash slot writes the documented counter, the total and the frame on the user's
//!    channel.
//! 4. A state or field that is missing, or a state of another epoch, is compared with the database rows before it is
//!    used.
//! 5. Above the fan-out limit a message updates the keys of its sender only. The keys of another member are updated by
//!    that member's next call.
//! 6. An update whose row is committed reaches the keys, whatever happens to the process: the watermark of its node
//!    repeats the update of a message, the outbox every other one.

pub mod keys;

mod background;
mod counts;
pub(crate) mod large_conversations;
mod mark;
mod marked_position;
mod model;
mod operation_group;
mod operations;
mod rebuild;
mod receipts;
mod reconcile;
mod repair;
mod rows;
mod scripts;
mod stored_counters;
mod update;
mod update_from_rows;

use std::sync::Arc;

use crate::context::ChatContext;
use crate::database::Database;
use crate::ids::ConversationId;
use crate::outbox::OutboxWorker;
use crate::throttle::NewestThrottle;

pub(crate) use self::marked_position::MarkedPosition;
pub use self::model::{
    ConversationUnread, CountedMessages, ReadReceipt, ReadReceiptPage, ReceiptChange, ReceiptKind,
    SenderPosition, UnreadChange, UnreadCount, UnreadSummary, count,
};
pub use self::operation_group::OPERATIONS;
pub use self::operations::{GetUnread, ListReceipts, MarkDelivered, MarkRead, MarkUnread};
pub(crate) use self::rows::UPDATE_READ;

pub use self::repair::{CounterDifference, DifferenceKind, RepairReport};

/// Service that maintains the unread counts on one node.
pub struct Unread {
    ctx: ChatContext,
    database: Database,
    fanout_limit: u64,
    /// Throttle of the notifications about conversations above the fan-out limit.
    large_throttle: NewestThrottle<ConversationId, large_conversations::Newest>,
}

impl Unread {
    /// Creates the service. In conversations with up to `fanout_limit` members, a message updates the keys of all
    /// members.
    pub fn new(ctx: ChatContext, database: Database, fanout_limit: u64) -> Self {
        Self {
            ctx,
            database,
            fanout_limit,
            large_throttle: large_conversations::new_throttle(),
        }
    }

    /// Returns the number of members up to which a message updates the keys of all members.
    pub fn fanout_limit(&self) -> u64 {
        self.fanout_limit
    }
}

/// Registers the kinds of outbox entries of this capability.
pub(crate) fn register_outbox_kinds(unread: &Arc<Unread>, outbox: &mut OutboxWorker) {
    outbox.register::<MarkedPosition>(unread);
}

impl std::fmt::Debug for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unread")
    }
}
