//! Ending devices whose time is over.
//!
//! Always true: an entry of the index that somebody changed while we looked is theirs; it is neither moved nor removed.

use std::time::Duration;

use parlor_store::{Script, script};
use redis::pipe;

use super::Presence;
use super::step::{Settled, Steps};
use crate::context::Moment;
use crate::error::Result;
use crate::ids::{DeadlineShard, NodeId, UserId};

static DUE: Script = script!("due.lua");
static LOOKED: Script = script!("looked.lua");

/// Users taken from one shard at a time.
const MOST_TAKEN: usize = 100;
/// How long a taken user is left to the one who took them.
const TAKEN: Duration = Duration::from_secs(5);
/// Rounds of one sweep; what is left is due in the next.
const ROUNDS: usize = 50;

impl Presence {
    /// Looks at the users whose deadline has come, and ends what lapsed. To be called once a second. Does nothing until
    /// this node may judge. How many users were looked at.
    pub async fn sweep(&self) -> Result<usize> {
        let mut looked = 0;
        for _ in 0..ROUNDS {
            if !self.nodes.may_judge() {
                break;
            }
            let taken = self.sweep_round().await?;
            looked += taken;
            if taken == 0 {
                break;
            }
        }
        Ok(looked)
    }

    async fn sweep_round(&self) -> Result<usize> {
        let now = self.ctx.now();
        let until = now.plus(TAKEN);
        let mut store = self.ctx.store().clone();
        let mut due = pipe();
        for shard in DeadlineShard::all() {
            let call = DUE.keys(self.ctx.keys().deadlines(shard));
            due.add_command(call.arg(now.ms()).arg(until.ms()).arg(MOST_TAKEN).cmd());
        }
        let taken: Vec<Vec<UserId>> = due.query_async(&mut store).await?;
        let users: Vec<UserId> = taken.iter().flatten().cloned().collect();
        if users.is_empty() {
            return Ok(0);
        }
        let mut settled = self.lapse(&users, None).await?.into_iter();
        let mut looked = pipe();
        for (shard, users) in DeadlineShard::all().zip(&taken) {
            if !users.is_empty() {
                let deadlines = settled.by_ref().take(users.len());
                looked
                    .add_command(self.looked(shard, until, users, deadlines))
                    .ignore();
            }
        }
        looked.exec_async(&mut store).await?;
        Ok(users.len())
    }

    fn looked(
        &self,
        shard: DeadlineShard,
        taken: Moment,
        users: &[UserId],
        settled: impl Iterator<Item = Settled>,
    ) -> redis::Cmd {
        let mut call = LOOKED
            .keys(self.ctx.keys().deadlines(shard))
            .arg(taken.ms());
        for (user, settled) in users.iter().zip(settled) {
            call = call.arg(user).arg(settled.until);
        }
        call.cmd()
    }

    /// Ends the lapsed devices of users, and those of a node except its living epoch, in one pipeline.
    pub(super) async fn lapse(
        &self,
        users: &[UserId],
        dead: Option<(&NodeId, &str)>,
    ) -> Result<Vec<Settled>> {
        let steps = Steps::now(&self.ctx);
        let (node, alive) = dead.map_or(("", ""), |(node, alive)| (node.as_str(), alive));
        let mut pipe = pipe();
        for user in users {
            let call = steps.call(|it| &it.lapse, user);
            pipe.add_command(call.arg(node).arg(alive).cmd());
        }
        Ok(pipe.query_async(&mut self.ctx.store().repeatable()).await?)
    }
}
