//! The steps by which the gateway closes a socket, and two of the causes: a removed device and an expired token. The end
//! of a session arrives through `session_end.rs`.
//!
//! Invariants:
//! 1. A socket that the gateway closes gets one `session:closed` event with the reason, and its connection is closed
//!    right after it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parlor_chat::api::caller::Caller;
use parlor_chat::clock::duration_millis;
use parlor_socketio::DisconnectReason;
use tokio::time::{MissedTickBehavior, interval};

use super::bodies::{SessionCloseReason, SessionClosed};
use super::server_events::SessionClosedEvent;
use super::socket_state::UserSocketState;
use super::{GatewaySocket, SocketIoGateway};

/// Interval of the check for expired tokens.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl SocketIoGateway {
    /// Stores the expiry of the caller's token, at which the socket is closed.
    pub(super) fn set_token_expiry(&self, state: &UserSocketState, caller: &Caller) {
        let left = duration_millis(self.app.token_time_left(caller));
        let ends = duration_millis(self.started_at.elapsed()).saturating_add(left);
        state.token_expires_ms.store(ends, Ordering::Relaxed);
    }

    /// Sends `session:closed` with the reason and closes the socket.
    pub(super) fn close(
        &self,
        socket: &GatewaySocket,
        reason: SessionCloseReason,
        reconnect_in_ms: Option<u64>,
    ) {
        {
            let mut mutable = socket.state().mutable.lock();
            if mutable.close_reason.is_some() {
                return;
            }
            mutable.close_reason = Some(reason);
        }
        let body = SessionClosed {
            reason,
            reconnect_in_ms,
        };
        socket.send(&self.encode::<SessionClosedEvent>(&body));
        socket.disconnect(match reason {
            SessionCloseReason::Shutdown => DisconnectReason::ServerShutdown,
            _ => DisconnectReason::ServerDisconnect,
        });
    }

    /// Closes the sockets of devices that a request removed. Never completes.
    pub(super) async fn close_removed_devices(&self) {
        let chat = self.app.wait_for_chat().await;
        loop {
            let device = chat.presence().next_socket_to_close().await;
            let Some(user) = self.connected_users.find(&device.user) else {
                continue;
            };
            let sockets = user.sockets();
            let owns_device = |it: &&Arc<GatewaySocket>| *it.state().device == device;
            if let Some(socket) = sockets.iter().find(owns_device) {
                self.close(socket, SessionCloseReason::Logout, None);
            }
        }
    }

    /// Closes the sockets whose token has expired. Runs until the server is dropped.
    pub(super) async fn close_expired_tokens(&self) {
        let mut ticks = interval(EXPIRY_CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(server) = self.server.get().and_then(Weak::upgrade) else {
                return;
            };
            let now = duration_millis(self.started_at.elapsed());
            let mut expired = Vec::new();
            server.for_each_socket(|socket| {
                if socket.state().token_expires_ms.load(Ordering::Relaxed) <= now {
                    expired.push(Arc::clone(socket));
                }
            });
            for socket in expired {
                self.close(&socket, SessionCloseReason::Expired, None);
            }
        }
    }
}
