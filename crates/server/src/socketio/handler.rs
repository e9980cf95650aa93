//! Callbacks of the Socket.IO server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parlor_chat::api::error_code::Code;
use parlor_socketio::{
    ConnectError, ConnectRequest, DisconnectReason, HandlerFuture, IncomingEvent, SocketHandler,
};

use super::bodies::ClosedReason;
use super::deferred_tasks::DeferredTask;
use super::dispatch::EventCall;
use super::socket_state::UserSocketState;
use super::{GatewaySocket, SocketIoGateway, event_table, handshake, join};
use crate::api_error::ApiError;

/// Consecutive events above the rate limit after which a socket is disconnected.
const MAX_REJECTED_EVENTS: u32 = 100;

impl SocketHandler for SocketIoGateway {
    type State = UserSocketState;

    async fn on_connect(
        self: &Arc<Self>,
        asking: ConnectRequest,
    ) -> Result<UserSocketState, ConnectError> {
        let _place = self.handshake_permits.acquire().await;
        self.accept_socket(asking)
            .await
            .map_err(handshake::to_connect_error)
    }

    fn on_connected(self: &Arc<Self>, socket: &Arc<GatewaySocket>) -> Option<HandlerFuture> {
        let state = socket.state();
        state.user.add_socket(socket);
        if let Some(reason) = state.session.slot.set_socket(socket) {
            self.close(socket, reason);
            return None;
        }
        if self.is_draining() {
            // The handshake finished while the drain was closing the other sockets.
            self.close_with(socket, ClosedReason::Shutdown, Some(0));
            return None;
        }
        let resume = state.mutable.lock().resume_positions.take()?;
        let (gateway, socket) = (Arc::clone(self), Arc::clone(socket));
        Some(Box::pin(join::resume_conversations(
            gateway, socket, resume,
        )))
    }

    fn on_event(
        self: &Arc<Self>,
        socket: &Arc<GatewaySocket>,
        event: &IncomingEvent<'_>,
    ) -> Option<HandlerFuture> {
        let call = EventCall {
            gateway: self,
            socket,
            event,
        };
        if let Err(wait) = self.count_event(socket) {
            let text = format!("this socket sends too many events; retry in {wait} ms");
            let refusal = ApiError {
                retry_after_ms: Some(wait),
                ..ApiError::new(Code::RateLimited, text)
            };
            call.ack_target().send_error(socket, refusal);
            if socket
                .state()
                .rejected_events
                .fetch_add(1, Ordering::Relaxed)
                >= MAX_REJECTED_EVENTS
            {
                socket.disconnect(DisconnectReason::TooManyEvents);
            }
            return None;
        }
        let name = event.name;
        match event_table::CLIENT_EVENTS
            .iter()
            .find(|known| known.name == name)
        {
            Some(known) => (known.handler)(&call),
            None => {
                let text = format!(
                    "unknown event `{}`; see docs/events.md",
                    name.escape_debug()
                );
                call.ack_target()
                    .send_error(socket, ApiError::new(Code::NotFound, text));
                None
            }
        }
    }

    fn on_pong(self: &Arc<Self>, socket: &Arc<GatewaySocket>) {
        self.record_heartbeat(socket);
    }

    fn on_detached(self: &Arc<Self>, socket: &Arc<GatewaySocket>, _: DisconnectReason) {
        socket.state().is_detached.store(true, Ordering::Release);
        if !self.is_draining() {
            self.deferred_tasks
                .enqueue(DeferredTask::ConnectionLost(Arc::clone(socket)));
        }
    }

    async fn on_recover(
        self: &Arc<Self>,
        socket: &Arc<GatewaySocket>,
        asking: ConnectRequest,
    ) -> Result<bool, ConnectError> {
        let _place = self.handshake_permits.acquire().await;
        let back = self.accept_recovered_socket(socket, asking).await;
        back.map_err(handshake::to_connect_error)
    }

    fn on_disconnected(self: &Arc<Self>, socket: &Arc<GatewaySocket>, reason: DisconnectReason) {
        let state = socket.state();
        let (joined, closed) = {
            let mut inner = state.mutable.lock();
            inner.is_disconnected = true;
            inner.presence_task = None;
            inner.resume_positions = None;
            (std::mem::take(&mut inner.joined), inner.close_reason)
        };
        for conversation in joined.iter() {
            self.joined_conversations.leave(conversation, socket);
        }
        state.user.remove_socket(socket);
        // A node shutdown is not a clean disconnect: clients have the grace period to reconnect to another node.
        if self.is_draining() {
            return;
        }
        let goodbye = match closed {
            Some(ClosedReason::Blocked | ClosedReason::Logout | ClosedReason::Replaced) => true,
            Some(ClosedReason::Expired | ClosedReason::Shutdown) => false,
            None => reason == DisconnectReason::ClientDisconnect,
        };
        let socket = Arc::clone(socket);
        self.deferred_tasks.enqueue(match goodbye {
            true => DeferredTask::CleanDisconnect(socket),
            false => DeferredTask::ConnectionLost(socket),
        });
    }
}
