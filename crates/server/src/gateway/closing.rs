//! Closing sockets: whose session has ended, whose device was removed, whose token is over.
//!
//! Always true: who is closed is told why, once, and the connection ends right after it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parlor_chat::access::Caller;
use parlor_chat::context::millis;
use parlor_socketio::{Frame, Reason};
use tokio::time::{MissedTickBehavior, interval};

use super::state::State;
use super::words::{ClosedReason, SessionClosed};
use super::{Gateway, Socket, encode};

/// How often the sockets are looked at whose token ends.
const LOOK: Duration = Duration::from_secs(1);

impl Gateway {
    /// A socket lasts as long as the caller's token.
    pub(super) fn lasts(&self, state: &State, caller: &Caller) {
        let left = millis(self.app.time_left(caller));
        let ends = millis(self.began.elapsed()).saturating_add(left);
        state.ends.store(ends, Ordering::Relaxed);
    }

    /// Tells a socket why, and closes it.
    pub(super) fn close(&self, socket: &Socket, reason: ClosedReason) {
        self.close_with(socket, reason, None);
    }

    pub(super) fn close_with(
        &self,
        socket: &Socket,
        reason: ClosedReason,
        reconnect_in_ms: Option<u64>,
    ) {
        {
            let mut inner = socket.state().inner.lock();
            if inner.closed.is_some() {
                return;
            }
            inner.closed = Some(reason);
        }
        let told = SessionClosed {
            reason,
            reconnect_in_ms,
        };
        socket.send(&Frame::event("session:closed", &encode(&told)));
        socket.disconnect(match reason {
            ClosedReason::Shutdown => Reason::Shutdown,
            _ => Reason::ServerCut,
        });
    }

    /// Closes the sockets whose device somebody removed, for as long as it is polled.
    pub(super) async fn close_removed(&self) {
        let chat = self.app.joined().await;
        loop {
            let device = chat.presence().closed().await;
            let Some(person) = self.people.find(&device.user) else {
                continue;
            };
            let sockets = person.sockets();
            let holds = |it: &Arc<Socket>| *it.state().device == device;
            let Some(holder) = sockets.iter().position(holds) else {
                continue;
            };
            // Those that called themselves so before it; one that came later has come anew.
            for socket in &sockets[..=holder] {
                if socket.state().device.id == device.id {
                    self.close(socket, ClosedReason::Logout);
                }
            }
        }
    }

    /// Closes the sockets whose token has ended, for as long as it is polled.
    pub(super) async fn close_expired(&self) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(server) = self.server.get().and_then(Weak::upgrade) else {
                return;
            };
            let now = millis(self.began.elapsed());
            let mut ended = Vec::new();
            server.for_each(|socket| {
                if socket.state().ends.load(Ordering::Relaxed) <= now {
                    ended.push(Arc::clone(socket));
                }
            });
            for socket in ended {
                self.close(&socket, ClosedReason::Expired);
            }
        }
    }
}
