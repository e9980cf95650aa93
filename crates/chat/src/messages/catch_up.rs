//! Catching up: applying messages, edits and deletes whose node ended between the commit and the step after it.
//!
//! Always true:
//! 1. The next message of a conversation repairs what is missing before it. So only last messages are looked for: those of
//!    conversations in which somebody wrote lately. A message that was applied may not have been counted; so their members'
//!    counts are held against the rows in any case.
//! 2. A change has no next one that repairs it: those of the last minutes are shown again. Of older ones nobody waits to be
//!    told, and only a list that still shows the old text is set right.
//! 3. A node looks when it starts, when it has claimed a node that ended, and when it has claimed a new epoch of the store.
//!    Looking twice is harmless: messages are applied once, and a change is known by its revision.

use std::time::Duration;

use super::Messages;
use super::append::AppendStatus;
use super::rows;
use crate::context::{Timestamp, duration_millis};
use crate::error::{Error, Result};
use crate::keys::TtlName;
use crate::ticking::log_failure;

/// How far back is looked after a node has ended, or the store came back with other data: longer than either takes to be
/// noticed.
const RECOVERY_WINDOW: Duration = Duration::from_secs(120);
/// How long a claim of an epoch holds, in seconds, as in the declaration of the key.
pub(super) const RECOVERY_CLAIM_SECS: u64 = 10;
/// Conversations or users of one page.
const RECOVERY_PAGE_SIZE: u64 = 500;

/// What a node has caught up with.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RecoveryState {
    start_recovered: bool,
    epoch: u64,
    /// Ended nodes that this one has claimed.
    claimed_dead_nodes: u64,
}

impl Messages {
    /// Looks for messages to catch up with, if there is a reason to: the start, an ended node, a new epoch. To be called
    /// every second. How many conversations were behind.
    pub async fn recover_if_needed(&self) -> Result<usize> {
        let seen = *self.recovery_state.lock();
        let (epoch, ended) = (self.epoch(), *self.nodes.claimed_count().borrow());
        let behind = if !seen.start_recovered {
            // All that may still have a list: nobody may have been there to look before.
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
        // Another node's clock may be a little ahead.
        let mut to = now.saturating_add(RECOVERY_WINDOW);
        let mut from = Timestamp(
            now.as_millis()
                .saturating_sub(duration_millis(RECOVERY_WINDOW)),
        );
        // Of what is older no message waits to be told where the top is not known.
        let (mut behind, mut cold) = (0, true);
        // In slices, newest first: no statement is to take long.
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

    /// Catches up with conversations in which messages were written in this time; those whose top is not known if `cold`.
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
                // The others are not to wait for one that fails for a reason of its own.
                if done.as_ref().is_err_and(Error::is_store_unavailable) {
                    return done.map(|()| behind);
                }
                log_failure("recover a conversation", &done);
                behind += 1;
            }
        }
    }

    /// Shows what was edited or deleted in this time; if not `recent`, only where a list shows it as it was.
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

    /// Holds the counts of those against the rows to whom somebody wrote in this time.
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

    /// Who catches up in this epoch.
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
            // That of another epoch, or one that ended just now.
            _ => RecoveryClaim::Undecided,
        })
    }
}

/// Who has to catch up.
enum RecoveryClaim {
    Ours,
    OtherNode,
    /// It is not known yet.
    Undecided,
}
