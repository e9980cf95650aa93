//! Replay: applies committed messages again whose node may not have applied them.
//!
//! ```text
//! store unavailable ─▶ the watermark of this node stays ─▶ replay from it when the store answers again
//! killed ─▶ restart, or another node finds that the lease has ended ─▶ replay from the watermark in the database
//! new store epoch ─▶ one node replays the last minute
//! ```
//!
//! Invariants:
//! 1. A node writes its watermark into the database at most once a second, never with a message. A watermark is lower than
//!    the id of every message that its node may not have applied.
//! 2. A replay reads all messages after a watermark, of all nodes, in pages. Repeating it has no effect: messages are
//!    applied once, and the unread counters are computed from the rows.
//! 3. A conversation that cannot be applied for its own reason does not stop the replay: it gets an entry in the outbox.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};

use super::Messages;
use super::fill_gap::ASSUMED_APPLIED_AFTER;
use super::in_flight::UnappliedMessages;
use super::keys::RECOVERY_CLAIM_SECS;
use super::outbox_entries::UnappliedConversation;
use super::watermark_rows::{self, MessageToReplay, NodeWatermark};
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::ids::ConversationId;
use crate::outbox;

/// Time before a watermark from which messages are replayed. The clock of a node can go back that far.
const REPLAY_MARGIN: Duration = Duration::from_secs(5);
/// An idle node writes its watermark in this interval, so that a replay never goes back further.
const IDLE_WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// Conversations that are applied at the same time.
const MAX_CONCURRENT_CONVERSATIONS: usize = 8;
/// Conversations per update of the unread counters.
const CONVERSATIONS_PER_UPDATE: usize = 100;

/// Progress of the replays of a node.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ReplayState {
    start_replayed: bool,
    epoch: u64,
    /// Watermark of this node in the database.
    written: Option<Timestamp>,
}

impl Messages {
    /// Inserts the watermark of this node before its first message.
    pub async fn start(&self) -> Result<()> {
        let now = self.ctx.now();
        watermark_rows::insert(&self.database, self.nodes.id(), now).await
    }

    /// Replays messages of this node that could not be applied, and moves its watermark. The background task calls this
    /// every second. Fails if messages are still not applied.
    pub async fn catch_up(&self) -> Result<()> {
        let commit_timeout = self.database.options().timeout;
        let now = self.ctx.now();
        self.in_flight
            .advance(now, now.saturating_add(commit_timeout));
        let replayed = match self.in_flight.unapplied() {
            Some(unapplied) => self.replay_unapplied(unapplied, now).await,
            None => Ok(()),
        };
        // A replay can take long, and commits can fail meanwhile.
        let after = self.ctx.now();
        let watermark = self
            .in_flight
            .advance(after, after.saturating_add(commit_timeout));
        let state = *self.replay_state.lock();
        let is_due = state.written.is_none_or(|written| {
            watermark > written
                && (self.sent_since_write.swap(false, Ordering::AcqRel)
                    || watermark >= written.saturating_add(IDLE_WRITE_INTERVAL))
        });
        // Before the replay of the start, the row contains the watermark of an earlier run.
        if is_due && state.start_replayed {
            watermark_rows::write(&self.database, self.nodes.id(), watermark).await?;
            self.replay_state.lock().written = Some(watermark);
        }
        replayed
    }

    async fn replay_unapplied(&self, unapplied: UnappliedMessages, now: Timestamp) -> Result<()> {
        self.replay_since(unapplied.since).await?;
        self.in_flight.replayed(unapplied, now);
        Ok(())
    }

    /// Deletes the watermark of this node if all its messages are applied. No message may be sent afterwards.
    pub(super) async fn finish(&self) -> Result<()> {
        self.catch_up().await?;
        let written = self.replay_state.lock().written;
        if let Some(written) = written.filter(|_| self.in_flight.is_idle()) {
            let own = NodeWatermark {
                node: self.nodes.id().clone(),
                applied_before: written.as_millis(),
            };
            watermark_rows::delete(&self.database, &own).await?;
        }
        Ok(())
    }

    /// Replays messages of other nodes, and of earlier runs of this node: once at the start, when a node has died, and
    /// after a new store epoch. The background task calls this every second. Returns the number of conversations with
    /// unapplied messages.
    pub async fn recover_if_needed(&self) -> Result<usize> {
        let seen = *self.replay_state.lock();
        let epoch = self.ctx.store_epoch();
        let watermarks = watermark_rows::find_all(&self.database).await?;
        if !seen.start_replayed {
            let oldest = watermarks.iter().map(|it| it.applied_before).min();
            let behind = match oldest {
                Some(oldest) => self.replay_since(Timestamp(oldest)).await?,
                None => 0,
            };
            let mut state = self.replay_state.lock();
            (state.start_replayed, state.epoch) = (true, epoch);
            return Ok(behind);
        }
        let own = watermarks.iter().find(|it| it.node == *self.nodes.id());
        if own.is_none_or(|own| {
            seen.written
                .is_some_and(|it| it.as_millis() != own.applied_before)
        }) {
            // Another node has taken this one for dead.
            self.replay_state.lock().written = None;
        }
        let mut behind = self.recover_dead_nodes(watermarks).await?;
        if seen.epoch != epoch {
            behind += match self.claim_recovery(epoch).await? {
                RecoveryClaim::Ours => {
                    let since = self.ctx.now().saturating_sub(ASSUMED_APPLIED_AFTER);
                    self.replay_since(since).await?
                }
                RecoveryClaim::OtherNode => 0,
                RecoveryClaim::Undecided => return Ok(behind),
            };
            self.replay_state.lock().epoch = epoch;
        }
        Ok(behind)
    }

