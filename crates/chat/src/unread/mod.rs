//! Unread: how many messages wait for a user, per conversation and in all.
//!
//! Always true:
//! 1. Answers are derived from the rows: the conversation's last number less the member's badge position and their own
//!    messages after it. They are exact in a room of any size, and while the store is away.
//! 2. The keys in the store show the same to other services. They are written from the same positions, as maxima: a step may
//!    come late, twice or in any order. Nothing is ever incremented.
//! 3. The documented counter, the total and the frame on the user's channel come from one step in the user's slot.
//! 4. A state of another epoch, a missing one or a missing field is held against the rows before it is believed.
//! 5. Above the fan-out limit a message moves the sender's keys only. Those of the others follow with their next call.
//! 6. A step that fails or is given up after its row was committed is owed, and is paid within seconds.

pub mod keys;

mod field;
pub(crate) mod large;
mod operations;
mod ops;
mod positions;
mod reads;
mod recount;
mod repair;
mod rows;
mod steps;
mod tick;

use self::steps::CounterUpdate;
use crate::context::ChatContext;
use crate::database::Database;
use crate::error::Result;
use crate::ids::{ConversationId, UserId};
use crate::owed::RetryQueue;
use crate::paced::ConversationThrottle;
use crate::ticking::log_failure;

pub use self::operations::{GetUnread, ListReceipts, MarkDelivered, MarkRead, MarkUnread};
pub use self::ops::{
    ConversationUnread, CountedMessages, ReadReceipt, ReadReceiptPage, ReceiptChange, ReceiptKind,
    SenderPosition, UnreadChange, UnreadCount, UnreadSummary, count,
};
pub use self::repair::{CounterDifference, DifferenceKind, RepairReport};

/// Unread counts as one node keeps them.
pub struct Unread {
    ctx: ChatContext,
    database: Database,
    fanout_limit: u64,
    retry_queue: RetryQueue<UserId>,
    /// What is to be said of conversations above the limit.
    large_throttle: ConversationThrottle<large::Newest>,
}

impl Unread {
    /// The counts of a node. Up to `fanout_limit` members each member's keys are written with a message.
    pub fn new(ctx: ChatContext, database: Database, fanout_limit: u64) -> Self {
        Self {
            ctx,
            database,
            fanout_limit,
            retry_queue: RetryQueue::default(),
            large_throttle: ConversationThrottle::new(large::MIN_NOTIFY_INTERVAL),
        }
    }

    /// Up to how many members each member's keys are written with a message.
    pub fn fanout_limit(&self) -> u64 {
        self.fanout_limit
    }

    /// Messages were sent: to be called after their rows are committed, however often. A failure is owed to the members and
    /// must not fail the send.
    pub async fn sent(&self, sent: &CountedMessages<'_>) -> Result<()> {
        let others = CounterUpdate::MessageByOther {
            members_version: sent.members_version,
            seq: sent.seq,
        };
        let few = |members: &&[UserId]| members.len() as u64 <= self.fanout_limit;
        let members = sent.members.filter(few).unwrap_or_default();
        let mut steps = Vec::with_capacity(members.len() + sent.sender_positions.len());
        for (nth, wrote) in sent.sender_positions.iter().enumerate() {
            // Their last position is what counts.
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

    /// Messages were found that nobody had counted: sets the keys of these members right.
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

    /// These users have become members, and the change is committed: only those whose row it made, with the
    /// `members_version` that became their `joined_version`, and the conversation's `last_seq` then.
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
        // Nothing waits for a new member, so a state that is not there can wait, too.
        self.apply_updates(conversation, &steps, false).await
    }

    /// These users are no members any more, and the change is committed with this `members_version`.
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

    /// Applies steps, and counts anew whose state cannot take one.
    async fn apply_updates(
        &self,
        conversation: &ConversationId,
        steps: &[(&UserId, CounterUpdate)],
        recount: bool,
    ) -> Result<()> {
        let debt = self
            .retry_queue
            .guard(steps.iter().map(|(user, _)| (*user).clone()));
        let cold = steps::run_updates(&self.ctx, conversation, steps).await?;
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
