//! Devices go, with a goodbye or without one.
//!
//! Always true: what went while the store was away is written when it is back. It is announced even if the store came
//! back empty, but not before the nodes had time to fill it again: the user may be there through another one.

use redis::pipe;

use super::Presence;
use super::local::{Going, Held};
use super::ops::Device;
use super::step::{Settled, Steps};
use crate::context::millis;
use crate::error::Result;

/// Goodbyes in one pipeline.
const PAGE: usize = 500;

/// What the scripts are told of a goodbye that the store missed.
const MISSED: &str = "missed";

impl Presence {
    pub(super) async fn go(&self, device: &Device, how: Going) -> Result<()> {
        let Some(held) = self.local.lock().remove(device) else {
            return Ok(());
        };
        let going = [(held, how)];
        let done = self.write_goings(&going, "").await;
        if done.is_err() {
            self.local.lock().keep_going(going);
        }
        done
    }

    /// Writes what went while the store was away.
    pub(super) async fn write_missed(&self) -> Result<()> {
        if !self.nodes.is_steady() {
            return Ok(());
        }
        let missed = self.local.lock().take_going();
        for (at, page) in missed.chunks(PAGE).enumerate() {
            if let Err(error) = self.write_goings(page, MISSED).await {
                let rest = missed[at * PAGE..].iter().cloned();
                self.local.lock().keep_going(rest);
                return Err(error);
            }
        }
        Ok(())
    }

    /// All sockets of this node are lost, so that they can come back elsewhere within the grace time.
    pub(super) async fn lose_all(&self) -> Result<()> {
        let sockets = self.local.lock().drain();
        let goings: Vec<_> = sockets.into_iter().map(|it| (it, Going::Lost)).collect();
        for page in goings.chunks(PAGE) {
            self.write_goings(page, "").await?;
        }
        Ok(())
    }

    pub(super) async fn write_goings(&self, goings: &[(Held, Going)], mode: &str) -> Result<()> {
        let steps = Steps::now(&self.ctx);
        let mut pipe = pipe();
        for (held, how) in goings {
            // One that the store never knew is not missed.
            let mode = if held.announced { mode } else { "" };
            pipe.add_command(self.going_cmd(&steps, held, *how, mode));
        }
        let mut store = self.ctx.store().repeatable();
        let settled: Vec<Settled> = pipe.query_async(&mut store).await?;
        let settled = settled.iter().map(|it| it.until);
        self.went(goings.iter().map(|(held, _)| held).zip(settled))
            .await
    }

    fn going_cmd(&self, steps: &Steps<'_>, held: &Held, how: Going, mode: &str) -> redis::Cmd {
        let user = &held.device.user;
        let call = match how {
            Going::Left => steps.call(|it| &it.leave, user),
            Going::Lost => steps.call(|it| &it.lose, user),
        };
        let call = call
            .arg(&held.device.id)
            .arg(self.nodes.epoch())
            .arg(&held.connected)
            .arg(mode);
        match how {
            Going::Left => call.cmd(),
            Going::Lost => call.arg(millis(self.nodes.grace())).cmd(),
        }
    }

    /// What follows when sockets went, each with the latest deadline of its user: the index is told, the sockets are
    /// forgotten, and the users whose last socket here it was.
    pub(super) async fn went(&self, gone: impl Iterator<Item = (&Held, u64)>) -> Result<()> {
        let keys = self.ctx.keys();
        let set = keys.node_users(self.nodes.id());
        let mut pipe = pipe();
        let mut last = Vec::new();
        for (held, until) in gone {
            let user = &held.device.user;
            pipe.add_command(self.sooner(user, until)).ignore();
            if let Some(socket) = &held.device.socket {
                pipe.cmd("DEL").arg(keys.socket_user(socket)).ignore();
            }
            if !self.local.lock().has(user) {
                pipe.cmd("SREM").arg(&set).arg(user).ignore();
                last.push(user);
            }
        }
        let mut store = self.ctx.store().repeatable();
        pipe.exec_async(&mut store).await?;
        // One that connects after this look adds the user itself, after the removal.
        for user in last {
            if self.local.lock().has(user) {
                let mut again = redis::cmd("SADD");
                again.arg(&set).arg(user).exec_async(&mut store).await?;
            }
        }
        Ok(())
    }
}
