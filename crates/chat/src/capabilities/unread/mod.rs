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
//! 6. An update that fails or is cancelled after its row was committed is in the retry queue and is repeated within
//!    seconds.

pub mod keys;

mod background;
mod counts;
pub(crate) mod large_conversations;
mod mark;
mod model;
mod operations;
mod reconcile;
mod repair;
mod rows;
mod stored_counters;
mod update;

use self::update::CounterUpdate;
use crate::api::error::Result;
use crate::background::log_failure;
use crate::context::ChatContext;
use crate::database::Database;
use crate::ids::{ConversationId, UserId};
use crate::retry_queue::RetryQueue;
use crate::throttle::ConversationThrottle;

pub use self::model::{
    ConversationUnread, CountedMessages, ReadReceipt, ReadReceiptPage, ReceiptChange, ReceiptKind,
    SenderPosition, UnreadChange, UnreadCount, UnreadSummary, count,
};
pub use self::operations::{GetUnread, ListReceipts, MarkDelivered, MarkRead, MarkUnread};
pub use self::repair::{CounterDifference, DifferenceKind, RepairReport};

/// Service that maintains the unread counts on one node.
pub struct Unread {
    ctx: ChatContext,
    database: Database,
    fanout_limit: u64,
    retry_queue: RetryQueue<UserId>,
    /// Throttle of the notifications about conversations above the fan-out limit.
    large_throttle: ConversationThrottle<large_conversations::Newest>,
}

impl Unread {
    /// Creates the service. In conversations with up to `fanout_limit` members, a message updates the keys of all
    /// members.
    pub fn new(ctx: ChatContext, database: Database, fanout_limit: u64) -> Self {
        Self {
            ctx,
            database,
            fanout_limit,
            retry_queue: RetryQueue::default(),
            large_throttle: ConversationThrottle::new(large_conversations::MIN_NOTIFY_INTERVAL),
        }
    }

    /// Returns the number of members up to which a message updates the keys of all members.
    pub fn fanout_limit(&self) -> u64 {
        self.fanout_limit
    }

    /// Updates the counters after messages were committed. Repeating the call has no effect. If it fails, the users are
    /// in the retry queue, and the send must not fail because of it.
    pub async fn sent(&self, sent: &CountedMessages<'_>) -> Result<()> {
        let others = CounterUpdate::MessageByOther {
            members_version: sent.members_version,
            seq: sent.seq,
        };
        let few = |members: &&[UserId]| members.len() as u64 <= self.fanout_limit;
        let members = sent.members.filter(few).unwrap_or_default();
        let mut steps = Vec::with_capacity(members.len() + sent.sender_positions.len());
        for (nth, wrote) in sent.sender_positions.iter().enumerate() {
            // Only the last position of each sender matters.
            let later = &sent.sender_positions[nth + 1..];
            if later.iter().all(|it| it.user != wrote.user) {
                let step = CounterUpdate::MessageByUser {
                    joined_version: wrote.joined_version,
                    position_version: wrote.position_version,
                    seq: wrote.seq,
                    top: sent.seq,
                };
                steps.push((&wrote.user, step));
            }
        }
        let senders = steps.len();
        for member in members {
            if steps[..senders].iter().all(|(user, _)| *user != member) {
                steps.push((member, others));
            }
        }
        let newest = (sent.seq, sent.members_version);
        let arrived =
            self.notify_large_conversation(sent.conversation, newest, sent.members.map(<[_]>::len));
        let steps = self.apply_updates(sent.conversation, &steps, true);
        let (arrived, applied) = tokio::join!(arrived, steps);
        log_failure("notify a large conversation", &arrived);
        applied
    }

    /// Reconciles the keys of these members after recovery applied messages that were not counted.
    pub(crate) async fn found(
        &self,
        conversation: &ConversationId,
        members: &[UserId],
    ) -> Result<()> {
        let debt = self.retry_queue.guard(members.iter().cloned());
        self.reconcile_users(members, Some(conversation)).await?;
        debt.complete();
        Ok(())
    }

    /// Updates the counters of new members after the change was committed. Pass only users whose row the change
    /// created, the `members_version` that became their `joined_version`, and the conversation's `last_seq` at that
    /// time.
    pub async fn apply_joined(
        &self,
        conversation: &ConversationId,
        users: &[UserId],
        members_version: u64,
        last_seq: u64,
    ) -> Result<()> {
        let step = CounterUpdate::Position {
            joined_version: members_version,
            position_version: 0,
            top: last_seq,
            badge: last_seq,
            own: 0,
            muted_until: 0,
        };
        let steps: Vec<_> = users.iter().map(|user| (user, step)).collect();
        // A new member has no unread messages, so a missing state need not be reconciled now.
        self.apply_updates(conversation, &steps, false).await
    }

    /// Removes the counters of former members after the change with this `members_version` was committed.
    pub async fn left(
        &self,
        conversation: &ConversationId,
        users: &[UserId],
        members_version: u64,
    ) -> Result<()> {
        let step = CounterUpdate::Left { members_version };
        let steps: Vec<_> = users.iter().map(|user| (user, step)).collect();
        self.apply_updates(conversation, &steps, true).await
    }

    /// Runs counter updates and reconciles the users whose state cannot take an update.
    async fn apply_updates(
        &self,
        conversation: &ConversationId,
        steps: &[(&UserId, CounterUpdate)],
        recount: bool,
    ) -> Result<()> {
        let debt = self
            .retry_queue
            .guard(steps.iter().map(|(user, _)| (*user).clone()));
        let cold = update::run_updates(&self.ctx, conversation, steps).await?;
        if recount && !cold.is_empty() {
            let cold: Vec<UserId> = cold.into_iter().cloned().collect();
            Box::pin(self.reconcile_users(&cold, Some(conversation))).await?;
        }
        debt.complete();
        Ok(())
    }

    fn epoch(&self) -> u64 {
        *self.ctx.store().epoch().borrow()
    }
}

impl std::fmt::Debug for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unread")
    }
}
