//! Sockets whose device was ended by somebody else: by a request, on any node.
//!
//! Always true: the state remembers that a device was removed, and the node that holds its socket learns it at the latest
//! from the answer to its next beat. The channel between nodes only makes it prompt.

use std::sync::Arc;
use std::time::Duration;

use parlor_store::BusEvent;
use tokio::time::sleep;

use super::Presence;
use super::local::{Departure, LocalDevice};
use super::ops::{Device, UserStatus};
use crate::bus::frame::{self, BusFrame, BusFrameKind};
use crate::context::Timestamp;
use crate::error::Result;
use crate::ids::{DeviceId, UserId};

/// Before the channel is asked for again while the store is away.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(1);

impl Presence {
    /// Ends a device of a user, whoever holds it. Its socket is closed: see [`closed`](Self::closed).
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
        // If it is not heard, the next beat tells.
        let _ = self
            .ctx
            .store()
            .bus()
            .publish(channel.as_str(), frame)
            .await;
        // The one that was held here, whatever the clock says. One that came since stays.
        if let Some(held) = held {
            self.drop_socket(&held, true).await?;
        }
        Ok(settled.into_user_status(user))
    }

    /// The next socket of this node that has to be closed, because its device was removed or its user has too many. Safe
    /// to cancel.
    pub async fn next_socket_to_close(&self) -> Device {
        loop {
            if let Some(device) = self.devices.lock().pop_socket_to_close() {
                return Arc::unwrap_or_clone(device);
            }
            self.socket_close_requested.notified().await;
        }
    }

    /// A device was removed at a moment: a socket that held it before is closed.
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

    /// A socket that has no place here any more is forgotten, and closed if nobody else does it.
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

    /// Hears of devices that were removed on other nodes, for as long as it is polled.
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

/// `ms user device` after the head of the frame.
fn decode_device_removed(payload: &[u8]) -> Option<(Timestamp, UserId, DeviceId)> {
    let BusFrame::Known(BusFrameKind::DeviceRemoved, body) = BusFrame::from(payload) else {
        return None;
    };
    let mut words = str::from_utf8(body).ok()?.splitn(3, ' ');
    let at = Timestamp(words.next()?.parse().ok()?);
    let user = UserId::new(words.next()?).ok()?;
    Some((at, user, DeviceId::new(words.next()?).ok()?))
}
