//! Holding every user's keys against the rows: what `parlor repair unread` does.
//!
//! Always true:
//! 1. It runs beside a working system. What differs is looked at twice, so that a step on its way is not taken for a fault,
//!    and is set right as a recount does, without losing what happens meanwhile.
//! 2. Users, keys and what is remembered of them are bounded at any moment.

mod strays;

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;

use super::Unread;
use super::field::{self, StoredCounters, counter_equals};
use super::recount::{ReconcileInput, group_by_user};
use super::rows::{self, MemberPosition, USERS_PER_STATEMENT};
use crate::error::Result;
use crate::ids::UserId;

/// How long a step may be on its way.
const RECHECK_DELAY: Duration = Duration::from_millis(200);
/// Differences that are told one by one.
const MAX_LISTED_DIFFERENCES: usize = 100;

/// What a repair found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairReport {
    /// Users with memberships.
    pub users: u64,
    /// Those of them with a difference.
    #[serde(rename = "differing")]
    pub users_with_differences: u64,
    /// Counters `unread:{user}:{conv}` that were wrong or missing.
    pub counters: u64,
    /// Totals `unread:{user}:total` that were wrong or missing.
    pub totals: u64,
    /// Positions in `parlor:unread:{user}` that were wrong.
    pub positions: u64,
    /// Keys of those who are no members.
    #[serde(rename = "strays")]
    pub orphans: u64,
    /// Counters of rooms above the fan-out limit that had not followed yet, as they need not.
    #[serde(rename = "behind")]
    pub large_lagging: u64,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The first differences.
    pub differences: Vec<CounterDifference>,
}

impl RepairReport {
    /// How many keys were not as they should be.
    pub fn found(&self) -> u64 {
        self.counters + self.totals + self.positions + self.orphans
    }

    fn add(&mut self, found: Vec<CounterDifference>) {
        for difference in found {
            match difference.what {
                DifferenceKind::Counter => self.counters += 1,
                DifferenceKind::Total => self.totals += 1,
                DifferenceKind::Position => self.positions += 1,
                DifferenceKind::Orphan => self.orphans += 1,
            }
            if self.differences.len() < MAX_LISTED_DIFFERENCES {
                self.differences.push(difference);
            }
        }
    }
}

/// Something in the store that is not what the rows say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CounterDifference {
    /// Whose.
    pub user_id: UserId,
    /// What it is.
    pub what: DifferenceKind,
    /// Of which conversation, unless it is the total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// What was there; absent if nothing was.
    pub found: Option<String>,
    /// What the rows say.
    pub expected: u64,
}

/// The kinds of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DifferenceKind {
    /// A documented counter.
    Counter,
    /// The documented total.
    Total,
    /// A position that counts are derived from.
    Position,
    /// A key of somebody who is no member.
    #[serde(rename = "stray")]
    Orphan,
}

/// What a look at some users found.
struct PageComparison {
    epoch: u64,
    stored: Vec<StoredCounters>,
    rows: Vec<Vec<MemberPosition>>,
    differences: Vec<Vec<CounterDifference>>,
    behind: u64,
}

