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
use super::append::State;
use super::rows;
use crate::context::{Moment, millis};
use crate::error::{Error, Result};
use crate::keys::TtlName;
use crate::ticking::told;

/// How far back is looked after a node has ended, or the store came back with other data: longer than either takes to be
/// noticed.
const LATELY: Duration = Duration::from_secs(120);
/// How long a claim of an epoch holds, in seconds, as in the declaration of the key.
pub(super) const CLAIMED: u64 = 10;
/// Conversations or users of one page.
const PAGE: u64 = 500;

/// What a node has caught up with.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct CaughtUp {
    started: bool,
    epoch: u64,
    /// Ended nodes that this one has claimed.
    ended: u64,
}

impl Messages {
    /// Looks for messages to catch up with, if there is a reason to: the start, an ended node, a new epoch. To be called
    /// every second. How many conversations were behind.
    pub async fn follow(&self) -> Result<usize> {
        let seen = *self.caught_up.lock();
        let (epoch, ended) = (self.epoch(), *self.nodes.claimed().borrow());
        let behind = if !seen.started {
            // All that may still have a list: nobody may have been there to look before.
            let back = self.ctx.keys().ttl(TtlName::Recent).max(LATELY);
            self.catch_up_since(back).await?
        } else if seen.ended != ended {
            self.catch_up_since(LATELY).await?
        } else if seen.epoch != epoch {
            match self.claims(epoch).await? {
                Claim::Ours => self.catch_up_since(LATELY).await?,
                Claim::Others => 0,
                Claim::NotYet => return Ok(0),
            }
        } else {
            return Ok(0);
        };
        *self.caught_up.lock() = CaughtUp {
            started: true,
            epoch,
            ended,
        };
        Ok(behind)
    }

    async fn catch_up_since(&self, back: Duration) -> Result<usize> {
        let now = self.ctx.now();
        let since = now.ms().saturating_sub(millis(back));
        // Another node's clock may be a little ahead.
        let mut to = now.plus(LATELY);
        let mut from = Moment(now.ms().saturating_sub(millis(LATELY)));
        // Of what is older no message waits to be told where the top is not known.
        let (mut behind, mut cold) = (0, true);
        // In slices, newest first: no statement is to take long.
        loop {
            behind += self.catch_up_slice(from, to, cold).await?;
            if cold {
                self.count_lately(from, to).await?;
            }
            self.show_changed(from, to, cold).await?;
            if from.ms() <= since {
                return Ok(behind);
            }
            (to, cold) = (from, false);
            from = Moment(from.ms().saturating_sub(millis(LATELY)).max(since));
        }
    }

    /// Catches up with conversations in which messages were written in this time; those whose top is not known if `cold`.
    async fn catch_up_slice(&self, from: Moment, to: Moment, cold: bool) -> Result<usize> {
        let (mut behind, mut after) = (0, String::new());
        loop {
            let page = rows::lately(&self.database, from, to, &after, PAGE).await?;
            let Some((last, _)) = page.last() else {
                return Ok(behind);
            };
            after = last.to_string();
            let ids: Vec<_> = page.iter().map(|(id, _)| id.clone()).collect();
            let tops = self.tops(&ids).await?;
            for ((conversation, last_seq), top) in page.iter().zip(tops) {
                let done = match top {
                    Some(top) if top >= *last_seq => continue,
                    Some(top) => self.apply_rest(conversation, State::Gap, top).await,
                    None if cold => self.apply_rest(conversation, State::Cold, 0).await,
                    None => continue,
                };
                // The others are not to wait for one that fails for a reason of its own.
                if done.as_ref().is_err_and(Error::is_away) {
                    return done.map(|()| behind);
                }
                told("catch up with a conversation", &done);
                behind += 1;
            }
        }
    }

    /// Shows what was edited or deleted in this time; if not `recent`, only where a list shows it as it was.
    async fn show_changed(&self, mut from: Moment, to: Moment, recent: bool) -> Result<()> {
        let mut after = String::new();
        loop {
            let page = rows::changed_lately(&self.database, (from, to), &after).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            from = Moment(last.changed_at());
            after.clone_from(&last.id);
            for row in page {
                let conversation = row.conversation_id.clone();
                let shown = match recent {
                    true => self.show(&conversation, row).await,
                    false => self.show_if_unseen(&conversation, row).await,
                };
                if shown.as_ref().is_err_and(Error::is_away) {
                    return shown;
                }
                told("show a change", &shown);
            }
        }
    }

    /// Holds the counts of those against the rows to whom somebody wrote in this time.
    async fn count_lately(&self, from: Moment, to: Moment) -> Result<()> {
        let most = self.unread.fanout_limit();
        let mut after = String::new();
        loop {
            let users = rows::lately_users(&self.database, most, (from, to), &after, PAGE).await?;
            let Some(last) = users.last() else {
                return Ok(());
            };
            after = last.to_string();
            self.unread.doubt(&users).await?;
        }
    }

    /// Who catches up in this epoch.
    async fn claims(&self, epoch: u64) -> Result<Claim> {
        let key = self.ctx.keys().catch_up();
        let own = format!("{epoch}|{}", self.nodes.id());
        let mut store = self.ctx.store().repeatable();
        let mut claim = redis::cmd("SET");
        claim.arg(&key).arg(&own).arg("NX").arg("EX").arg(CLAIMED);
        claim.exec_async(&mut store).await?;
        let holder: Option<String> = redis::cmd("GET").arg(&key).query_async(&mut store).await?;
        Ok(match holder {
            Some(holder) if holder == own => Claim::Ours,
            Some(holder) if holder.starts_with(&format!("{epoch}|")) => Claim::Others,
            // That of another epoch, or one that ended just now.
            _ => Claim::NotYet,
        })
    }
}

/// Who has to catch up.
enum Claim {
    Ours,
    Others,
    /// It is not known yet.
    NotYet,
}
