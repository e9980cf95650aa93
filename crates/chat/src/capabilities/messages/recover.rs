//! Recovery: applies messages and publishes edits whose node died between the commit and the store update.
//!
//! Invariants:
//! 1. A newer message repairs the gap before it, so recovery only looks at the last message of recently active
//!    conversations. A message can be applied but not counted, so recovery also reconciles the unread counters of the
//!    members (up to the fan-out limit).
//! 2. No later event repairs a lost edit or delete. Changes within `RECOVERY_WINDOW` are published again. Older changes
//!    are published only if the recent list still contains the old version.
//! 3. A node runs recovery at its start, after it claimed a dead node, and after it claimed a new store epoch. Running
//!    recovery twice is harmless: messages are applied once, and a change is identified by its revision.

use std::time::Duration;

use super::Messages;
use super::keys::RECOVERY_CLAIM_SECS;
use super::rows;
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::clock::{Timestamp, duration_millis};
use crate::keys::TtlName;

/// How far back recovery looks after a dead node or a new store epoch. It is longer than the detection of either takes.
const RECOVERY_WINDOW: Duration = Duration::from_secs(120);

/// Progress of the recovery task of a node.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RecoveryState {
    start_recovered: bool,
    epoch: u64,
    /// Number of dead nodes that this node has claimed.
    claimed_dead_nodes: u64,
}

impl Messages {
    /// Runs recovery if the node started, claimed a dead node or the store epoch changed. The background task calls
    /// this every second. Returns the number of conversations with unapplied messages.
    pub async fn recover_if_needed(&self) -> Result<usize> {
        let seen = *self.recovery_state.lock();
        let (epoch, claimed_dead_nodes) =
            (self.ctx.store_epoch(), *self.nodes.claimed_count().borrow());
        let behind = if !seen.start_recovered {
            // All conversations that may still have a recent list, because this may be the first recovery since their
            // last message.
            let back = self.ctx.keys().ttl(TtlName::Recent).max(RECOVERY_WINDOW);
            self.recover_period(back).await?
        } else if seen.claimed_dead_nodes != claimed_dead_nodes {
            self.recover_period(RECOVERY_WINDOW).await?
        } else if seen.epoch != epoch {
            match self.claim_recovery(epoch).await? {
                RecoveryClaim::Ours => self.recover_period(RECOVERY_WINDOW).await?,
                RecoveryClaim::OtherNode => 0,
                RecoveryClaim::Undecided => return Ok(0),
            }
        } else {
            return Ok(0);
        };
        *self.recovery_state.lock() = RecoveryState {
            start_recovered: true,
            epoch,
            claimed_dead_nodes,
        };
        Ok(behind)
    }

    async fn recover_period(&self, back: Duration) -> Result<usize> {
        let now = self.ctx.now();
        let start = Timestamp(now.as_millis().saturating_sub(duration_millis(back)));
        // The clock of another node may be ahead.
        let mut to = now.saturating_add(RECOVERY_WINDOW);
        let mut from = now.saturating_sub(RECOVERY_WINDOW);
        // In older slices, cold conversations are skipped: their messages are too old to be published.
        let (mut recovered, mut is_recent) = (0, true);
        // Each slice is a short statement. The newest slice is first.
        loop {
            recovered += self.recover_conversations(from, to, is_recent).await?;
            if is_recent {
                self.reconcile_active_members(from, to).await?;
            }
            self.republish_changes(from, to, is_recent).await?;
            if from <= start {
                return Ok(recovered);
            }
            (to, is_recent) = (from, false);
            from = from.saturating_sub(RECOVERY_WINDOW).max(start);
        }
    }

    /// Recovers conversations with messages in this period; cold conversations only if `include_cold`.
    async fn recover_conversations(
        &self,
        from: Timestamp,
        to: Timestamp,
        include_cold: bool,
    ) -> Result<usize> {
        let (mut recovered, mut after) = (0, String::new());
        loop {
            let period = (from, to);
            let page = rows::find_active_conversations(&self.database, period, &after).await?;
            let Some((last, _)) = page.last() else {
                return Ok(recovered);
            };
            after = last.to_string();
            let ids: Vec<_> = page.iter().map(|(id, _)| id.clone()).collect();
            let applied_seqs = self.applied_seqs(&ids).await?;
            for ((conversation, last_seq), applied_seq) in page.iter().zip(applied_seqs) {
                let is_applied = applied_seq.map_or(!include_cold, |seq| seq >= *last_seq);
                if is_applied {
                    continue;
                }
                let applied = self.apply_after(conversation, applied_seq).await;
                // A conversation that fails for its own reason does not stop the recovery of the others.
                if applied.as_ref().is_err_and(Error::is_store_unavailable) {
                    return applied.map(|()| recovered);
                }
                log_failure("recover a conversation", &applied);
                recovered += 1;
            }
        }
    }

    /// Publishes the edits and deletes of this period again; if not `is_recent`, only those that are missing in the recent
    /// list.
    async fn republish_changes(
        &self,
        mut from: Timestamp,
        to: Timestamp,
        is_recent: bool,
    ) -> Result<()> {
        let mut after = String::new();
        loop {
            let page = rows::find_changed_in_period(&self.database, (from, to), &after).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            from = Timestamp(last.changed_at());
            after.clone_from(&last.id);
            for row in page {
                let conversation = row.conversation_id.clone();
                let published = match is_recent {
                    true => self.publish_change(&conversation, row).await,
                    false => {
                        self.publish_change_if_list_is_stale(&conversation, row)
                            .await
                    }
                };
                if published.as_ref().is_err_and(Error::is_store_unavailable) {
                    return published;
                }
                log_failure("publish a change again", &published);
            }
        }
    }

    /// Reconciles the unread counters of members of conversations with messages in this period.
    async fn reconcile_active_members(&self, from: Timestamp, to: Timestamp) -> Result<()> {
        let max_members = self.unread.fanout_limit();
        let mut after = String::new();
        loop {
            let period = (from, to);
            let users =
                rows::find_active_members(&self.database, max_members, period, &after).await?;
            let Some(last) = users.last() else {
                return Ok(());
            };
            after = last.to_string();
            self.unread.reconcile_changed(&users).await?;
        }
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
