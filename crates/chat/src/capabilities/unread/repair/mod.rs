//! `parlor repair unread`: compares the keys of every user with the database rows.
//!
//! Invariants:
//! 1. A repair can run beside a working system. A difference counts only if two checks find it, so an update that is on
//!    its way is not reported. The reconcile script corrects it and merges concurrent changes.
//! 2. Users and keys are read in pages. Only orphans and counters of other services are remembered until the end.
//! 3. A user whose keys the store rejects does not stop the others. Such a user is tried again at the end, logged if that
//!    fails as well, and counted.
//! 4. A counter of a conversation without rows, and any key of a user without rows, belongs to another service. It is not
//!    changed, and it counts in the total.

mod orphans;
mod report;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::Unread;
use super::reconcile::{ReconcileInput, group_by_user};
use super::rows::{self, MemberPosition};
use super::stored_counters::{self, StoredCounters, counter_equals};
use crate::api::error::{Error, Result};
use crate::ids::{ConversationId, UserId};

pub use self::report::{CounterDifference, DifferenceKind, RepairReport};

/// Delay before a difference is checked a second time.
const RECHECK_DELAY: Duration = Duration::from_millis(200);

/// Conversations of other services in which users have a counter.
type ForeignCounters = HashMap<UserId, Vec<ConversationId>>;

/// Stored state, rows and differences of a page of users.
struct PageComparison {
    epoch: u64,
    stored: Vec<StoredCounters>,
    rows: Vec<Vec<MemberPosition>>,
    differences: Vec<Vec<CounterDifference>>,
    behind: u64,
}

impl Unread {
    /// Compares the keys of every user with the rows and corrects them, unless it is a `dry_run`. `progress` is called
    /// with the number of users that are done and the total.
    pub async fn repair(
        &self,
        dry_run: bool,
        progress: impl Fn(u64, u64) + Send + Sync,
    ) -> Result<RepairReport> {
        let mut report = RepairReport {
            dry_run,
            ..RepairReport::default()
        };
        let total = rows::count_users(&self.database).await?;
        progress(0, total);
        let (orphans, foreign) = self.scan_orphans().await?;
        let (mut last, mut failed) = (String::new(), Vec::new());
        loop {
            let users = rows::users(&self.database, &last).await?;
            let Some(end) = users.last() else {
                break;
            };
            last = end.to_string();
            let page_failed = self.repair_page(&users, &foreign, &mut report).await?;
            failed.extend(page_failed.into_iter().map(|(user, _)| user));
            report.users += users.len() as u64;
            progress(report.users, total.max(report.users));
        }
        if !dry_run {
            failed.extend(self.delete_orphans(&orphans).await?);
            report.failed_users = self.retry_failed(failed).await?;
        }
        report.add(orphans);
        Ok(report)
    }

    /// Corrects the keys of these users once more. Returns how many failed again.
    async fn retry_failed(&self, mut users: Vec<UserId>) -> Result<u64> {
        users.sort_unstable();
        users.dedup();
        let mut failed = 0;
        for user in &users {
            for (user, error) in self.reconcile_one(user, &[]).await? {
                tracing::error!(%user, ?error, "cannot repair the unread counts of a user");
                failed += 1;
            }
        }
        Ok(failed)
    }

    /// Writes all keys of a user from the rows. Returns the user and the error if the store rejects a key.
    async fn reconcile_one(
        &self,
        user: &UserId,
        orphans: &[ConversationId],
    ) -> Result<Vec<(UserId, Error)>> {
        let epoch = self.ctx.store_epoch();
        let one = std::slice::from_ref(user);
        let stored = stored_counters::read_states(&self.ctx, one).await?;
        let rows = rows::find_positions_of_users(&self.database, one).await?;
        let input = ReconcileInput {
            user,
            stored: &stored[0],
            rows: &rows,
            orphans,
            rewrite_all: true,
            total_correction: None,
        };
        self.run_reconcile_each(epoch, &[input]).await
    }

    /// Compares and corrects a page of users. Returns the users whose keys the store rejected.
    async fn repair_page(
        &self,
        users: &[UserId],
        foreign: &ForeignCounters,
        report: &mut RepairReport,
    ) -> Result<Vec<(UserId, Error)>> {
        let mut failed = Vec::new();
        let mut comparison = self.compare_page(users, foreign).await?;
        if comparison.differences.iter().any(|found| !found.is_empty()) {
            tokio::time::sleep(RECHECK_DELAY).await;
            let first: HashSet<CounterDifference> =
                comparison.differences.concat().into_iter().collect();
            comparison = self.compare_page(users, foreign).await?;
            for found in &mut comparison.differences {
                found.retain(|difference| first.contains(difference));
            }
        }
        if !report.dry_run {
            let each = users.iter().zip(&comparison.stored).zip(&comparison.rows);
            let inputs =
                each.zip(&comparison.differences)
                    .map(|(((user, stored), rows), found)| ReconcileInput {
                        user,
                        stored,
                        rows,
                        orphans: &[],
                        rewrite_all: !found.is_empty(),
                        total_correction: found.iter().find_map(total_correction),
                    });
            let inputs: Vec<_> = inputs.collect();
            failed = self.run_reconcile_each(comparison.epoch, &inputs).await?;
        }
        report.large_lagging += comparison.behind;
        for found in comparison.differences {
            report.users_with_differences += u64::from(!found.is_empty());
            report.add(found);
        }
        Ok(failed)
    }

