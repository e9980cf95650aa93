//! Publishes the end of sessions to all nodes, and handles what other nodes publish.
//!
//! Invariant: a node that misses a frame finds ended sessions by reading the sessions of all its connected users: when
//! frames may have been lost, and every 20 seconds, because other services publish nothing.

use std::sync::Arc;
use std::time::Duration;

use parlor_store::BusEvent;
use tokio::time::sleep;

use super::Sessions;
use super::connections::{ConnectionRegistration, Ended, SessionEnd, SessionEndWaiter};
use super::model::{SessionEndReason, SessionStatus};
use super::session_key::StoredSession;
use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::bus::frame::{self, BusFrame, BusFrameKind};
use crate::clock::Timestamp;
use crate::ids::{DeviceId, UserId};

/// Wait before subscribing again while the store is unavailable.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(1);
/// Number of users whose sessions are read concurrently.
const RECHECK_BATCH_SIZE: usize = 1_000;

impl Sessions {
    /// Registers a connection of the caller. `ended` is called with the reason when the session ends, perhaps before
    /// this returns. The connection is registered before the session is checked, so that no block in between is missed.
    pub async fn attach_with(
        &self,
        caller: &Caller,
        device: Option<&DeviceId>,
        ended: Ended,
    ) -> Result<ConnectionRegistration> {
        let times = self.connection_times(caller);
        let attachment = self.hub.register(caller.user()?, device, times, ended);
        attachment.mark_admitted();
        self.check_after_registration(caller).await?;
        Ok(attachment)
    }

    /// As above, for a connection that waits for the end of the session.
    pub async fn wait_for_session_end(
        &self,
        caller: &Caller,
        device: Option<&DeviceId>,
    ) -> Result<SessionEndWaiter> {
        let (user, times) = (caller.user()?, self.connection_times(caller));
        let attached =
            SessionEndWaiter::register(|ended| self.hub.register(user, device, times, ended));
        self.check_after_registration(caller).await?;
        Ok(attached)
    }

    /// The current time, and the time at which the caller's token was issued.
    pub(super) fn connection_times(&self, caller: &Caller) -> (Timestamp, Option<Timestamp>) {
        (self.ctx.now(), caller.issued_at.map(Timestamp))
    }

    async fn check_after_registration(&self, caller: &Caller) -> Result<()> {
        self.invalidate_cache(caller.user()?);
        self.check(caller.clone()).await.map(drop)
    }

    /// Notifies the connections of all nodes. Nodes that miss the frame find the end with the periodic re-check.
    pub(super) async fn publish_session_end(
        &self,
        user: &UserId,
        reason: SessionEndReason,
        device: Option<&DeviceId>,
    ) {
        let end = SessionEnd {
            reason,
            ended_at: self.ctx.now(),
            device: device.cloned(),
        };
        // Connections that were made later are re-checked when this node receives its own frame.
        let _ = self.hub.notify_session_end(user, &end);
        let device = device.map_or("", DeviceId::as_str);
        let body = format!(
            "{} {} {user} {device}",
            reason.name(),
            end.ended_at.as_millis()
        );
        let mut frame = frame::head(BusFrameKind::SessionClosed, body.len());
        frame.extend(body.as_bytes());
        let channel = self.ctx.keys().control_channel();
        let _ = self
            .ctx
            .store()
            .bus()
            .publish(channel.as_str(), frame)
            .await;
    }

    /// Handles the frames of ended sessions. Runs until the future is dropped.
    pub(super) async fn listen_for_session_ends(self: Arc<Self>) {
        let channel = self.ctx.keys().control_channel();
        loop {
            if let Ok(mut heard) = self.ctx.store().bus().subscribe(channel.as_str()).await {
                crate::background::log_failure(
                    "re-check the sessions of connected users",
                    &self.recheck_all().await,
                );
                while let Some(event) = heard.next().await {
                    match event {
                        BusEvent::Message { payload, .. } => self.handle_frame(&payload),
                        BusEvent::MaybeMissed => {
                            crate::background::log_failure(
                                "re-check the sessions of connected users",
                                &self.recheck_all().await,
                            );
                        }
                    }
                }
            }
            sleep(RESUBSCRIBE_DELAY).await;
        }
    }

    fn handle_frame(self: &Arc<Self>, payload: &[u8]) {
        let Some((user, end)) = decode_session_closed(payload) else {
            return;
        };
        self.invalidate_cache(&user);
        let (late, mark) = self.hub.notify_session_end(&user, &end);
        if late.is_empty() {
            return;
        }
        // In a task of its own, so that the following frames do not wait.
        let this = Arc::clone(self);
        tokio::spawn(async move {
            for issued in late {
                let looked = this.recheck_user(&user, issued, mark).await;
                crate::background::log_failure("re-check a session", &looked);
            }
        });
    }

    /// Reads the sessions of all connected users, and ends the connections of users whose session has ended.
    pub async fn recheck_all(&self) -> Result<()> {
        let (users, mark) = self.hub.users();
        for batch in users.chunks(RECHECK_BATCH_SIZE) {
            let looks = batch.iter().map(|user| self.recheck_user(user, None, mark));
            for looked in futures_util::future::join_all(looks).await {
                if looked.as_ref().is_err_and(Error::is_store_unavailable) {
                    return looked;
                }
                // An error of one user must not delay the others.
                crate::background::log_failure("re-check a session", &looked);
            }
        }
        Ok(())
    }

    /// Reads the session of a user, or whether the session allows a token that was issued at this time.
    async fn recheck_user(
        &self,
        user: &UserId,
        issued: Option<Timestamp>,
        mark: u64,
    ) -> Result<()> {
        let over = match self.read_session_key(user, issued, None).await? {
            StoredSession::Present(session) => {
                (session.status == SessionStatus::Blocked).then_some(SessionEndReason::Blocked)
            }
            StoredSession::Missing | StoredSession::TokenRevoked => Some(SessionEndReason::Logout),
            StoredSession::Unverified => match self.find(user, issued, None).await {
                Ok(session) => {
                    (session.status == SessionStatus::Blocked).then_some(SessionEndReason::Blocked)
                }
                Err(Error::SessionExpired) => Some(SessionEndReason::Logout),
                Err(error) => return Err(error),
            },
        };
        if let Some(reason) = over {
            self.invalidate_cache(user);
            self.hub.notify_admitted(user, reason, issued, mark);
        }
        Ok(())
    }
}

/// Decodes `reason time user device` after the head of the frame. Without a device, the sessions of all devices have
/// ended.
fn decode_session_closed(payload: &[u8]) -> Option<(UserId, SessionEnd)> {
    let BusFrame::Known(BusFrameKind::SessionClosed, body) = BusFrame::from(payload) else {
        return None;
    };
    let mut words = str::from_utf8(body).ok()?.splitn(4, ' ');
    let reason = SessionEndReason::named(words.next()?)?;
    let at = Timestamp(words.next()?.parse().ok()?);
    let user = UserId::new(words.next()?).ok()?;
    let device = DeviceId::new(words.next()?).ok();
    Some((
        user,
        SessionEnd {
            reason,
            ended_at: at,
            device,
        },
    ))
}