    async fn recover_dead_nodes(&self, watermarks: Vec<NodeWatermark>) -> Result<usize> {
        let mut behind = 0;
        for watermark in watermarks {
            if watermark.node == *self.nodes.id()
                || !self.nodes.may_expire_others()
                || self.nodes.is_alive(&watermark.node).await?
            {
                continue;
            }
            behind += self
                .replay_since(Timestamp(watermark.applied_before))
                .await?;
            watermark_rows::delete(&self.database, &watermark).await?;
        }
        Ok(behind)
    }

    /// Replays the messages whose ids are not older than this time. Returns the number of conversations with unapplied
    /// messages.
    async fn replay_since(&self, since: Timestamp) -> Result<usize> {
        let since = since.saturating_sub(REPLAY_MARGIN);
        // The clock of another node may be ahead.
        let end = self.ctx.now().saturating_add(REPLAY_MARGIN);
        let mut after = watermark_rows::min_message_id(since);
        let mut behind = 0;
        loop {
            let page = watermark_rows::find_messages(&self.database, &after, end).await?;
            let Some(last) = page.last() else {
                return Ok(behind);
            };
            after.clone_from(&last.id);
            behind += self.replay_page(page, since).await?;
        }
    }

    async fn replay_page(&self, page: Vec<MessageToReplay>, since: Timestamp) -> Result<usize> {
        let mut last_seqs: HashMap<ConversationId, u64> = HashMap::new();
        for message in page {
            let last = last_seqs.entry(message.conversation_id).or_default();
            *last = message.seq.max(*last);
        }
        let (conversations, last_seqs): (Vec<_>, Vec<_>) = last_seqs.into_iter().unzip();
        let applied_seqs = self.applied_seqs(&conversations).await?;
        let behind = conversations
            .iter()
            .zip(&last_seqs)
            .zip(applied_seqs)
            .filter(|((_, last), applied)| applied.is_none_or(|applied| applied < **last))
            .map(|((conversation, _), applied)| Ok((conversation, applied)));
        let behind: Vec<Result<_>> = behind.collect();
        let count = behind.len();
        stream::iter(behind)
            .try_for_each_concurrent(
                MAX_CONCURRENT_CONVERSATIONS,
                |(conversation, applied)| async move {
                    let applied = self.apply_after(conversation, applied, Some(since)).await;
                    self.queue_if_rejected(std::slice::from_ref(conversation), applied)
                        .await
                },
            )
            .await?;
        for conversations in conversations.chunks(CONVERSATIONS_PER_UPDATE) {
            let updated = self.unread.update_conversations_from_rows(conversations);
            let updated = updated.await;
            self.queue_if_rejected(conversations, updated).await?;
        }
        Ok(count)
    }

    /// If conversations cannot be applied for their own reason, inserts outbox entries that repeat it, and succeeds.
    pub(super) async fn queue_if_rejected(
        &self,
        conversations: &[ConversationId],
        applied: Result<()>,
    ) -> Result<()> {
        let Err(error) = applied else { return Ok(()) };
        if error.is_unavailable() {
            return Err(error);
        }
        tracing::error!(
            ?error,
            ?conversations,
            "cannot apply messages; the outbox repeats it"
        );
        for conversation in conversations {
            let unapplied = UnappliedConversation {
                conversation: conversation.clone(),
            };
            outbox::insert_once(&self.database, self.ctx.now(), &unapplied).await?;
        }
        Ok(())
    }

    /// Claims the recovery of an epoch for this node.
    async fn claim_recovery(&self, epoch: u64) -> Result<RecoveryClaim> {
        let key = self.ctx.keys().recovery_claim();
        let own = format!("{epoch}|{}", self.nodes.id());
        let mut store = self.ctx.store().idempotent();
        let mut claim = redis::cmd("SET");
        claim.arg(&key).arg(&own).arg("NX");
        claim.arg("EX").arg(RECOVERY_CLAIM_SECS);
        claim.exec_async(&mut store).await?;
        let holder: Option<String> = redis::cmd("GET").arg(&key).query_async(&mut store).await?;
        Ok(match holder {
            Some(holder) if holder == own => RecoveryClaim::Ours,
            Some(holder) if holder.starts_with(&format!("{epoch}|")) => RecoveryClaim::OtherNode,
            // The claim belongs to another epoch, or it has expired between both commands.
            _ => RecoveryClaim::Undecided,
        })
    }
}

/// Node that recovers the epoch.
enum RecoveryClaim {
    Ours,
    OtherNode,
    /// Not known yet. The task asks again.
    Undecided,
}
