//! Counter updates: after a message, a join, a leave or a mark, one update per user, for many users in one round trip.
//!
//! ```text
//! row committed ──▶ update_counters.lua ──1──▶ counter, total, frame
//!                          │ 0: no state of this epoch, or a field is missing
//!                          ▼
//!                   reconcile_counters.lua, with the rows of the user (reconcile.rs)
//!
//! error, cancelled or killed ──▶ watermark of the node, or outbox ──▶ update_from_rows.rs
//! ```
//!
//! Invariants:
//! 1. An update carries positions that the script merges as maxima, so it can come late, twice or in any order.
//! 2. The caller repeats an update that fails: it is covered by the watermark of the node, or by an outbox entry.

use std::collections::HashSet;

use parlor_store::ScriptCall;
use redis::pipe;

use super::keys::UNREAD_STATE_TTL_SECS;
use super::rows::MemberPosition;
use super::scripts::UPDATE_COUNTERS;
use super::{CountedMessages, Unread};
use crate::api::error::Result;
use crate::background::log_failure;
use crate::bus::frame::{self, BusFrameKind};
use crate::context::ChatContext;
use crate::ids::{ConversationId, UserId};
use crate::keys::ForeignKeyWarning;

/// TTL of a user's unread state, counted from its last change.
pub(super) const UNREAD_STATE_TTL_MS: u64 = UNREAD_STATE_TTL_SECS * 1_000;
/// Maximum number of users per script call, because a running script blocks all other clients of the store.
const MAX_USERS_PER_CALL: usize = 32;
/// Maximum number of users per pipeline.
const MAX_USERS_PER_PIPELINE: usize = 1_024;

static FOREIGN_COUNTER: ForeignKeyWarning =
    ForeignKeyWarning::new("clients get the right count, and other services do not");

/// One update of a user's counter in a conversation.
#[derive(Debug, Clone, Copy)]
pub(super) enum CounterUpdate {
    /// Another member sent a message.
    MessageByOther { members_version: u64, seq: u64 },
    /// The user sent a message; other members may have sent later ones, up to `last_seq`.
    MessageByUser {
        joined_version: u64,
        position_version: u64,
        seq: u64,
        last_seq: u64,
    },
    /// The user joined, read, marked as unread or muted: the row has this position.
    Position {
        joined_version: u64,
        position_version: u64,
        last_seq: u64,
        badge_seq: u64,
        own_after: u64,
        muted_until: u64,
    },
    /// The user is no member any more.
    Left { members_version: u64 },
}

/// The updates of one conversation.
pub(super) struct UpdateBatch<'a> {
    pub(super) conversation: &'a ConversationId,
    pub(super) updates: Vec<(&'a UserId, CounterUpdate)>,
}

impl From<&MemberPosition> for CounterUpdate {
    fn from(position: &MemberPosition) -> Self {
        Self::Position {
            joined_version: position.joined_version,
            position_version: position.position_version,
            last_seq: position.last_seq,
            badge_seq: position.badge_seq,
            own_after: position.own_after,
            muted_until: position.muted_until,
        }
    }
}

impl CounterUpdate {
    fn append_args(self, call: ScriptCall) -> ScriptCall {
        let (kind, numbers, muted_until) = match self {
            Self::MessageByOther {
                members_version,
                seq,
            } => ("sent", [members_version, 0, seq, 0, 0], None),
            Self::Left { members_version } => ("left", [members_version, 0, 0, 0, 0], None),
            Self::MessageByUser {
                joined_version,
                position_version,
                seq,
                last_seq,
            } => {
                let numbers = [joined_version, position_version, last_seq, seq, 0];
                ("placed", numbers, None)
            }
            Self::Position {
                joined_version,
                position_version,
                last_seq,
                badge_seq,
                own_after,
                muted_until,
            } => {
                let numbers = [
                    joined_version,
                    position_version,
                    last_seq,
                    badge_seq,
                    own_after,
                ];
                ("placed", numbers, Some(muted_until))
            }
        };
        let call = call.arg(kind).arg(&numbers[..]);
        match muted_until {
            Some(until) => call.arg(until),
            None => call.arg(""),
        }
    }
}

impl Unread {
    /// Updates the counters after messages were committed. Repeating the call has no effect. The send must not fail
    /// because of an error.
    pub async fn count_messages(&self, messages: &CountedMessages<'_>) -> Result<()> {
        let is_small = |members: &&[UserId]| members.len() as u64 <= self.fanout_limit;
        let members = messages.members.filter(is_small).unwrap_or_default();
        let mut updates = Vec::with_capacity(members.len() + messages.sender_positions.len());
        let mut senders = HashSet::new();
        // Only the last position of each sender matters.
        for sender in messages.sender_positions.iter().rev() {
            if senders.insert(&sender.user) {
                let update = CounterUpdate::MessageByUser {
                    joined_version: sender.joined_version,
                    position_version: sender.position_version,
                    seq: sender.seq,
                    last_seq: messages.seq,
                };
                updates.push((&sender.user, update));
            }
        }
        let others = CounterUpdate::MessageByOther {
            members_version: messages.members_version,
            seq: messages.seq,
        };
        let receivers = members.iter().filter(|it| !senders.contains(it));
        updates.extend(receivers.map(|member| (member, others)));
        let newest = (messages.seq, messages.members_version);
        let member_count = messages.members.map(<[_]>::len);
        let notify = self.notify_large_conversation(messages.conversation, newest, member_count);
        let apply = self.apply_updates(messages.conversation, &updates, true);
        let (notified, applied) = tokio::join!(notify, apply);
        log_failure("notify a large conversation", &notified);
        applied
    }

