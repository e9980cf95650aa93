//! Flushes what this node has buffered: queued registrations, deferred departures, heartbeats.
//!
//! Invariant: a device that disconnects while its heartbeat is in flight is not registered again.

use redis::pipe;

use super::Presence;
use super::local_devices::{LocalDevice, device_key};
use super::model::Device;
use super::register::RegistrationReason;
use super::script_call::{PresenceScriptArgs, query_each};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::clock::duration_millis;
use crate::ids::DeadlineShard;
use crate::keys::TtlName;

/// Maximum number of heartbeats in one pipeline. It limits the memory of the pipeline, and the time in which the store
/// serves no other client.
const MAX_HEARTBEATS_PER_PIPELINE: usize = 500;
/// Maximum number of registrations in one pipeline.
const MAX_REGISTRATIONS_PER_PIPELINE: usize = 500;
/// Maximum number of registrations in one flush: a node that returns must not block the store for the others.
const MAX_REGISTRATIONS_PER_FLUSH: usize = 20_000;

/// Reply of `beat_device.lua`: the deadline is extended.
const REPLY_WRITTEN: u8 = 1;
/// Reply of `beat_device.lua`: the device is unknown or its connection was lost, so it has to be registered.
const REPLY_UNKNOWN_DEVICE: u8 = 0;
/// Reply of `beat_device.lua`: the device was removed.
const REPLY_DEVICE_REMOVED: u8 = 3;

impl Presence {
    /// Writes the buffered heartbeats. Unwritten ones stay in the buffer. The background task calls this every second.
    ///
    /// A full store rejects registrations and departures, which stay queued. It still accepts heartbeats, which are not
    /// written to its disk.
    pub async fn flush_heartbeats(&self) -> Result<()> {
        let _flushing = self.flush_lock.lock().await;
        let is_full = match self.flush_registrations().await {
            Err(Error::StoreFull(error)) => Some(error),
            flushed => {
                flushed?;
                None
            }
        };
        if is_full.is_none() && self.devices.lock().has_queued_registrations() {
            return Ok(());
        }
        self.flush_beats().await?;
        is_full.map_or(Ok(()), |error| Err(Error::StoreFull(error)))
    }

    /// Writes the queued registrations and the deferred departures.
    async fn flush_registrations(&self) -> Result<()> {
        self.register_queued().await?;
        self.write_deferred_departures().await
    }

    async fn flush_beats(&self) -> Result<()> {
        let mut unwritten = UnwrittenHeartbeats {
            presence: self,
            beats: self.devices.lock().start_flush(),
        };
        let (mut unknown_devices, mut removed_devices) = (Vec::new(), Vec::new());
        while !unwritten.beats.is_empty() {
            let from = unwritten
                .beats
                .len()
                .saturating_sub(MAX_HEARTBEATS_PER_PIPELINE);
            let batch = &unwritten.beats[from..];
            let written = self.write_heartbeats(batch).await?;
            let refreshed = batch.iter().zip(&written);
            let refreshed = refreshed.filter(|(_, reply)| matches!(reply, Ok(REPLY_WRITTEN)));
            self.write_owners_without_socket(refreshed.map(|(held, _)| held))
                .await?;
            for (held, reply) in unwritten.beats.drain(from..).zip(written) {
                log_failure("write a heartbeat", &reply);
                match reply {
                    Ok(REPLY_UNKNOWN_DEVICE) if self.registers(&held.device) => {
                        unknown_devices.push(held);
                    }
                    Ok(REPLY_DEVICE_REMOVED) => removed_devices.push(held),
                    _ => {}
                }
            }
        }
        let to_register = self.devices.lock().finish_flush(unknown_devices);
        let (unregistered, result) = self.register_in_batches(&to_register).await;
        {
            let mut devices = self.devices.lock();
            for held in unregistered {
                devices.buffer_heartbeat(&held.device, held.connected_at);
            }
        }
        result?;
        for held in removed_devices {
            self.drop_socket(&held, true).await?;
        }
        Ok(())
    }