impl Unread {
    /// Holds the keys of every user against the rows and sets them right, unless it is a `dry_run`. `progress` is told how
    /// many users are done, and of how many.
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
        let mut last = String::new();
        loop {
            let users = rows::users(&self.database, &last, USERS_PER_STATEMENT).await?;
            let Some(end) = users.last() else {
                break;
            };
            last = end.to_string();
            self.repair_page(&users, &mut report).await?;
            report.users += users.len() as u64;
            progress(report.users, total.max(report.users));
        }
        self.remove_orphans(&mut report).await?;
        Ok(report)
    }

    async fn repair_page(&self, users: &[UserId], report: &mut RepairReport) -> Result<()> {
        let mut look = self.compare_page(users).await?;
        if look.differences.iter().any(|found| !found.is_empty()) {
            tokio::time::sleep(RECHECK_DELAY).await;
            let first: HashSet<CounterDifference> = look.differences.concat().into_iter().collect();
            look = self.compare_page(users).await?;
            for found in &mut look.differences {
                found.retain(|difference| first.contains(difference));
            }
        }
        if !report.dry_run {
            let each = users.iter().zip(&look.stored).zip(&look.rows);
            let cases = each
                .zip(&look.differences)
                .map(|(((user, held), rows), found)| ReconcileInput {
                    user,
                    stored: held,
                    rows,
                    orphans: &[],
                    rewrite_all: !found.is_empty(),
                });
            let cases: Vec<_> = cases.collect();
            self.run_reconcile(look.epoch, &cases, None).await?;
        }
        report.large_lagging += look.behind;
        for found in look.differences {
            report.users_with_differences += u64::from(!found.is_empty());
            report.add(found);
        }
        Ok(())
    }

    /// What is held about these users, what the rows say, and where these differ.
    async fn compare_page(&self, users: &[UserId]) -> Result<PageComparison> {
        let epoch = self.epoch();
        let held = field::read_states(&self.ctx, users).await?;
        let mut rows = group_by_user(rows::find_positions_of_users(&self.database, users).await?);
        let rows = users.iter().map(|it| rows.remove(it).unwrap_or_default());
        let mut look = PageComparison {
            epoch,
            rows: rows.collect(),
            stored: held,
            differences: Vec::new(),
            behind: 0,
        };
        let counters = self.read_counters(&look.rows).await?;
        for (nth, user) in users.iter().enumerate() {
            let (found, behind) = self.compare_user(
                user,
                epoch,
                &look.stored[nth],
                &look.rows[nth],
                &counters[nth],
            );
            look.differences.push(found);
            look.behind += behind;
        }
        Ok(look)
    }

    /// The documented counters beside these rows.
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
        let replies = field::query_tolerant(&self.ctx, &mut pipe).await?;
        let mut texts = replies.into_iter().map(field::counter_text);
        let of_user = |rows: &Vec<MemberPosition>| texts.by_ref().take(rows.len()).collect();
        Ok(rows.iter().map(of_user).collect())
    }

    fn compare_user(
        &self,
        user: &UserId,
        epoch: u64,
        held: &StoredCounters,
        rows: &[MemberPosition],
        counters: &[Option<String>],
    ) -> (Vec<CounterDifference>, u64) {
        let now = self.ctx.now().as_millis();
        let (mut found, mut behind, mut total) = (Vec::new(), 0, 0);
        for (row, counter) in rows.iter().zip(counters) {
            let conversation = row.conversation_id.as_str();
            let large = row.member_count > self.fanout_limit;
            let late = large && held.lags_behind_row(row, now);
            let expected = held.count(conversation).filter(|_| late);
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
            // A mute that ended is applied by the sweep, within a minute.
            let muted = row.muted_until > 0;
            if held.is_verified(epoch) && !late && !muted && !held.matches_row(row, now) {
                add(DifferenceKind::Position, held.fields.get(conversation));
            }
        }
        found.extend(orphan_positions(user, held, rows));
        let ending = rows
            .iter()
            .any(|it| it.muted_until > 0 && !it.is_muted(now));
        if !ending && !counter_equals(held.total_key.as_deref(), total) {
            found.push(CounterDifference {
                user_id: user.clone(),
                what: DifferenceKind::Total,
                conversation_id: None,
                found: held.total_key.clone(),
                expected: total,
            });
        }
        (found, behind)
    }
}

/// Positions in conversations to which the user does not belong.
fn orphan_positions(
    user: &UserId,
    held: &StoredCounters,
    rows: &[MemberPosition],
) -> Vec<CounterDifference> {
    let rows = rows.iter();
    let members: HashSet<&str> = rows.map(|row| row.conversation_id.as_str()).collect();
    let fields = held
        .fields
        .iter()
        .filter(|(id, text)| !members.contains(id.as_str()) && field::left_at(text).is_none());
    let ghosts = fields.map(|(id, text)| CounterDifference {
        user_id: user.clone(),
        what: DifferenceKind::Orphan,
        conversation_id: Some(id.clone()),
        found: Some(text.clone()),
        expected: 0,
    });
    ghosts.collect()
}
