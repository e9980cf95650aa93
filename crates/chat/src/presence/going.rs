//! Devices go, with a goodbye or without one.
//!
//! Always true:
//! 1. What went while the store was away is written when it is back. It is announced even if the store came back empty, but
//!    not before the nodes had time to fill it again: the user may be there through another one.
//! 2. A goodbye that nobody waits for any more is said all the same.

use redis::pipe;

use super::Presence;
use super::local::{Going, Held};
use super::ops::Device;
use super::step::{Settled, Steps, replies};
use crate::context::millis;
use crate::error::Result;
use crate::ticking::told;

/// Goodbyes in one pipeline.
const PAGE: usize = 500;

/// What the scripts are told of a goodbye that the store missed.
const MISSED: &str = "missed";

impl Presence {
    pub(super) async fn go(&self, device: &Device, how: Going) -> Result<()> {
        let held = self.local.lock().remove(device, how);
        match (held, &device.socket) {
            (Some(held), _) => self.write_goings(vec![(held, how)], "").await,
            (None, Some(socket)) => {
                let mut forget = redis::cmd("DEL");
                forget.arg(self.ctx.keys().socket_user(socket));
                // Nobody renews it: if the store is away, its time ends it.
                let _ = forget.exec_async(&mut self.ctx.store().repeatable()).await;
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Writes what went while the store was away.
    pub(super) async fn write_missed(&self) -> Result<()> {
        if !self.nodes.is_steady() {
            return Ok(());
        }
        let missed = self.local.lock().take_going();
        self.write_goings(missed, MISSED).await
    }

    /// All sockets of this node are lost, so that they can come back elsewhere within the grace time.
    pub(super) async fn lose_all(&self) -> Result<()> {
        let (sockets, mut goings) = {
            let mut local = self.local.lock();
            (local.drain(), local.take_going())
        };
        goings.extend(sockets.into_iter().map(|it| (it, Going::Lost)));
        self.write_goings(goings, "").await
    }

    /// Writes goodbyes. What is not written when this ends, for whatever reason, is kept for the next flush.
    pub(super) async fn write_goings(&self, goings: Vec<(Held, Going)>, mode: &str) -> Result<()> {
        let mut unsaid = Unsaid {
            presence: self,
            goings,
        };
        while !unsaid.goings.is_empty() {
            let from = unsaid.goings.len().saturating_sub(PAGE);
            self.write_page(&unsaid.goings[from..], mode).await?;
            unsaid.goings.truncate(from);
        }
        Ok(())
    }

    async fn write_page(&self, goings: &[(Held, Going)], mode: &str) -> Result<()> {
        let steps = Steps::now(&self.ctx);
        let mut pipe = pipe();
        for (held, how) in goings {
            // One that the store never knew is not missed.
            let mode = if held.announced { mode } else { "" };
            pipe.add_command(self.going_cmd(&steps, held, *how, mode));
        }
        let settled: Vec<Result<Settled>> =
            replies(self.ctx.store().repeatable(), &mut pipe).await?;
        let gone = goings.iter().zip(&settled).map(|((held, _), settled)| {
            told("end a device", settled);
            (held, settled.as_ref().map_or(0, |it| it.until))
        });
        self.went(gone).await
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
            .arg(held.connected.iso())
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
                last.push(user);
            }
        }
        if !last.is_empty() {
            pipe.cmd("SREM").arg(&set).arg(&last).ignore();
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

/// Goodbyes that are being said.
struct Unsaid<'a> {
    presence: &'a Presence,
    goings: Vec<(Held, Going)>,
}

impl Drop for Unsaid<'_> {
    fn drop(&mut self) {
        let unsaid = std::mem::take(&mut self.goings);
        self.presence.local.lock().keep_going(unsaid);
    }
}