    /// True if a heartbeat of the unknown device registers it.
    fn registers(&self, device: &Device) -> bool {
        device.socket.is_some() || self.ctx.keys().settings().beat_registers
    }

    async fn write_heartbeats(&self, beats: &[LocalDevice]) -> Result<Vec<Result<u8>>> {
        let args = PresenceScriptArgs::new(&self.ctx);
        let keys = self.ctx.keys();
        let ttl = keys.ttl(TtlName::Presence);
        let mut pipe = pipe();
        for held in beats {
            let device = &held.device;
            let call = args.call(|it| &it.beat, &device.user);
            let call = call
                .arg(device.entry_id())
                .arg(self.local_node.id())
                .arg(self.holder(device))
                .arg(held.connected_at.as_millis())
                .arg(&device.id);
            pipe.add_command(call.cmd());
            if let Some(socket) = &device.socket {
                pipe.cmd("SET")
                    .arg(keys.socket_user(socket))
                    .arg(&device.user)
                    .arg("PX")
                    .arg(duration_millis(ttl))
                    .ignore();
            }
            // If a server of the Cluster has lost the index, no node registers a device without a socket again, so the
            // heartbeat restores the entry.
            if device.socket.is_none() && keys.cluster() && self.registers(device) {
                pipe.cmd("ZADD")
                    .arg(keys.presence_deadlines(DeadlineShard::for_user(&device.user)))
                    .arg("NX")
                    .arg(args.now.saturating_add(ttl).as_millis())
                    .arg(&device.user)
                    .ignore();
            }
        }
        // Volatile: after a restart every device gets a new deadline, see `restart.rs`.
        query_each(
            self.ctx.store().idempotent().with_volatile_updates(),
            &mut pipe,
        )
        .await
    }

    /// In the layout `sockets`, writes the owners of devices without a socket.
    pub(super) async fn write_owners_without_socket(
        &self,
        devices: impl Iterator<Item = &LocalDevice>,
    ) -> Result<()> {
        let keys = self.ctx.keys();
        let ttl = duration_millis(keys.ttl(TtlName::Presence));
        let mut pipe = pipe();
        for held in devices.filter(|it| it.device.socket.is_none()) {
            if let Some(socket_user) = keys.owner_of_device(&held.device) {
                let set = pipe.cmd("SET").arg(socket_user).arg(&held.device.user);
                set.arg("PX").arg(ttl).ignore();
            }
        }
        if !pipe.is_empty() {
            // Volatile: a restart of the store also extends the deadlines.
            let mut store = self.ctx.store().idempotent().with_volatile_updates();
            pipe.exec_async(&mut store).await?;
        }
        Ok(())
    }

    /// Registers the queued sockets.
    async fn register_queued(&self) -> Result<()> {
        let queued = self
            .devices
            .lock()
            .take_registrations(MAX_REGISTRATIONS_PER_FLUSH);
        let (unregistered, result) = self.register_in_batches(&queued).await;
        let unregistered = unregistered.iter().map(|held| device_key(&held.device));
        self.devices.lock().queue_registrations(unregistered);
        result
    }

    /// Restores devices in several pipelines. After a failure, returns the devices that were not registered.
    async fn register_in_batches<'a>(
        &self,
        devices: &'a [LocalDevice],
    ) -> (&'a [LocalDevice], Result<()>) {
        let mut rest = devices;
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(rest.len().min(MAX_REGISTRATIONS_PER_PIPELINE));
            let registered = self.register_devices(batch, RegistrationReason::Restore);
            if let Err(error) = registered.await {
                return (rest, Err(error));
            }
            rest = after;
        }
        (rest, Ok(()))
    }
}

/// Heartbeats that are being written. If the guard is dropped, the unwritten ones return to the buffer.
struct UnwrittenHeartbeats<'a> {
    presence: &'a Presence,
    beats: Vec<LocalDevice>,
}

impl Drop for UnwrittenHeartbeats<'_> {
    fn drop(&mut self) {
        self.presence.devices.lock().return_unwritten(&self.beats);
    }
}
