//! Writing what was collected: beats, sockets to be registered again, goodbyes that the store missed.
//!
//! Always true: a device that left while its beat was on the way is not registered anew.

use redis::pipe;

use super::Presence;
use super::local::{Held, key};
use super::register::{API, Coming};
use super::step::{Steps, replies};
use crate::context::millis;
use crate::error::Result;
use crate::ids::DeadlineShard;
use crate::keys::TtlName;
use crate::ticking::told;

/// Beats in one pipeline: what they are written with is held in memory, and nobody else is served meanwhile.
const MOST_BEATS: usize = 500;
/// Registrations in one pipeline.
const MOST_REGISTERED: usize = 500;
/// Registrations in one flush: a node that comes back does not block the store for the others.
const MOST_OWED: usize = 20_000;

/// The reply of `beat.lua` for a device that has to be registered.
const UNKNOWN: u8 = 0;
/// The reply of `beat.lua` for a device that somebody has ended.
const ENDED: u8 = 3;

impl Presence {
    /// Writes the collected beats. To be called once a second. What cannot be written is kept.
    pub async fn flush_beats(&self) -> Result<()> {
        let _flushing = self.flushing.lock().await;
        self.register_owed().await?;
        self.write_missed().await?;
        if self.local.lock().owes() {
            return Ok(());
        }
        let mut unwritten = Unwritten {
            presence: self,
            beats: self.local.lock().take_beats(),
        };
        let (mut unknown, mut ended) = (Vec::new(), Vec::new());
        while !unwritten.beats.is_empty() {
            let from = unwritten.beats.len().saturating_sub(MOST_BEATS);
            let written = self.write_beats(&unwritten.beats[from..]).await?;
            for (held, reply) in unwritten.beats.drain(from..).zip(written) {
                told("write a beat", &reply);
                match reply {
                    Ok(UNKNOWN) => unknown.push(held),
                    Ok(ENDED) => ended.push(held),
                    _ => {}
                }
            }
        }
        let anew = self.local.lock().landed(unknown);
        for (at, chunk) in anew.chunks(MOST_REGISTERED).enumerate() {
            if let Err(error) = self.register(chunk, Coming::Again).await {
                let mut local = self.local.lock();
                for held in &anew[at * MOST_REGISTERED..] {
                    local.keep_beat(&held.device, held.connected);
                }
                return Err(error);
            }
        }
        for held in ended {
            self.refuse(&held, true).await?;
        }
        Ok(())
    }

    async fn write_beats(&self, beats: &[Held]) -> Result<Vec<Result<u8>>> {
        let steps = Steps::now(&self.ctx);
        let keys = self.ctx.keys();
        let ttl = keys.ttl(TtlName::Presence);
        let mut pipe = pipe();
        for held in beats {
            let device = &held.device;
            let call = steps.call(|it| &it.beat, &device.user);
            let epoch = device.socket.as_ref().map_or(API, |_| self.nodes.epoch());
            let call = call.arg(&device.id).arg(self.nodes.id()).arg(epoch);
            pipe.add_command(call.arg(held.connected.ms()).cmd());
            match &device.socket {
                Some(socket) => pipe
                    .cmd("SET")
                    .arg(keys.socket_user(socket))
                    .arg(&device.user)
                    .arg("PX")
                    .arg(millis(ttl)),
                // No node registers it again when a part of a Cluster has lost the index.
                None => pipe
                    .cmd("ZADD")
                    .arg(keys.deadlines(DeadlineShard::of(&device.user)))
                    .arg("NX")
                    .arg(steps.now.plus(ttl).ms())
                    .arg(&device.user),
            };
            pipe.ignore();
        }
        // After a restart everybody has a lifetime to show up: see `revive`.
        replies(self.ctx.store().repeatable().fleeting(), &mut pipe).await
    }

    /// Registers sockets again after others may have ended them, or when they could not be registered at first.
    async fn register_owed(&self) -> Result<()> {
        let owed = self.local.lock().take_owed(MOST_OWED);
        for (at, chunk) in owed.chunks(MOST_REGISTERED).enumerate() {
            if let Err(error) = self.register(chunk, Coming::Again).await {
                let rest = &owed[at * MOST_REGISTERED..];
                self.local.lock().owe(rest.iter().map(|it| key(&it.device)));
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Beats that are being written. Those that are not when this is dropped are kept for the next flush.
struct Unwritten<'a> {
    presence: &'a Presence,
    beats: Vec<Held>,
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        self.presence.local.lock().put_back(&self.beats);
    }
}
