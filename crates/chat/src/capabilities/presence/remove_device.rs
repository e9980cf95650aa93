//! Removes a device on behalf of a request, and closes its socket on any node.
//!
//! Invariant: the state records the removal, and the node that holds the socket learns of it at the latest from the
//! reply to the next heartbeat. The frame on the control channel only makes it faster.

use std::sync::Arc;
use std::time::Duration;

use parlor_store::BusEvent;
use tokio::time::sleep;

use super::Presence;
use super::local_devices::{Departure, LocalDevice};
use super::model::{Device, UserStatus};
use crate::api::error::Result;
use crate::bus::frame::{self, BusFrame, BusFrameKind};
use crate::clock::Timestamp;
use crate::ids::{DeviceId, UserId};

/// Wait before the node subscribes again while the store is unavailable.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(1);

impl Presence {
    /// Removes a device of a user, no matter which node holds it. Its socket is closed, see
    /// [`next_socket_to_close`](Self::next_socket_to_close).
    pub async fn remove(&self, user: &UserId, id: &DeviceId) -> Result<UserStatus> {
        let held = {
            let mut local = self.devices.lock();
            local.discard_heartbeat(user, id);
            local.find(user, id, None).cloned()
        };
        let at = self.ctx.now();
        let settled = self.remove_from_store(user, id, "").await?;
        let body = format!("{} {user} {id}", at.as_millis());
        let mut frame = frame::head(BusFrameKind::DeviceRemoved, body.len());
        frame.extend(body.as_bytes());
        let channel = self.ctx.keys().control_channel();
        // If the frame is lost, the reply to the next heartbeat reports the removal.
        let _ = self
            .ctx
            .store()
            .bus()
            .publish(channel.as_str(), frame)
            .await;
        // A local socket from before the removal is closed regardless of the clock. A newer socket stays.
        if let Some(held) = held {
            self.drop_socket(&held, true).await?;
        }
        Ok(settled.into_user_status(user))
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

    /// Closes the socket of a removed device if the socket connected before the removal.
    async fn handle_removed_device(
        &self,
        user: &UserId,
        id: &DeviceId,
        at: Timestamp,
    ) -> Result<()> {
        let held = self.devices.lock().find(user, id, None).cloned();
        match held {
            Some(held) if held.connected_at < at => self.drop_socket(&held, true).await,
            _ => Ok(()),
        }
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
        let channel = self.ctx.keys().control_channel();
        loop {
            if let Ok(mut heard) = self.ctx.store().bus().subscribe(channel.as_str()).await {
                while let Some(event) = heard.next().await {
                    let BusEvent::Message { payload, .. } = event else {
                        continue;
                    };
                    if let Some((at, user, id)) = decode_device_removed(&payload)
                        && let Err(error) = self.handle_removed_device(&user, &id, at).await
                    {
                        tracing::debug!(%error, "cannot drop the socket of a removed device");
                    }
                }
            }
            sleep(RESUBSCRIBE_DELAY).await;
        }
    }
}

/// Decodes `ms user device` after the head of the frame.
fn decode_device_removed(payload: &[u8]) -> Option<(Timestamp, UserId, DeviceId)> {
    let BusFrame::Known(BusFrameKind::DeviceRemoved, body) = BusFrame::from(payload) else {
        return None;
    };
    let mut words = str::from_utf8(body).ok()?.splitn(3, ' ');
    let at = Timestamp(words.next()?.parse().ok()?);
    let user = UserId::new(words.next()?).ok()?;
    Some((at, user, DeviceId::new(words.next()?).ok()?))
}
