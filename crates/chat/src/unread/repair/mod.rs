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
use super::field::{self, Held, shows};
use super::recount::{Case, by_user};
use super::rows::{self, MANY, Position};
use crate::error::Result;
use crate::ids::UserId;

/// How long a step may be on its way.
const PATIENCE: Duration = Duration::from_millis(200);
/// Differences that are told one by one.
const MOST_TOLD: usize = 100;

/// What a repair found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Users with memberships.
    pub users: u64,
    /// Those of them with a difference.
    pub differing: u64,
    /// Counters `unread:{user}:{conv}` that were wrong or missing.
    pub counters: u64,
    /// Totals `unread:{user}:total` that were wrong or missing.
    pub totals: u64,
    /// Positions in `parlor:unread:{user}` that were wrong.
    pub positions: u64,
    /// Keys of those who are no members.
    pub strays: u64,
    /// Counters of rooms above the fan-out limit that had not followed yet, as they need not.
    pub behind: u64,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The first differences.
    pub differences: Vec<Difference>,
}

impl Report {
    /// How many keys were not as they should be.
    pub fn found(&self) -> u64 {
        self.counters + self.totals + self.positions + self.strays
    }

    fn add(&mut self, found: Vec<Difference>) {
        for difference in found {
            match difference.what {
                What::Counter => self.counters += 1,
                What::Total => self.totals += 1,
                What::Position => self.positions += 1,
                What::Stray => self.strays += 1,
            }
            if self.differences.len() < MOST_TOLD {
                self.differences.push(difference);
            }
        }
    }
}

/// Something in the store that is not what the rows say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Whose.
    pub user_id: UserId,
    /// What it is.
    pub what: What,
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
pub enum What {
    /// A documented counter.
    Counter,
    /// The documented total.
    Total,
    /// A position that counts are derived from.
    Position,
    /// A key of somebody who is no member.
    Stray,
}

/// What a look at some users found.
struct Look {
    epoch: u64,
    held: Vec<Held>,
    rows: Vec<Vec<Position>>,
    found: Vec<Vec<Difference>>,
    behind: u64,
}

impl Unread {
    /// Holds the keys of every user against the rows and sets them right, unless it is a `dry_run`. `progress` is told how
    /// many users are done, and of how many.
    pub async fn repair(
        &self,
        dry_run: bool,
        progress: impl Fn(u64, u64) + Send + Sync,
    ) -> Result<Report> {
        let mut report = Report {
            dry_run,
            ..Report::default()
        };
        let total = rows::count_users(&self.database).await?;
        progress(0, total);
        let mut last = String::new();
        loop {
            let users = rows::users(&self.database, &last, MANY).await?;
            let Some(end) = users.last() else {
                break;
            };
            last = end.to_string();
            self.repair_page(&users, &mut report).await?;
            report.users += users.len() as u64;
            progress(report.users, total.max(report.users));
        }
        self.remove_strays(&mut report).await?;
        Ok(report)
    }

    async fn repair_page(&self, users: &[UserId], report: &mut Report) -> Result<()> {
        let mut look = self.look(users).await?;
        if look.found.iter().any(|found| !found.is_empty()) {
            tokio::time::sleep(PATIENCE).await;
            let first: HashSet<Difference> = look.found.concat().into_iter().collect();
            look = self.look(users).await?;
            for found in &mut look.found {
                found.retain(|difference| first.contains(difference));
            }
        }
        if !report.dry_run {
            let each = users.iter().zip(&look.held).zip(&look.rows);
            let cases = each
                .zip(&look.found)
                .map(|(((user, held), rows), found)| Case {
                    user,
                    held,
                    rows,
                    strays: &[],
                    thorough: !found.is_empty(),
                });
            let cases: Vec<_> = cases.collect();
            self.settle(look.epoch, &cases, None).await?;
        }
        report.behind += look.behind;
        for found in look.found {
            report.differing += u64::from(!found.is_empty());
            report.add(found);
        }
        Ok(())
    }