    /// Reads the stored state and the rows of these users and compares them.
    async fn compare_page(
        &self,
        users: &[UserId],
        foreign: &ForeignCounters,
    ) -> Result<PageComparison> {
        let epoch = self.ctx.store_epoch();
        let stored = stored_counters::read_states(&self.ctx, users).await?;
        let mut rows = group_by_user(rows::find_positions_of_users(&self.database, users).await?);
        let rows = users.iter().map(|it| rows.remove(it).unwrap_or_default());
        let mut comparison = PageComparison {
            epoch,
            rows: rows.collect(),
            stored,
            differences: Vec::new(),
            behind: 0,
        };
        let counters = self.read_counters(&comparison.rows).await?;
        let foreign = self.sum_foreign_counters(users, foreign).await?;
        for (nth, user) in users.iter().enumerate() {
            let (found, behind) = self.compare_user(
                user,
                epoch,
                &comparison.stored[nth],
                &comparison.rows[nth],
                &counters[nth],
                foreign[nth],
            );
            comparison.differences.push(found);
            comparison.behind += behind;
        }
        Ok(comparison)
    }

    /// Reads the documented counters that belong to these rows.
    async fn read_counters(
        &self,
        rows: &[Vec<MemberPosition>],
    ) -> Result<Vec<Vec<Option<String>>>> {
        let keys = self.ctx.keys();
        let mut pipe = redis::pipe();
        for row in rows.iter().flatten() {
            pipe.cmd("GET")
                .arg(keys.unread(&row.user_id, &row.conversation_id));
        }
        if pipe.is_empty() {
            return Ok(vec![Vec::new(); rows.len()]);
        }
        let replies = stored_counters::query_tolerant(&self.ctx, &mut pipe).await?;
        let mut texts = replies.into_iter().map(stored_counters::counter_text);
        let of_user = |rows: &Vec<MemberPosition>| texts.by_ref().take(rows.len()).collect();
        Ok(rows.iter().map(of_user).collect())
    }

    /// Reads what other services count for each user.
    async fn sum_foreign_counters(
        &self,
        users: &[UserId],
        foreign: &ForeignCounters,
    ) -> Result<Vec<u64>> {
        let mut sums = Vec::with_capacity(users.len());
        for user in users {
            let mut pipe = redis::pipe();
            for conversation in foreign.get(user).into_iter().flatten() {
                pipe.cmd("GET")
                    .arg(self.ctx.keys().unread(user, conversation));
            }
            if pipe.is_empty() {
                sums.push(0);
                continue;
            }
            let replies = stored_counters::query_tolerant(&self.ctx, &mut pipe).await?;
            let texts = replies
                .into_iter()
                .filter_map(stored_counters::counter_text);
            sums.push(texts.filter_map(|text| text.parse::<u64>().ok()).sum());
        }
        Ok(sums)
    }

    fn compare_user(
        &self,
        user: &UserId,
        epoch: u64,
        stored: &StoredCounters,
        rows: &[MemberPosition],
        counters: &[Option<String>],
        foreign_total: u64,
    ) -> (Vec<CounterDifference>, u64) {
        let now = self.ctx.now().as_millis();
        let (mut found, mut behind, mut total) = (Vec::new(), 0, foreign_total);
        for (row, counter) in rows.iter().zip(counters) {
            let conversation = row.conversation_id.as_str();
            let large = row.member_count > self.fanout_limit;
            let late = large && stored.lags_behind_row(row, now);
            let expected = stored.count(conversation).filter(|_| late);
            let expected = expected.unwrap_or_else(|| row.unread_count());
            behind += u64::from(late);
            total += if row.is_muted(now) { 0 } else { expected };
            let mut add = |what, text: Option<&String>| {
                found.push(CounterDifference {
                    user_id: user.clone(),
                    what,
                    conversation_id: Some(conversation.to_owned()),
                    found: text.cloned(),
                    expected,
                });
            };
            if !counter_equals(counter.as_deref(), expected) {
                add(DifferenceKind::Counter, counter.as_ref());
            }
            // The background task processes an expired mute within a minute, so rows with a mute are not compared.
            let muted = row.muted_until > 0;
            if stored.is_verified(epoch) && !late && !muted && !stored.matches_row(row, now) {
                add(DifferenceKind::Position, stored.fields.get(conversation));
            }
        }
        found.extend(orphan_positions(user, stored, rows));
        let ending = rows
            .iter()
            .any(|it| it.muted_until > 0 && !it.is_muted(now));
        if !ending && !counter_equals(stored.total_key.as_deref(), total) {
            found.push(CounterDifference {
                user_id: user.clone(),
                what: DifferenceKind::Total,
                conversation_id: None,
                found: stored.total_key.clone(),
                expected: total,
            });
        }
        (found, behind)
    }
}

/// Number to add to the documented total to correct it.
fn total_correction(difference: &CounterDifference) -> Option<i64> {
    let found = difference.found.as_ref().and_then(|text| text.parse().ok());
    let correction = difference.expected.cast_signed() - found.unwrap_or(0);
    (difference.what == DifferenceKind::Total).then_some(correction)
}

/// Stored positions in conversations of which the user is not a member.
fn orphan_positions(
    user: &UserId,
    stored: &StoredCounters,
    rows: &[MemberPosition],
) -> Vec<CounterDifference> {
    let rows = rows.iter();
    let members: HashSet<&str> = rows.map(|row| row.conversation_id.as_str()).collect();
    let fields = stored.fields.iter().filter(|(id, text)| {
        !members.contains(id.as_str()) && stored_counters::left_at(text).is_none()
    });
    let orphans = fields.map(|(id, text)| CounterDifference {
        user_id: user.clone(),
        what: DifferenceKind::Orphan,
        conversation_id: Some(id.clone()),
        found: Some(text.clone()),
        expected: 0,
    });
    orphans.collect()
}
