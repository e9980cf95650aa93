//! Removes a device on behalf of a request, and closes its sockets on any node.
//!
//! Invariant: the state records the removal, and the node that holds the socket learns of it at the latest from the
//! reply to the next heartbeat. The frame on the control channel only makes it faster.

use std::sync::Arc;

use super::Presence;
use super::local_devices::{Departure, LocalDevice};
use super::model::{Device, UserStatus};
use crate::api::error::Result;
use crate::background::log_failure;
use crate::bus::control::{self, ControlListener};
use crate::bus::frame::BusFrameKind;
use crate::clock::Timestamp;
use crate::ids::{DeviceId, UserId};

impl Presence {
    /// Removes a device of a user, no matter which node holds it. Its sockets are closed, see
    /// [`next_socket_to_close`](Self::next_socket_to_close).
    pub async fn remove_device(&self, user: &UserId, id: &DeviceId) -> Result<UserStatus> {
        let held = {
            let mut local = self.devices.lock();
            local.discard_heartbeat(&(user.clone(), id.clone()));
            local.sockets_of(user, id)
        };
        let removed_at = self.ctx.now();
        let snapshot = self.remove_from_store(user, id, "").await?;
        let body = format!("{} {user} {id}", removed_at.as_millis());
        // If the message is lost, the reply to the next heartbeat reports the removal.
        control::publish(&self.ctx, BusFrameKind::DeviceRemoved, &body).await;
        // Local sockets from before the removal are closed regardless of the clock. A newer socket stays.
        for held in held {
            self.drop_socket(&held, true).await?;
        }
        Ok(self.reader.with_floor(snapshot.into_user_status(user)))
    }

    /// Waits for the next socket of this node that the gateway has to close, because its device was removed or its user
    /// has too many devices. Cancellation safe.
    pub async fn next_socket_to_close(&self) -> Device {
        loop {
            if let Some(device) = self.devices.lock().pop_socket_to_close() {
                return Arc::unwrap_or_clone(device);
            }
            self.socket_close_requested.notified().await;
        }
    }

    /// Closes the sockets of a removed device that connected before the removal.
    async fn handle_removed_device(
        &self,
        user: &UserId,
        id: &DeviceId,
        removed_at: Timestamp,
    ) -> Result<()> {
        let held = self.devices.lock().sockets_of(user, id);
        for held in held.iter().filter(|it| it.connected_at < removed_at) {
            self.drop_socket(held, true).await?;
        }
        Ok(())
    }

    /// Drops a socket from this node's list. With `close`, the gateway has to close it.
    pub(super) async fn drop_socket(&self, held: &LocalDevice, close: bool) -> Result<()> {
        {
            let mut local = self.devices.lock();
            if held.device.socket.is_none()
                || local
                    .remove(&held.device, Departure::Disconnected)
                    .is_none()
            {
                return Ok(());
            }
            if close {
                local.queue_socket_close(Arc::clone(&held.device));
                self.socket_close_requested.notify_one();
            }
        }
        self.clean_up_after_departures([(held, 0)].into_iter())
            .await
    }

    /// Listens for devices that other nodes removed. Never returns.
    pub(super) async fn listen_for_removed_devices(self: Arc<Self>) {
        let mut messages = ControlListener::new(self.ctx.clone(), BusFrameKind::DeviceRemoved);
        loop {
            let body = messages.next().await;
            if let Some((removed_at, user, id)) = body.as_deref().and_then(decode_device_removed) {
                let closed = self.handle_removed_device(&user, &id, removed_at).await;
                log_failure("drop the socket of a removed device", &closed);
            }
        }
    }
}

/// Decodes `ms user device`.
fn decode_device_removed(body: &str) -> Option<(Timestamp, UserId, DeviceId)> {
    let [time, user, id] = control::words(body)?;
    Some((
        Timestamp(time.parse().ok()?),
        UserId::new(user).ok()?,
        DeviceId::new(id).ok()?,
    ))
}