    /// What is held about these users, what the rows say, and where these differ.
    async fn look(&self, users: &[UserId]) -> Result<Look> {
        let epoch = self.epoch();
        let held = field::read(&self.ctx, users).await?;
        let mut rows = by_user(rows::of_users(&self.database, users).await?);
        let rows = users.iter().map(|it| rows.remove(it).unwrap_or_default());
        let mut look = Look {
            epoch,
            rows: rows.collect(),
            held,
            found: Vec::new(),
            behind: 0,
        };
        let counters = self.counters(&look.rows).await?;
        for (nth, user) in users.iter().enumerate() {
            let (found, behind) = self.compare(
                user,
                epoch,
                &look.held[nth],
                &look.rows[nth],
                &counters[nth],
            );
            look.found.push(found);
            look.behind += behind;
        }
        Ok(look)
    }

    /// The documented counters beside these rows.
    async fn counters(&self, rows: &[Vec<Position>]) -> Result<Vec<Vec<Option<String>>>> {
        let keys = self.ctx.keys();
        let mut pipe = redis::pipe();
        for row in rows.iter().flatten() {
            pipe.cmd("GET")
                .arg(keys.unread(&row.user_id, &row.conversation_id));
        }
        if pipe.is_empty() {
            return Ok(vec![Vec::new(); rows.len()]);
        }
        let replies = field::replies(&self.ctx, &mut pipe).await?;
        let mut texts = replies.into_iter().map(field::shown);
        let of_user = |rows: &Vec<Position>| texts.by_ref().take(rows.len()).collect();
        Ok(rows.iter().map(of_user).collect())
    }

    fn compare(
        &self,
        user: &UserId,
        epoch: u64,
        held: &Held,
        rows: &[Position],
        counters: &[Option<String>],
    ) -> (Vec<Difference>, u64) {
        let now = self.ctx.now().ms();
        let (mut found, mut behind, mut total) = (Vec::new(), 0, 0);
        for (row, counter) in rows.iter().zip(counters) {
            let conversation = row.conversation_id.as_str();
            let large = row.member_count > self.fanout_limit;
            let late = large && held.is_behind(row, now);
            let expected = held.count(conversation).filter(|_| late);
            let expected = expected.unwrap_or_else(|| row.count());
            behind += u64::from(late);
            total += if row.is_muted(now) { 0 } else { expected };
            let mut add = |what, text: Option<&String>| {
                found.push(Difference {
                    user_id: user.clone(),
                    what,
                    conversation_id: Some(conversation.to_owned()),
                    found: text.cloned(),
                    expected,
                });
            };
            if !shows(counter.as_deref(), expected) {
                add(What::Counter, counter.as_ref());
            }
            // A mute that ended is applied by the sweep, within a minute.
            let muted = row.muted_until > 0;
            if held.is_warm(epoch) && !late && !muted && !held.agrees(row, now) {
                add(What::Position, held.fields.get(conversation));
            }
        }
        found.extend(ghosts(user, held, rows));
        let ending = rows
            .iter()
            .any(|it| it.muted_until > 0 && !it.is_muted(now));
        if !ending && !shows(held.total.as_deref(), total) {
            found.push(Difference {
                user_id: user.clone(),
                what: What::Total,
                conversation_id: None,
                found: held.total.clone(),
                expected: total,
            });
        }
        (found, behind)
    }
}

/// Positions in conversations to which the user does not belong.
fn ghosts(user: &UserId, held: &Held, rows: &[Position]) -> Vec<Difference> {
    let rows = rows.iter();
    let members: HashSet<&str> = rows.map(|row| row.conversation_id.as_str()).collect();
    let fields = held
        .fields
        .iter()
        .filter(|(id, text)| !members.contains(id.as_str()) && field::left_at(text).is_none());
    let ghosts = fields.map(|(id, text)| Difference {
        user_id: user.clone(),
        what: What::Stray,
        conversation_id: Some(id.clone()),
        found: Some(text.clone()),
        expected: 0,
    });
    ghosts.collect()
}
