//! Writing what was collected: beats, sockets to be registered again, goodbyes that the store missed.
//!
//! Always true: a device that left while its beat was on the way is not registered anew.

use redis::pipe;

use super::Presence;
use super::ops::Device;
use super::register::API;
use super::step::Steps;
use crate::context::millis;
use crate::error::Result;
use crate::keys::TtlName;

/// Beats in one pipeline; more than a node has in a second.
const MOST_BEATS: usize = 10_000;
/// Registrations in one pipeline.
const MOST_REGISTERED: usize = 500;
/// Registrations in one flush: a node that comes back does not block the store for the others.
const MOST_OWED: usize = 20_000;

/// The reply of `beat.lua` for a device that has to be registered.
const UNKNOWN: u8 = 0;

impl Presence {
    /// Writes the collected beats, in one pipeline. To be called once a second. What cannot be written is kept.
    pub async fn flush_beats(&self) -> Result<()> {
        let _flushing = self.flushing.lock().await;
        self.register_owed().await?;
        self.write_missed().await?;
        if self.local.lock().owes() {
            return Ok(());
        }
        let beats = self.local.lock().take_beats();
        let mut unknown = Vec::new();
        for (at, chunk) in beats.chunks(MOST_BEATS).enumerate() {
            match self.write_beats(chunk).await {
                Ok(replies) => {
                    let chunk = chunk.iter().zip(replies);
                    unknown.extend(chunk.filter(|(_, reply)| *reply == UNKNOWN).map(|it| it.0));
                }
                Err(error) => {
                    self.local.lock().put_back(&beats[at * MOST_BEATS..]);
                    return Err(error);
                }
            }
        }
        let anew = self.local.lock().landed(unknown, &self.ctx.now().iso());
        for (at, chunk) in anew.chunks(MOST_REGISTERED).enumerate() {
            if let Err(error) = self.register(chunk).await {
                let mut local = self.local.lock();
                for held in &anew[at * MOST_REGISTERED..] {
                    local.beat(&held.device);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    async fn write_beats(&self, devices: &[Device]) -> Result<Vec<u8>> {
        let steps = Steps::now(&self.ctx);
        let keys = self.ctx.keys();
        let ttl = millis(keys.ttl(TtlName::Presence));
        let mut pipe = pipe();
        for device in devices {
            let call = steps.call(|it| &it.beat, &device.user);
            let epoch = device.socket.as_ref().map_or(API, |_| self.nodes.epoch());
            pipe.add_command(call.arg(&device.id).arg(self.nodes.id()).arg(epoch).cmd());
            if let Some(socket) = &device.socket {
                pipe.cmd("SET")
                    .arg(keys.socket_user(socket))
                    .arg(&device.user)
                    .arg("PX")
                    .arg(ttl)
                    .ignore();
            }
        }
        Ok(pipe.query_async(&mut self.ctx.store().repeatable()).await?)
    }

    /// Registers sockets again after others may have ended them, or when they could not be registered at first.
    async fn register_owed(&self) -> Result<()> {
        let owed = self.local.lock().take_owed(MOST_OWED);
        for (at, chunk) in owed.chunks(MOST_REGISTERED).enumerate() {
            if let Err(error) = self.register(chunk).await {
                let rest = &owed[at * MOST_REGISTERED..];
                let rest = rest.iter().map(|held| super::local::key(&held.device));
                self.local.lock().owe(rest);
                return Err(error);
            }
        }
        Ok(())
    }
}
