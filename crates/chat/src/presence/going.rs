//! Devices go, with a goodbye or without one.
//!
//! Always true:
//! 1. What went while the store was away is written when it is back. It is announced even if the store came back empty, but
//!    not before the nodes had time to fill it again: the user may be there through another one.
//! 2. A goodbye that nobody waits for any more is said all the same.

use redis::pipe;

use super::Presence;
use super::local::{Departure, LocalDevice};
use super::ops::Device;
use super::step::{PresenceScriptArgs, PresenceSnapshot, query_each};
use crate::context::duration_millis;
use crate::error::Result;
use crate::ticking::log_failure;

/// Goodbyes in one pipeline.
const MAX_DEPARTURES_PER_PIPELINE: usize = 500;

/// What the scripts are told of a goodbye that the store missed.
const MODE_DEFERRED: &str = "missed";

impl Presence {
    pub(super) async fn depart(&self, device: &Device, how: Departure) -> Result<()> {
        let held = self.devices.lock().remove(device, how);
        match (held, &device.socket) {
            (Some(held), _) => self.write_departures(vec![(held, how)], "").await,
            (None, Some(socket)) => {
                let mut forget = redis::cmd("DEL");
                forget.arg(self.ctx.keys().socket_user(socket));
                // Nobody renews it: if the store is away, its time ends it.
                let _ = forget.exec_async(&mut self.ctx.store().idempotent()).await;
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Writes what went while the store was away.
    pub(super) async fn write_deferred_departures(&self) -> Result<()> {
        if !self.local_node.is_lease_stable() {
            return Ok(());
        }
        let missed = self.devices.lock().take_deferred_departures();
        self.write_departures(missed, MODE_DEFERRED).await
    }

    /// All sockets of this node are lost, so that they can come back elsewhere within the grace time.
    pub(super) async fn all_connections_lost(&self) -> Result<()> {
        let (sockets, mut goings) = {
            let mut local = self.devices.lock();
            (local.drain(), local.take_deferred_departures())
        };
        goings.extend(
            sockets
                .into_iter()
                .map(|it| (it, Departure::ConnectionLost)),
        );
        self.write_departures(goings, "").await
    }

    /// Writes goodbyes. What is not written when this ends, for whatever reason, is kept for the next flush.
    pub(super) async fn write_departures(
        &self,
        goings: Vec<(LocalDevice, Departure)>,
        mode: &str,
    ) -> Result<()> {
        let mut unsaid = UnwrittenDepartures {
            presence: self,
            departures: goings,
        };
        while !unsaid.departures.is_empty() {
            let from = unsaid
                .departures
                .len()
                .saturating_sub(MAX_DEPARTURES_PER_PIPELINE);
            self.write_departure_batch(&unsaid.departures[from..], mode)
                .await?;
            unsaid.departures.truncate(from);
        }
        Ok(())
    }

    async fn write_departure_batch(
        &self,
        goings: &[(LocalDevice, Departure)],
        mode: &str,
    ) -> Result<()> {
        let steps = PresenceScriptArgs::new(&self.ctx);
        let mut pipe = pipe();
        for (held, how) in goings {
            // One that the store never knew is not missed.
            let mode = if held.known_to_store { mode } else { "" };
            pipe.add_command(self.departure_cmd(&steps, held, *how, mode));
        }
        let settled: Vec<Result<PresenceSnapshot>> =
            query_each(self.ctx.store().idempotent(), &mut pipe).await?;
        let gone = goings.iter().zip(&settled).map(|((held, _), settled)| {
            log_failure("write a departure", settled);
            (held, settled.as_ref().map_or(0, |it| it.latest_deadline))
        });
        self.clean_up_after_departures(gone).await
    }

    fn departure_cmd(
        &self,
        steps: &PresenceScriptArgs<'_>,
        held: &LocalDevice,
        how: Departure,
        mode: &str,
    ) -> redis::Cmd {
        let user = &held.device.user;
        let call = match how {
            Departure::Disconnected => steps.call(|it| &it.remove, user),
            Departure::ConnectionLost => steps.call(|it| &it.start_grace, user),
        };
        let call = call
            .arg(&held.device.id)
            .arg(self.local_node.epoch())
            .arg(held.connected_at.to_iso8601())
            .arg(mode);
        match how {
            Departure::Disconnected => call.cmd(),
            Departure::ConnectionLost => call
                .arg(duration_millis(self.local_node.grace_period()))
                .cmd(),
        }
    }

    /// What follows when sockets went, each with the latest deadline of its user: the index is told, the sockets are
    /// forgotten, and the users whose last socket here it was.
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
        // One that connects after this look adds the user itself, after the removal.
        for user in last {
            if self.devices.lock().has_user(user) {
                let mut again = redis::cmd("SADD");
                again.arg(&set).arg(user).exec_async(&mut store).await?;
            }
        }
        Ok(())
    }
}

/// Goodbyes that are being said.
struct UnwrittenDepartures<'a> {
    presence: &'a Presence,
    departures: Vec<(LocalDevice, Departure)>,
}

impl Drop for UnwrittenDepartures<'_> {
    fn drop(&mut self) {
        let unsaid = std::mem::take(&mut self.departures);
        self.presence.devices.lock().defer_departures(unsaid);
    }
}
