//! Writing what was collected: beats, sockets to be registered again, goodbyes that the store missed.
//!
//! Always true: a device that left while its beat was on the way is not registered anew.

use redis::pipe;

use super::Presence;
use super::local::{LocalDevice, device_key};
use super::register::{NO_SOCKET, RegistrationReason};
use super::step::{PresenceScriptArgs, query_each};
use crate::context::duration_millis;
use crate::error::Result;
use crate::ids::DeadlineShard;
use crate::keys::TtlName;
use crate::ticking::log_failure;

/// Beats in one pipeline: what they are written with is held in memory, and nobody else is served meanwhile.
const MAX_HEARTBEATS_PER_PIPELINE: usize = 500;
/// Registrations in one pipeline.
const MAX_REGISTRATIONS_PER_PIPELINE: usize = 500;
/// Registrations in one flush: a node that comes back does not block the store for the others.
const MAX_REGISTRATIONS_PER_FLUSH: usize = 20_000;

/// The reply of `beat.lua` for a device that has to be registered.
const REPLY_UNKNOWN_DEVICE: u8 = 0;
/// The reply of `beat.lua` for a device that somebody has ended.
const REPLY_DEVICE_REMOVED: u8 = 3;

impl Presence {
    /// Writes the collected beats. To be called once a second. What cannot be written is kept.
    pub async fn flush_heartbeats(&self) -> Result<()> {
        let _flushing = self.flush_lock.lock().await;
        self.register_queued().await?;
        self.write_deferred_departures().await?;
        if self.devices.lock().has_queued_registrations() {
            return Ok(());
        }
        let mut unwritten = UnwrittenHeartbeats {
            presence: self,
            beats: self.devices.lock().start_flush(),
        };
        let (mut unknown, mut ended) = (Vec::new(), Vec::new());
        while !unwritten.beats.is_empty() {
            let from = unwritten
                .beats
                .len()
                .saturating_sub(MAX_HEARTBEATS_PER_PIPELINE);
            let written = self.write_heartbeats(&unwritten.beats[from..]).await?;
            for (held, reply) in unwritten.beats.drain(from..).zip(written) {
                log_failure("write a heartbeat", &reply);
                match reply {
                    Ok(REPLY_UNKNOWN_DEVICE) => unknown.push(held),
                    Ok(REPLY_DEVICE_REMOVED) => ended.push(held),
                    _ => {}
                }
            }
        }
        let anew = self.devices.lock().finish_flush(unknown);
        for (at, chunk) in anew.chunks(MAX_REGISTRATIONS_PER_PIPELINE).enumerate() {
            if let Err(error) = self
                .register_devices(chunk, RegistrationReason::Restore)
                .await
            {
                let mut local = self.devices.lock();
                for held in &anew[at * MAX_REGISTRATIONS_PER_PIPELINE..] {
                    local.buffer_heartbeat(&held.device, held.connected_at);
                }
                return Err(error);
            }
        }
        for held in ended {
            self.drop_socket(&held, true).await?;
        }
        Ok(())
    }

    async fn write_heartbeats(&self, beats: &[LocalDevice]) -> Result<Vec<Result<u8>>> {
        let steps = PresenceScriptArgs::new(&self.ctx);
        let keys = self.ctx.keys();
        let ttl = keys.ttl(TtlName::Presence);
        let mut pipe = pipe();
        for held in beats {
            let device = &held.device;
            let call = steps.call(|it| &it.beat, &device.user);
            let epoch = device
                .socket
                .as_ref()
                .map_or(NO_SOCKET, |_| self.local_node.epoch());
            let call = call.arg(&device.id).arg(self.local_node.id()).arg(epoch);
            pipe.add_command(call.arg(held.connected_at.as_millis()).cmd());
            match &device.socket {
                Some(socket) => pipe
                    .cmd("SET")
                    .arg(keys.socket_user(socket))
                    .arg(&device.user)
                    .arg("PX")
                    .arg(duration_millis(ttl)),
                // No node registers it again when a part of a Cluster has lost the index.
                None => pipe
                    .cmd("ZADD")
                    .arg(keys.presence_deadlines(DeadlineShard::of(&device.user)))
                    .arg("NX")
                    .arg(steps.now.saturating_add(ttl).as_millis())
                    .arg(&device.user),
            };
            pipe.ignore();
        }
        // After a restart everybody has a lifetime to show up: see `revive`.
        query_each(
            self.ctx.store().idempotent().with_volatile_updates(),
            &mut pipe,
        )
        .await
    }

    /// Registers sockets again after others may have ended them, or when they could not be registered at first.
    async fn register_queued(&self) -> Result<()> {
        let owed = self
            .devices
            .lock()
            .take_registrations(MAX_REGISTRATIONS_PER_FLUSH);
        for (at, chunk) in owed.chunks(MAX_REGISTRATIONS_PER_PIPELINE).enumerate() {
            if let Err(error) = self
                .register_devices(chunk, RegistrationReason::Restore)
                .await
            {
                let rest = &owed[at * MAX_REGISTRATIONS_PER_PIPELINE..];
                self.devices
                    .lock()
                    .queue_registrations(rest.iter().map(|it| device_key(&it.device)));
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Beats that are being written. Those that are not when this is dropped are kept for the next flush.
struct UnwrittenHeartbeats<'a> {
    presence: &'a Presence,
    beats: Vec<LocalDevice>,
}

impl Drop for UnwrittenHeartbeats<'_> {
    fn drop(&mut self) {
        self.presence.devices.lock().return_unwritten(&self.beats);
    }
}
