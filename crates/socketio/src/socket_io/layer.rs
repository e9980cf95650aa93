//! Socket.IO on top of Engine.IO: handles the messages of sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::sleep;

use super::detached_sockets::DetachedSockets;
use super::registry::SocketRegistry;
use super::session_state::{QueuedPacket, SocketIoSessionState};
use super::{EncodedEvent, SocketHandler};
use crate::engine_io::{EngineIoSession, SessionHandler};
use crate::packet::partial_binary::{AttachmentProgress, PartialBinaryPacket};
use crate::packet::socket_io::SocketIoPacket;
use crate::{DisconnectReason, SocketIoOptions};

/// Maximum time for the queued events of a client that has disconnected.
const INBOX_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

pub struct SocketIoLayer<H: SocketHandler> {
    pub(super) handler: Arc<H>,
    pub(super) registry: SocketRegistry<H>,
    pub(super) detached_sockets: Arc<DetachedSockets<H>>,
    pub(super) max_inbox_bytes: usize,
    pub(super) recovered_total: AtomicU64,
    last_offset: AtomicU64,
}

impl<H: SocketHandler> SocketIoLayer<H> {
    pub(super) fn new(handler: Arc<H>, options: &SocketIoOptions) -> Self {
        Self {
            handler,
            registry: SocketRegistry::new(),
            detached_sockets: Arc::new(DetachedSockets::new(options)),
            max_inbox_bytes: options.max_payload,
            recovered_total: AtomicU64::new(0),
            last_offset: AtomicU64::new(0),
        }
    }

    /// Encodes an event, recoverable if recovery is enabled.
    pub(super) fn encode_recoverable_event(&self, name: &str, args: &[u8]) -> EncodedEvent {
        let detached_sockets = &self.detached_sockets;
        if detached_sockets.recovery.is_none() {
            return EncodedEvent::new(name, args);
        }
        let offset = 1 + self.last_offset.fetch_add(1, Ordering::Relaxed);
        let created_at_secs = detached_sockets.elapsed_secs();
        let budget = &detached_sockets.replay_budget;
        EncodedEvent::recoverable(name, args, offset, created_at_secs, budget)
    }

    /// True if queued packets are still handled after the session closed for this reason: the client left, its
    /// connection was lost, or it did not answer in time, and the server is not shutting down.
    pub(super) fn drains_inbox_after(
        session: &EngineIoSession<Self>,
        reason: DisconnectReason,
    ) -> bool {
        let is_client_gone = matches!(
            reason,
            DisconnectReason::ClientDisconnect
                | DisconnectReason::TransportClosed
                | DisconnectReason::PingTimeout
                | DisconnectReason::ConnectTimeout
        );
        is_client_gone && !session.engine().has_stopped_accepting()
    }

    /// Dispatches a packet, or queues it behind others. Returns false if the inbox is full: the next packet must wait.
    fn dispatch_or_queue(
        self: &Arc<Self>,
        session: &Arc<EngineIoSession<Self>>,
        text: &str,
        attachments: Vec<Bytes>,
    ) -> bool {
        {
            let mut session_state = session.state().lock();
            if session_state.close_reason.is_some() {
                return true;
            }
            if std::mem::replace(&mut session_state.is_dispatching, true) {
                let text = text.into();
                session_state.enqueue(QueuedPacket { text, attachments });
                return !session_state.is_inbox_full(self.max_inbox_bytes);
            }
        }
        let future = self.decode_and_dispatch(session, text, &attachments);
        self.run_until_pending(session, future);
        !session.state().lock().is_inbox_full(self.max_inbox_bytes)
    }
}

impl<H: SocketHandler> SessionHandler for SocketIoLayer<H> {
    type State = Mutex<SocketIoSessionState<H>>;

    fn on_text(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, text: &str) -> bool {
        let Ok(packet) = SocketIoPacket::decode(text) else {
            session.close(DisconnectReason::ProtocolError);
            return true;
        };
        {
            let mut session_state = session.state().lock();
            if session_state.partial_packet.is_some() {
                drop(session_state);
                session.close(DisconnectReason::ProtocolError);
                return true;
            }
            if packet.attachments > 0 {
                let partial = PartialBinaryPacket::new(&packet, text, self.max_inbox_bytes);
                session_state.partial_packet = Some(Box::new(partial));
                return true;
            }
        }
        self.dispatch_or_queue(session, text, Vec::new())
    }

    fn on_binary(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, bytes: Bytes) -> bool {
        let partial = session.state().lock().partial_packet.take();
        match partial.map(|partial| partial.add_attachment(bytes)) {
            Some(Ok(AttachmentProgress::Incomplete(partial))) => {
                session.state().lock().partial_packet = Some(Box::new(partial));
                true
            }
            Some(Ok(AttachmentProgress::Complete(text, attachments))) => {
                self.dispatch_or_queue(session, &text, attachments)
            }
            Some(Err(_)) | None => {
                session.close(DisconnectReason::ProtocolError);
                true
            }
        }
    }

    fn poll_inbox_ready(
        self: &Arc<Self>,
        session: &Arc<EngineIoSession<Self>>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut session_state = session.state().lock();
        if session_state.is_inbox_full(self.max_inbox_bytes) {
            session_state.register_blocked_reader(cx.waker());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn is_inbox_full(&self, session: &EngineIoSession<Self>) -> bool {
        session.state().lock().is_inbox_full(self.max_inbox_bytes)
    }

    fn on_pong(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let sockets = session.state().lock().sockets.clone();
        for socket in &sockets {
            if let Some(replay_buffer) = &mut socket.lock_state().replay_buffer {
                replay_buffer.on_pong();
            }
            self.handler.on_pong(socket);
        }
    }

    fn on_connect_deadline(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let has_no_namespace = {
            let session_state = session.state().lock();
            session_state.sockets.is_empty()
                && !session_state.is_dispatching
                && session_state.close_reason.is_none()
        };
        if has_no_namespace {
            session.close(DisconnectReason::ConnectTimeout);
        }
    }

    fn on_tick(self: &Arc<Self>) {
        self.end_expired_sockets();
    }

    fn on_close(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, reason: DisconnectReason) {
        let drains_inbox = Self::drains_inbox_after(session, reason);
        let sockets = session.state().lock().close(reason, drains_inbox);
        if let Some(sockets) = sockets {
            return self.detach_sockets(session, &sockets);
        }
        // A weak reference is enough: every socket that is not detached yet holds an `Arc` of the session.
        let (layer, weak_session) = (Arc::clone(self), Arc::downgrade(session));
        session.engine().spawn(async move {
            sleep(INBOX_DRAIN_TIMEOUT).await;
            if let Some(session) = weak_session.upgrade() {
                layer.detach_sockets_of_closed_session(&session);
            }
        });
    }
}
