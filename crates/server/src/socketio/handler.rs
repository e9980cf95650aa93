//! Callbacks of the Socket.IO server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parlor_chat::api::error_code::ErrorCode;
use parlor_socketio::{
    ConnectError, ConnectRequest, DisconnectReason, HandlerFuture, IncomingEvent, SocketHandler,
};

use super::bodies::SessionCloseReason;
use super::deferred_tasks::DeferredTask;
use super::dispatch::EventCall;
use super::socket_state::UserSocketState;
use super::{GatewaySocket, SocketIoGateway, event_table, handshake, resume};
use crate::api_error::ApiError;

/// Consecutive events above the rate limit after which a socket is disconnected.
const MAX_REJECTED_EVENTS: u32 = 100;

impl SocketHandler for SocketIoGateway {
    type State = UserSocketState;

    async fn on_connect(
        self: &Arc<Self>,
        request: ConnectRequest,
    ) -> Result<UserSocketState, ConnectError> {
        let _permit = self.handshake_permits.acquire().await;
        self.accept_socket(request)
            .await
            .map_err(handshake::to_connect_error)
    }

    fn on_connected(self: &Arc<Self>, socket: &Arc<GatewaySocket>) -> Option<HandlerFuture> {
        let state = socket.state();
        state.user.add_socket(socket);
        if let Some(reason) = state.session.closer.set_socket(socket) {
            self.close(socket, reason, None);
            return None;
        }
        if self.is_draining() {
            // The handshake finished while the drain was closing the other sockets.
            self.close(socket, SessionCloseReason::Shutdown, Some(0));
            return None;
        }
        let resume = state.mutable.lock().resume_positions.take()?;
        let (gateway, socket) = (Arc::clone(self), Arc::clone(socket));
        Some(Box::pin(resume::resume_conversations(
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
            call.ack_target()
                .send_error(socket, ApiError::rate_limited(wait));
            let rejected = &socket.state().rejected_events;
            if rejected.fetch_add(1, Ordering::Relaxed) >= MAX_REJECTED_EVENTS {
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
                    .send_error(socket, ApiError::new(ErrorCode::NotFound, text));
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
        request: ConnectRequest,
    ) -> Result<bool, ConnectError> {
        let _permit = self.handshake_permits.acquire().await;
        let accepted = self.accept_recovered_socket(socket, request).await;
        accepted.map_err(handshake::to_connect_error)
    }

    fn on_disconnected(self: &Arc<Self>, socket: &Arc<GatewaySocket>, reason: DisconnectReason) {
        let state = socket.state();
        let (joined, close_reason) = {
            let mut mutable = state.mutable.lock();
            mutable.is_disconnected = true;
            mutable.presence_task = None;
            mutable.resume_positions = None;
            (std::mem::take(&mut mutable.joined), mutable.close_reason)
        };
        for conversation in joined.iter() {
            self.joined_conversations.leave(conversation, socket);
        }
        state.user.remove_socket(socket);
        // A node shutdown is not a clean disconnect: clients have the grace period to reconnect to another node.
        if self.is_draining() {
            return;
        }
        let is_clean = match close_reason {
            Some(
                SessionCloseReason::Blocked
                | SessionCloseReason::Logout
                | SessionCloseReason::Replaced,
            ) => true,
            Some(SessionCloseReason::Expired | SessionCloseReason::Shutdown) => false,
            None => reason == DisconnectReason::ClientDisconnect,
        };
        let socket = Arc::clone(socket);
        self.deferred_tasks.enqueue(match is_clean {
            true => DeferredTask::CleanDisconnect(socket),
            false => DeferredTask::ConnectionLost(socket),
        });
    }
}
