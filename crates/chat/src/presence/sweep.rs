//! Ending devices whose time is over.
//!
//! Always true: an entry of the index that somebody changed while we looked is theirs; it is neither moved nor removed.

use std::time::Duration;

use parlor_store::{Script, script};
use redis::pipe;

use super::Presence;
use super::step::{Settled, Steps, replies};
use crate::context::Moment;
use crate::error::Result;
use crate::ids::{DeadlineShard, NodeId, UserId};
use crate::ticking::told;

static DUE: Script = script!("due.lua");
static LOOKED: Script = script!("looked.lua");

/// Users taken from one shard at a time.
const MOST_TAKEN: usize = 100;
/// How long a taken user is left to the one who took them.
const TAKEN: Duration = Duration::from_secs(5);
/// Rounds of one sweep; what is left is due in the next.
const ROUNDS: usize = 50;

/// A node whose devices are over.
pub(super) struct Dead<'a> {
    pub(super) node: &'a NodeId,
    /// The epoch of it that lives, or ''.
    pub(super) alive: &'a str,
    /// The latest deadline that a device can have from before it died.
    pub(super) latest: u64,
}

impl Presence {
    /// Looks at the users whose deadline has come, and ends what lapsed. To be called once a second. Does nothing until
    /// this node may judge. How many users were looked at.
    pub async fn sweep(&self) -> Result<usize> {
        let mut looked = 0;
        for _ in 0..ROUNDS {
            if !self.nodes.may_judge() {
                break;
            }
            let shards = self.due_shards().await?;
            if shards.is_empty() {
                break;
            }
            looked += self.sweep_round(&shards).await?;
        }
        Ok(looked)
    }

    /// The parts of the index that have somebody to be looked at; most often few.
    async fn due_shards(&self) -> Result<Vec<DeadlineShard>> {
        let now = self.ctx.now();
        let mut first = pipe();
        for shard in DeadlineShard::all() {
            first
                .cmd("ZRANGEBYSCORE")
                .arg(self.ctx.keys().deadlines(shard))
                .arg(&["-inf", &now.ms().to_string(), "LIMIT", "0", "1"]);
        }
        let mut store = self.ctx.store().clone();
        let first: Vec<Vec<String>> = first.query_async(&mut store).await?;
        let due = DeadlineShard::all().zip(first);
        let due = due.filter_map(|(shard, first)| (!first.is_empty()).then_some(shard));
        Ok(due.collect())
    }

    async fn sweep_round(&self, shards: &[DeadlineShard]) -> Result<usize> {
        let now = self.ctx.now();
        let taken_until = taken(now);
        // Of the index it matters who is in it: an entry that is early costs a look.
        let mut store = self.ctx.store().fleeting();
        let mut due = pipe();
        for shard in shards {
            let call = DUE.keys(self.ctx.keys().deadlines(*shard));
            due.add_command(call.arg(now.ms()).arg(&taken_until).arg(MOST_TAKEN).cmd());
        }
        let taken: Vec<Vec<UserId>> = due.query_async(&mut store).await?;
        let users: Vec<UserId> = taken.iter().flatten().cloned().collect();
        if users.is_empty() {
            return Ok(0);
        }
        let mut settled = self.lapse(&users, None).await?.into_iter();
        let mut looked = pipe();
        for (shard, users) in shards.iter().zip(&taken) {
            if !users.is_empty() {
                let deadlines = settled.by_ref().take(users.len());
                let index = self.ctx.keys().deadlines(*shard);
                let mut call = LOOKED.keys(index).arg(&taken_until);
                for (user, settled) in users.iter().zip(deadlines) {
                    if let Some(settled) = settled {
                        call = call.arg(user).arg(settled.until);
                    }
                }
                looked.add_command(call.cmd()).ignore();
            }
        }
        looked.exec_async(&mut store).await?;
        Ok(users.len())
    }

    /// Ends the lapsed devices of users, and those of a dead node, in one pipeline. None for a user where that was refused.
    pub(super) async fn lapse(
        &self,
        users: &[UserId],
        dead: Option<&Dead<'_>>,
    ) -> Result<Vec<Option<Settled>>> {
        let steps = Steps::now(&self.ctx);
        let mut pipe = pipe();
        for user in users {
            let call = steps.call(|it| &it.lapse, user);
            let call = match dead {
                Some(dead) => call.arg(dead.node).arg(dead.alive).arg(dead.latest),
                None => call.arg("").arg("").arg(0),
            };
            pipe.add_command(call.cmd());
        }
        let settled: Vec<Result<Settled>> =
            replies(self.ctx.store().repeatable(), &mut pipe).await?;
        let settled = settled.into_iter().map(|it| {
            told("look at a user", &it);
            it.ok()
        });
        Ok(settled.collect())
    }
}

/// The score of entries that are taken now: between two milliseconds, so that nobody else writes the same one.
fn taken(now: Moment) -> String {
    format!("{}.5", now.plus(TAKEN).ms())
}