    /// Updates the counters of new members after the change was committed. Pass only users whose row the change
    /// created, the `members_version` that became their `joined_version`, and the conversation's `last_seq` at that
    /// time.
    pub async fn add_members(
        &self,
        conversation: &ConversationId,
        users: &[UserId],
        members_version: u64,
        last_seq: u64,
    ) -> Result<()> {
        let update = CounterUpdate::Position {
            joined_version: members_version,
            position_version: 0,
            last_seq,
            badge_seq: last_seq,
            own_after: 0,
            muted_until: 0,
        };
        let updates: Vec<_> = users.iter().map(|user| (user, update)).collect();
        // A new member has no unread messages, so a missing state need not be reconciled now.
        self.apply_updates(conversation, &updates, false).await
    }

    /// Removes the counters of former members after the change with this `members_version` was committed.
    pub async fn remove_members(
        &self,
        conversation: &ConversationId,
        users: &[UserId],
        members_version: u64,
    ) -> Result<()> {
        let update = CounterUpdate::Left { members_version };
        let updates: Vec<_> = users.iter().map(|user| (user, update)).collect();
        self.apply_updates(conversation, &updates, true).await
    }

    /// Runs the updates of several conversations in few round trips. Users whose state cannot take an update are
    /// reconciled.
    pub(super) async fn apply_batches(&self, batches: &[UpdateBatch<'_>]) -> Result<()> {
        let calls = batches.iter().flat_map(|batch| {
            let parts = batch.updates.chunks(users_per_call(&self.ctx));
            parts.map(|updates| (batch.conversation, updates))
        });
        let calls: Vec<_> = calls.collect();
        let mut cold: HashSet<&UserId> = HashSet::new();
        for calls in calls.chunks(MAX_USERS_PER_PIPELINE / users_per_call(&self.ctx)) {
            let mut pipe = pipe();
            let mut updated = Vec::new();
            for (conversation, updates) in calls {
                pipe.add_command(update_call(&self.ctx, conversation, updates).cmd());
                updated.extend(updates.iter().map(|(user, _)| (*user, *conversation)));
            }
            let mut store = self.ctx.store().idempotent();
            let replies: Vec<Vec<i64>> = pipe.query_async(&mut store).await?;
            for ((user, conversation), reply) in updated.into_iter().zip(replies.iter().flatten()) {
                match reply {
                    0 => drop(cold.insert(user)),
                    2 => report_foreign_counter(&self.ctx, conversation, user),
                    _ => {}
                }
            }
        }
        let cold: Vec<UserId> = cold.into_iter().cloned().collect();
        Box::pin(self.reconcile_users(&cold, None)).await
    }

    /// Runs counter updates. With `reconcile`, users whose state cannot take an update are reconciled.
    pub(super) async fn apply_updates(
        &self,
        conversation: &ConversationId,
        updates: &[(&UserId, CounterUpdate)],
        reconcile: bool,
    ) -> Result<()> {
        let cold = run_updates(&self.ctx, conversation, updates).await?;
        if reconcile && !cold.is_empty() {
            let cold: Vec<UserId> = cold.into_iter().cloned().collect();
            Box::pin(self.reconcile_users(&cold, Some(conversation))).await?;
        }
        Ok(())
    }
}

/// Runs updates in a conversation. Returns the users whose state must be reconciled with the rows first.
pub(super) async fn run_updates<'u>(
    ctx: &ChatContext,
    conversation: &ConversationId,
    updates: &[(&'u UserId, CounterUpdate)],
) -> Result<Vec<&'u UserId>> {
    let users_per_call = users_per_call(ctx);
    let mut cold = Vec::new();
    for updates in updates.chunks(MAX_USERS_PER_PIPELINE) {
        let mut pipe = pipe();
        for updates in updates.chunks(users_per_call) {
            pipe.add_command(update_call(ctx, conversation, updates).cmd());
        }
        let mut store = ctx.store().idempotent();
        let replies: Vec<Vec<i64>> = pipe.query_async(&mut store).await?;
        let replies = updates.iter().zip(replies.into_iter().flatten());
        for ((user, _), reply) in replies {
            match reply {
                0 => cold.push(*user),
                2 => report_foreign_counter(ctx, conversation, user),
                _ => {}
            }
        }
    }
    Ok(cold)
}

fn report_foreign_counter(ctx: &ChatContext, conversation: &ConversationId, user: &UserId) {
    FOREIGN_COUNTER.report(&format!(
        "{} or {}",
        ctx.keys().unread(user, conversation),
        ctx.keys().unread_total(user)
    ));
}

/// Number of users per script call. In cluster mode the users of a call would have to share a hash slot.
fn users_per_call(ctx: &ChatContext) -> usize {
    match ctx.keys().cluster() {
        true => 1,
        false => MAX_USERS_PER_CALL,
    }
}

/// Builds the call of the update script.
pub(super) fn update_call(
    ctx: &ChatContext,
    conversation: &ConversationId,
    updates: &[(&UserId, CounterUpdate)],
) -> ScriptCall {
    let keys = ctx.keys();
    let names = updates.iter().flat_map(|(user, _)| {
        [
            keys.unread_state(user),
            keys.unread(user, conversation),
            keys.unread_total(user),
        ]
    });
    let call = UPDATE_COUNTERS
        .keys(names.collect::<Vec<_>>())
        .arg(ctx.now().as_millis())
        .arg(ctx.store_epoch())
        .arg(UNREAD_STATE_TTL_MS)
        .arg(ctx.store().bus().publish_command())
        .arg(&frame::start_frame(BusFrameKind::UnreadChanged, 0)[..])
        .arg(conversation);
    updates.iter().fold(call, |call, (user, update)| {
        update.append_args(call.arg(keys.user_channel(user)))
    })
}
