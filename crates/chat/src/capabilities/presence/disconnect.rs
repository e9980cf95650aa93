//! Writes departures of sockets: clean disconnects and lost connections.
//!
//! Invariants:
//! 1. A departure that happened while the store was unavailable is written when the store is back. It is published even
//!    if the store lost the state, but not before the other nodes had time to register their devices again: the user
//!    may be connected to another node.
//! 2. A departure is written even if its caller drops the future.

use redis::pipe;

use super::Presence;
use super::local_devices::{Departure, LocalDevice};
use super::model::Device;
use super::script_call::{PresenceScriptArgs, PresenceSnapshot, query_each};
use crate::api::error::Result;
use crate::background::log_failure;
use crate::clock::{Timestamp, duration_millis};

/// Maximum number of departures in one pipeline.
const MAX_DEPARTURES_PER_PIPELINE: usize = 500;

/// Mode of the scripts for a departure that happened while the store was unavailable.
const MODE_DEFERRED: &str = "deferred";

impl Presence {
    pub(super) async fn depart(&self, device: &Device, how: Departure) -> Result<()> {
        let held = self.devices.lock().remove(device, how);
        match (held, &device.socket) {
            (Some(held), _) => self.write_departures(vec![(held, how)], "").await,
            (None, Some(socket)) => {
                let mut forget = redis::cmd("DEL");
                forget.arg(self.ctx.keys().socket_user(socket));
                // If the store is unavailable, the key expires, because its TTL is not renewed any more.
                let _ = forget.exec_async(&mut self.ctx.store().idempotent()).await;
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Writes the departures that happened while the store was unavailable.
    pub(super) async fn write_deferred_departures(&self) -> Result<()> {
        if !self.local_node.is_lease_stable() {
            return Ok(());
        }
        let deferred = self.devices.lock().take_deferred_departures();
        self.write_departures(deferred, MODE_DEFERRED).await
    }

    /// Marks all connections of this node as lost, so that the clients can reconnect elsewhere within the grace period.
    pub(super) async fn all_connections_lost(&self) -> Result<()> {
        let (sockets, mut departures) = {
            let mut local = self.devices.lock();
            (local.drain(), local.take_deferred_departures())
        };
        departures.extend(
            sockets
                .into_iter()
                .map(|it| (it, Departure::ConnectionLost)),
        );
        self.write_departures(departures, "").await
    }

    /// Writes departures. If the future fails or is dropped, the unwritten ones are kept for the next flush.
    pub(super) async fn write_departures(
        &self,
        departures: Vec<(LocalDevice, Departure)>,
        mode: &str,
    ) -> Result<()> {
        let mut unwritten = UnwrittenDepartures {
            presence: self,
            departures,
        };
        while !unwritten.departures.is_empty() {
            let from = unwritten
                .departures
                .len()
                .saturating_sub(MAX_DEPARTURES_PER_PIPELINE);
            self.write_departure_batch(&unwritten.departures[from..], mode)
                .await?;
            unwritten.departures.truncate(from);
        }
        Ok(())
    }

    async fn write_departure_batch(
        &self,
        departures: &[(LocalDevice, Departure)],
        mode: &str,
    ) -> Result<()> {
        let args = PresenceScriptArgs::new(&self.ctx);
        let mut pipe = pipe();
        for (held, how) in departures {
            // The departure of a device that the store never knew must not be published.
            let mode = if held.known_to_store { mode } else { "" };
            pipe.add_command(self.departure_cmd(&args, held, *how, mode));
        }
        let snapshots: Vec<Result<PresenceSnapshot>> =
            query_each(self.ctx.store().idempotent(), &mut pipe).await?;
        self.remember_grace_periods(departures, args.now);
        let gone = departures
            .iter()
            .zip(&snapshots)
            .map(|((held, _), snapshot)| {
                log_failure("write a departure", snapshot);
                (held, snapshot.as_ref().map_or(0, |it| it.latest_deadline))
            });
        self.clean_up_after_departures(gone).await
    }

    /// Remembers the ends of the grace periods while no sweep runs, see [`sweep`](Self::sweep).
    fn remember_grace_periods(&self, departures: &[(LocalDevice, Departure)], now: Timestamp) {
        if self.local_node.may_expire_others() {
            return;
        }
        let end = now.saturating_add(self.local_node.grace_period());
        let mut local = self.devices.lock();
        for (held, how) in departures {
            if *how == Departure::ConnectionLost {
                local.add_grace_period(end, held.device.user.clone());
            }
        }
    }

    fn departure_cmd(
        &self,
        args: &PresenceScriptArgs<'_>,
        held: &LocalDevice,
        how: Departure,
        mode: &str,
    ) -> redis::Cmd {
        let user = &held.device.user;
        let call = match how {
            Departure::Disconnected => args.call(|it| &it.remove, user),
            Departure::ConnectionLost => args.call(|it| &it.start_grace, user),
        };
        let call = call
            .arg(held.device.entry_id())
            .arg(self.local_node.boot_id())
            .arg(held.connected_at.to_iso8601())
            .arg(mode);
        match how {
            Departure::Disconnected => call.cmd(),
            Departure::ConnectionLost => call
                .arg(duration_millis(self.local_node.grace_period()))
                .cmd(),
        }
    }

    /// Cleans up after departures, each with the latest deadline of its user: lowers the entry in the deadline index,
    /// deletes the key of the socket, and removes users without a socket here from the node's user set.
    pub(super) async fn clean_up_after_departures(
        &self,
        gone: impl Iterator<Item = (&LocalDevice, u64)>,
    ) -> Result<()> {
        let keys = self.ctx.keys();
        let set = keys.node_presence_users(self.local_node.id());
        let mut pipe = pipe();
        let mut last = Vec::new();
        for (held, until) in gone {
            let user = &held.device.user;
            pipe.add_command(self.lower_deadline_cmd(user, until))
                .ignore();
            if let Some(socket) = &held.device.socket {
                pipe.cmd("DEL").arg(keys.socket_user(socket)).ignore();
            }
            if !self.devices.lock().has_user(user) {
                last.push(user);
            }
        }
        if !last.is_empty() {
            pipe.cmd("SREM").arg(&set).arg(&last).ignore();
        }
        let mut store = self.ctx.store().idempotent();
        pipe.exec_async(&mut store).await?;
        // A socket that connects after this check adds the user itself, and its `SADD` runs after the `SREM`.
        for user in last {
            if self.devices.lock().has_user(user) {
                let mut again = redis::cmd("SADD");
                again.arg(&set).arg(user).exec_async(&mut store).await?;
            }
        }
        Ok(())
    }
}

/// Departures that are being written. If the guard is dropped, the unwritten ones are deferred.
struct UnwrittenDepartures<'a> {
    presence: &'a Presence,
    departures: Vec<(LocalDevice, Departure)>,
}

impl Drop for UnwrittenDepartures<'_> {
    fn drop(&mut self) {
        let unwritten = std::mem::take(&mut self.departures);
        self.presence.devices.lock().defer_departures(unwritten);
    }
}
