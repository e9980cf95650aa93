//! Sockets whose device was ended by somebody else: by a request, on any node.
//!
//! Always true: the state remembers that a device was removed, and the node that holds its socket learns it at the latest
//! from the answer to its next beat. The channel between nodes only makes it prompt.

use std::sync::Arc;
use std::time::Duration;

use parlor_store::Event;
use tokio::time::sleep;

use super::Presence;
use super::local::{Going, Held};
use super::ops::{Device, UserStatus};
use crate::bus::frame::{self, Frame, Kind};
use crate::context::Moment;
use crate::error::Result;
use crate::ids::{DeviceId, UserId};

/// Before the channel is asked for again while the store is away.
const PAUSE: Duration = Duration::from_secs(1);

impl Presence {
    /// Ends a device of a user, whoever holds it. Its socket is closed: see [`closed`](Self::closed).
    pub async fn remove(&self, user: &UserId, id: &DeviceId) -> Result<UserStatus> {
        let held = {
            let mut local = self.local.lock();
            local.forget_beat(user, id);
            local.get(user, id, None).cloned()
        };
        let at = self.ctx.now();
        let settled = self.end(user, id, "").await?;
        let body = format!("{} {user} {id}", at.ms());
        let mut frame = frame::head(Kind::DeviceRemoved, body.len());
        frame.extend(body.as_bytes());
        let channel = self.ctx.keys().control_bus();
        // If it is not heard, the next beat tells.
        let _ = self
            .ctx
            .store()
            .bus()
            .publish(channel.as_str(), frame)
            .await;
        // The one that was held here, whatever the clock says. One that came since stays.
        if let Some(held) = held {
            self.refuse(&held, true).await?;
        }
        Ok(settled.of(user))
    }

    /// The next socket of this node that has to be closed, because its device was removed or its user has too many. Safe
    /// to cancel.
    pub async fn closed(&self) -> Device {
        loop {
            if let Some(device) = self.local.lock().take_closing() {
                return Arc::unwrap_or_clone(device);
            }
            self.closing.notified().await;
        }
    }

    /// A device was removed at a moment: a socket that held it before is closed.
    async fn removed(&self, user: &UserId, id: &DeviceId, at: Moment) -> Result<()> {
        let held = self.local.lock().get(user, id, None).cloned();
        match held {
            Some(held) if held.connected < at => self.refuse(&held, true).await,
            _ => Ok(()),
        }
    }

    /// A socket that has no place here any more is forgotten, and closed if nobody else does it.
    pub(super) async fn refuse(&self, held: &Held, close: bool) -> Result<()> {
        {
            let mut local = self.local.lock();
            if held.device.socket.is_none() || local.remove(&held.device, Going::Left).is_none() {
                return Ok(());
            }
            if close {
                local.close(Arc::clone(&held.device));
                self.closing.notify_one();
            }
        }
        self.went([(held, 0)].into_iter()).await
    }

    /// Hears of devices that were removed on other nodes, for as long as it is polled.
    pub(super) async fn hear_removals(self: Arc<Self>) {
        let channel = self.ctx.keys().control_bus();
        loop {
            if let Ok(mut heard) = self.ctx.store().bus().subscribe(channel.as_str()).await {
                while let Some(event) = heard.next().await {
                    let Event::Message { payload, .. } = event else {
                        continue;
                    };
                    if let Some((at, user, id)) = removal(&payload)
                        && let Err(error) = self.removed(&user, &id, at).await
                    {
                        tracing::debug!(%error, "cannot forget a removed device");
                    }
                }
            }
            sleep(PAUSE).await;
        }
    }
}

/// `ms user device` after the head of the frame.
fn removal(payload: &[u8]) -> Option<(Moment, UserId, DeviceId)> {
    let Frame::Known(Kind::DeviceRemoved, body) = Frame::from(payload) else {
        return None;
    };
    let mut words = str::from_utf8(body).ok()?.splitn(3, ' ');
    let at = Moment(words.next()?.parse().ok()?);
    let user = UserId::new(words.next()?).ok()?;
    Some((at, user, DeviceId::new(words.next()?).ok()?))
}
