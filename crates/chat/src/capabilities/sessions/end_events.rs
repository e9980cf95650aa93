//! Publishes the end of sessions to all nodes, and handles what other nodes publish.
//!
//! Invariants:
//! 1. A node that misses a frame finds ended sessions by reading the sessions of all its connected users: when frames may
//!    have been lost, and every 20 seconds, because other services publish nothing.
//! 2. The task that receives frames waits for neither the store nor the database, so a block is applied at once, even
//!    while the sessions of many users are being read.

use std::sync::Arc;

use super::Sessions;
use super::connections::{SessionEnd, SessionEndWaiter};
use super::model::{SessionEndReason, SessionStatus, UserSession};
use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::bus::control::{self, ControlListener};
use crate::bus::frame::BusFrameKind;
use crate::clock::Timestamp;
use crate::ids::{DeviceId, UserId};

/// Number of users whose sessions are read concurrently.
const RECHECK_BATCH_SIZE: usize = 1_000;

impl Sessions {
    /// Registers a connection of the caller, which waits for the end of the session. The connection is registered before
    /// the session is checked, so that no block in between is missed.
    pub async fn wait_for_session_end(
        &self,
        caller: &Caller,
        device: Option<&DeviceId>,
    ) -> Result<SessionEndWaiter> {
        let (user, times) = (caller.require_user()?, self.connection_times(caller));
        let waiter = SessionEndWaiter::register(|handler| {
            self.connections.register(user, device, times, handler)
        });
        self.invalidate_cache(user);
        self.check(caller.clone()).await?;
        Ok(waiter)
    }

    /// The current time, and the time at which the caller's token was issued.
    pub(super) fn connection_times(&self, caller: &Caller) -> (Timestamp, Option<Timestamp>) {
        (self.ctx.now(), caller.issued_at.map(Timestamp))
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
        let _ = self.connections.notify_session_end(user, &end);
        let device = device.map_or("", DeviceId::as_str);
        let body = format!(
            "{} {} {user} {device}",
            reason.name(),
            end.ended_at.as_millis()
        );
        control::publish(&self.ctx, BusFrameKind::SessionClosed, &body).await;
    }

    /// Handles the frames of ended sessions. Never returns.
    pub(super) async fn listen_for_session_ends(self: Arc<Self>) {
        let mut messages = ControlListener::new(self.ctx.clone(), BusFrameKind::SessionClosed);
        loop {
            match messages.next().await {
                Some(body) => self.handle_session_end(&body),
                None => self.recheck_requested.notify_one(),
            }
        }
    }

    /// Reads the sessions of all connected users after frames may have been lost. Requests that arrive meanwhile lead to
    /// one further pass. Never returns.
    pub(super) async fn recheck_on_request(self: Arc<Self>) {
        loop {
            self.recheck_requested.notified().await;
            log_failure(
                "re-check the sessions of connected users",
                &self.recheck_all().await,
            );
        }
    }

    fn handle_session_end(self: &Arc<Self>, body: &str) {
        let Some((user, end)) = decode_session_closed(body) else {
            return;
        };
        self.invalidate_cache(&user);
        let (connected_later, sequence) = self.connections.notify_session_end(&user, &end);
        if connected_later.is_empty() {
            return;
        }
        // In a task of its own, so that the following frames do not wait.
        let this = Arc::clone(self);
        tokio::spawn(async move {
            for token_issued_at in connected_later {
                let checked = this.recheck_user(&user, token_issued_at, sequence).await;
                log_failure("re-check a session", &checked);
            }
        });
    }

    /// Finds sessions that other services have ended. Without a shared hash there are none.
    pub(super) async fn recheck_shared(&self) -> Result<()> {
        match self.has_rows_only() {
            true => Ok(()),
            false => self.recheck_all().await,
        }
    }

    /// Reads the sessions of all connected users, and ends the connections of users whose session has ended.
    pub async fn recheck_all(&self) -> Result<()> {
        let (users, sequence) = self.connections.admitted_users();
        for batch in users.chunks(RECHECK_BATCH_SIZE) {
            let checks = batch
                .iter()
                .map(|user| self.recheck_user(user, None, sequence));
            for checked in futures_util::future::join_all(checks).await {
                if checked.as_ref().is_err_and(Error::is_store_outage) {
                    return checked;
                }
                // An error of one user must not delay the others.
                log_failure("re-check a session", &checked);
            }
        }
        Ok(())
    }

    /// Reads the session of a user, or whether the session allows a token that was issued at this time.
    async fn recheck_user(
        &self,
        user: &UserId,
        issued: Option<Timestamp>,
        sequence: u64,
    ) -> Result<()> {
        let session = match self.find_session(user, issued, None).await {
            Ok(session) => Some(session),
            Err(Error::SessionExpired | Error::TokenRevoked) => None,
            Err(error) => return Err(error),
        };
        if let Some(reason) = end_reason(session.as_ref()) {
            self.invalidate_cache(user);
            self.connections
                .notify_admitted(user, reason, issued, sequence);
        }
        Ok(())
    }
}

/// Why the connections of a user with this session must close, if they must.
pub(super) fn end_reason(session: Option<&UserSession>) -> Option<SessionEndReason> {
    match session.map(|session| session.status) {
        None => Some(SessionEndReason::Logout),
        Some(SessionStatus::Blocked) => Some(SessionEndReason::Blocked),
        Some(SessionStatus::Login | SessionStatus::Anonymous) => None,
    }
}

/// Decodes `reason time user device`. Without a device, the sessions of all devices have ended.
fn decode_session_closed(body: &str) -> Option<(UserId, SessionEnd)> {
    let [reason, time, user, device] = control::words(body)?;
    let end = SessionEnd {
        reason: SessionEndReason::parse(reason)?,
        ended_at: Timestamp(time.parse().ok()?),
        device: DeviceId::new(device).ok(),
    };
    Some((UserId::new(user).ok()?, end))
}
