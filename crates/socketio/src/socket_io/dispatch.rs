//! Dispatches packets, one after the other.
//!
//! Invariants:
//! 1. At most one packet of a session is being handled. A packet that arrives meanwhile waits in the inbox.
//! 2. A drain task exists only while a future of the handler is pending.

use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;

use super::connect::handle_connect;
use super::layer::SocketIoLayer;
use super::session_state::MAX_NAMESPACES_PER_SESSION;
use super::{HandlerFuture, IncomingEvent, SocketHandler};
use crate::DisconnectReason;
use crate::engine_io::EngineIoSession;
use crate::packet::placeholder::check_placeholders;
use crate::packet::socket_io::{SocketIoPacket, SocketIoPacketError, SocketIoPacketType};

/// Packets that the drain task handles before it yields to other tasks.
const MAX_PACKETS_PER_YIELD: usize = 32;

impl<H: SocketHandler> SocketIoLayer<H> {
    /// Decodes and handles a packet. An invalid packet, or one that is not allowed now, closes the session.
    pub(super) fn decode_and_dispatch(
        self: &Arc<Self>,
        session: &Arc<EngineIoSession<Self>>,
        text: &str,
        attachments: &[Bytes],
    ) -> Option<HandlerFuture> {
        let close_reason = session.close_reason();
        if !close_reason.is_none_or(|reason| Self::drains_inbox_after(session, reason)) {
            return None;
        }
        let is_session_closed = close_reason.is_some();
        let handled = SocketIoPacket::decode(text)
            .and_then(|packet| self.dispatch(session, &packet, attachments, is_session_closed));
        handled.unwrap_or_else(|error| {
            tracing::debug!(%error, "invalid packet, closing the session");
            session.close(DisconnectReason::ProtocolError);
            self.detach_sockets_of_closed_session(session);
            None
        })
    }

    fn dispatch(
        self: &Arc<Self>,
        session: &Arc<EngineIoSession<Self>>,
        packet: &SocketIoPacket<'_>,
        attachments: &[Bytes],
        is_session_closed: bool,
    ) -> Result<Option<HandlerFuture>, SocketIoPacketError> {
        let (socket, socket_count) = session.state().lock().resolve_socket(packet.namespace);
        match (packet.packet_type, socket) {
            // The socket was never created, or belongs to another session now.
            (_, None) if is_session_closed => Ok(None),
            (SocketIoPacketType::Connect, None) if socket_count < MAX_NAMESPACES_PER_SESSION => {
                let auth = packet.parse_connect_payload()?.map(ToOwned::to_owned);
                let (layer, session) = (Arc::clone(self), Arc::clone(session));
                let future = handle_connect(layer, session, packet.namespace.to_owned(), auth);
                Ok(Some(Box::pin(future)))
            }
            (SocketIoPacketType::Disconnect, Some(socket)) => {
                session.state().lock().remove_socket(&socket);
                if socket_count == 1 {
                    session.engine().start_connect_deadline(session);
                }
                self.end_socket(&socket, DisconnectReason::ClientDisconnect);
                Ok(None)
            }
            // The client may send DISCONNECT before it receives the reply to its CONNECT.
            (SocketIoPacketType::Disconnect, None) => Ok(None),
            (SocketIoPacketType::Event | SocketIoPacketType::BinaryEvent, Some(socket)) => {
                let payload = packet.parse_event()?;
                if packet.packet_type == SocketIoPacketType::BinaryEvent {
                    check_placeholders(packet.json, attachments.len())?;
                }
                // Queued events are dropped if the handler has disconnected the socket meanwhile.
                if is_session_closed && socket.lock_state().requested_disconnect.is_some() {
                    return Ok(None);
                }
                let event = IncomingEvent {
                    name: &payload.name,
                    first_arg: payload.first_arg,
                    args: payload.args,
                    ack_id: packet.ack_id,
                    attachments,
                };
                Ok(self.handler.on_event(&socket, &event))
            }
            (SocketIoPacketType::Ack | SocketIoPacketType::BinaryAck, Some(_)) => {
                packet.parse_ack_args().map(|_| None)
            }
            _ => Err(SocketIoPacketError::UnexpectedPacket),
        }
    }

    /// Polls the future of a packet, then dispatches the queued packets. A future that is pending continues in a drain
    /// task.
    pub(super) fn run_until_pending(
        self: &Arc<Self>,
        session: &Arc<EngineIoSession<Self>>,
        mut future: Option<HandlerFuture>,
    ) {
        loop {
            if let Some(mut handler_future) = future {
                // Most handler futures complete on the first poll, so they are polled here without a task. If the
                // future is pending, the spawned task polls it again with its own waker; the no-op waker of this poll
                // is therefore enough.
                let mut noop_context = Context::from_waker(Waker::noop());
                if handler_future.as_mut().poll(&mut noop_context).is_pending() {
                    session.state().lock().has_drain_task = true;
                    let task = drain_inbox(Arc::clone(self), Arc::clone(session), handler_future);
                    return session.engine().spawn(task);
                }
            }
            match self.dispatch_next_queued(session) {
                Some(next) => future = next,
                None => return,
            }
        }
    }

    /// Dispatches the next queued packet. If there is none, detaches the sockets of a closed session.
    fn dispatch_next_queued(
        self: &Arc<Self>,
        session: &Arc<EngineIoSession<Self>>,
    ) -> Option<Option<HandlerFuture>> {
        let next = session.state().lock().dequeue(self.max_inbox_bytes);
        match next {
            Ok(packet) => {
                Some(self.decode_and_dispatch(session, &packet.text, &packet.attachments))
            }
            Err(sockets) => {
                self.detach_sockets(session, &sockets);
                None
            }
        }
    }
}

async fn drain_inbox<H: SocketHandler>(
    layer: Arc<SocketIoLayer<H>>,
    session: Arc<EngineIoSession<SocketIoLayer<H>>>,
    future: HandlerFuture,
) {
    let guard = DrainPanicGuard(&session);
    let mut future = Some(future);
    let mut budget = MAX_PACKETS_PER_YIELD;
    loop {
        if let Some(handler_future) = future {
            handler_future.await;
        }
        budget -= 1;
        if budget == 0 {
            budget = MAX_PACKETS_PER_YIELD;
            tokio::task::yield_now().await;
        }
        match layer.dispatch_next_queued(&session) {
            Some(next) => future = next,
            None => break,
        }
    }
    std::mem::forget(guard);
}

/// Aborts the session if its drain task panics: otherwise the packets behind it would wait forever.
struct DrainPanicGuard<'a, H: SocketHandler>(&'a Arc<EngineIoSession<SocketIoLayer<H>>>);

impl<H: SocketHandler> Drop for DrainPanicGuard<'_, H> {
    fn drop(&mut self) {
        let session = Arc::clone(self.0);
        session.abort(DisconnectReason::ServerDisconnect);
        session.state().lock().has_drain_task = false;
        // In a new task, because the handler is called and this thread may be unwinding.
        let engine = Arc::clone(session.engine());
        engine.spawn(async move {
            session
                .engine()
                .handler()
                .detach_sockets_of_closed_session(&session);
        });
    }
}
