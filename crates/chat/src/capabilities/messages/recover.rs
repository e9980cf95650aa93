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
use super::append::AppendStatus;
use super::rows;
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::clock::{Timestamp, duration_millis};
use crate::keys::TtlName;

/// How far back recovery looks after a dead node or a new store epoch. It is longer than the detection of either takes.
const RECOVERY_WINDOW: Duration = Duration::from_secs(120);
/// How long a claim on recovering an epoch lasts, in seconds.
pub(super) const RECOVERY_CLAIM_SECS: u64 = 10;
/// Conversations or users per statement.
const RECOVERY_PAGE_SIZE: u64 = 500;

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
        let (epoch, ended) = (self.epoch(), *self.nodes.claimed_count().borrow());
        let behind = if !seen.start_recovered {
            // All conversations that may still have a recent list, because this may be the first recovery since their
            // last message.
            let back = self.ctx.keys().ttl(TtlName::Recent).max(RECOVERY_WINDOW);
            self.recover_period(back).await?
        } else if seen.claimed_dead_nodes != ended {
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
            claimed_dead_nodes: ended,
        };
        Ok(behind)
    }

    async fn recover_period(&self, back: Duration) -> Result<usize> {
        let now = self.ctx.now();
        let since = now.as_millis().saturating_sub(duration_millis(back));
        // The clock of another node may be ahead.
        let mut to = now.saturating_add(RECOVERY_WINDOW);
        let mut from = Timestamp(
            now.as_millis()
                .saturating_sub(duration_millis(RECOVERY_WINDOW)),
        );
        // In older slices, cold conversations are skipped: their messages are too old to be published.
        let (mut behind, mut cold) = (0, true);
        // Each slice is a short statement. The newest slice is first.
        loop {
            behind += self.recover_conversations(from, to, cold).await?;
            if cold {
                self.reconcile_active_members(from, to).await?;
            }
            self.republish_changes(from, to, cold).await?;
            if from.as_millis() <= since {
                return Ok(behind);
            }
            (to, cold) = (from, false);
            from = Timestamp(
                from.as_millis()
                    .saturating_sub(duration_millis(RECOVERY_WINDOW))
                    .max(since),
            );
        }
    }

    /// Recovers conversations with messages in this period; cold conversations only if `include_cold`.
    async fn recover_conversations(
        &self,
        from: Timestamp,
        to: Timestamp,
        cold: bool,
    ) -> Result<usize> {
        let (mut behind, mut after) = (0, String::new());
        loop {
            let page = rows::find_active_conversations(
                &self.database,
                from,
                to,
                &after,
                RECOVERY_PAGE_SIZE,
            )
            .await?;
            let Some((last, _)) = page.last() else {
                return Ok(behind);
            };
            after = last.to_string();
            let ids: Vec<_> = page.iter().map(|(id, _)| id.clone()).collect();
            let tops = self.applied_seqs(&ids).await?;
            for ((conversation, last_seq), top) in page.iter().zip(tops) {
                let done = match top {
                    Some(top) if top >= *last_seq => continue,
                    Some(top) => {
                        self.apply_missing(conversation, AppendStatus::Gap, top)
                            .await
                    }
                    None if cold => {
                        self.apply_missing(conversation, AppendStatus::Cold, 0)
                            .await
                    }
                    None => continue,
                };
                // A conversation that fails for its own reason does not stop the recovery of the others.
                if done.as_ref().is_err_and(Error::is_store_unavailable) {
                    return done.map(|()| behind);
                }
                log_failure("recover a conversation", &done);
                behind += 1;
            }
        }
    }

    /// Publishes the edits and deletes of this period again; if not `recent`, only those that are missing in the recent
    /// list.
    async fn republish_changes(
        &self,
        mut from: Timestamp,
        to: Timestamp,
        recent: bool,
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
                let shown = match recent {
                    true => self.publish_change(&conversation, row).await,
                    false => {
                        self.publish_change_if_list_is_stale(&conversation, row)
                            .await
                    }
                };
                if shown.as_ref().is_err_and(Error::is_store_unavailable) {
                    return shown;
                }
                log_failure("publish a change again", &shown);
            }
        }
    }

    /// Reconciles the unread counters of members of conversations with messages in this period.
    async fn reconcile_active_members(&self, from: Timestamp, to: Timestamp) -> Result<()> {
        let most = self.unread.fanout_limit();
        let mut after = String::new();
        loop {
            let users = rows::find_active_members(
                &self.database,
                most,
                (from, to),
                &after,
                RECOVERY_PAGE_SIZE,
            )
            .await?;
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
        claim
            .arg(&key)
            .arg(&own)
            .arg("NX")
            .arg("EX")
            .arg(RECOVERY_CLAIM_SECS);
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
