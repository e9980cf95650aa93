//! Socket.IO on top of Engine.IO: handles the messages of sessions, and detaches or ends their sockets when they close.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::links::{ClosedSockets, Room, SocketIoSessionLock, Waiting};
use super::one::{Lane, Status};
use super::roster::SocketRegistry;
use super::shelf::DetachedSockets;
use super::{EncodedEvent, Socket, SocketHandler};
use crate::engine::{EncodedFrame, EngineIoSession, SessionHandler};
use crate::packet::attachments::{AttachmentProgress, PartialBinaryPacket};
use crate::packet::socket::SocketIoPacket;
use crate::{DisconnectReason, SocketIoOptions};

/// Maximum time for the queued events of a client that has disconnected.
const INBOX_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

pub struct SocketIoLayer<A: SocketHandler> {
    pub(super) app: Arc<A>,
    pub(super) registry: SocketRegistry<A::State>,
    pub(super) detached_sockets: Arc<DetachedSockets<A::State>>,
    pub(super) inbox_capacity: Room,
    pub(super) recovered_total: AtomicU64,
    last_offset: AtomicU64,
}

impl<A: SocketHandler> SocketIoLayer<A> {
    pub(super) fn new(app: Arc<A>, options: &SocketIoOptions) -> Self {
        Self {
            app,
            registry: SocketRegistry::new(),
            detached_sockets: Arc::new(DetachedSockets::new(options)),
            inbox_capacity: Room {
                packets: options.max_inbox_packets,
                bytes: options.max_payload,
            },
            recovered_total: AtomicU64::new(0),
            last_offset: AtomicU64::new(0),
        }
    }

    /// Encodes an event, recoverable if recovery is enabled.
    pub(super) fn frame(&self, name: &str, args: &[u8]) -> EncodedEvent {
        if self.detached_sockets.recovery.is_none() {
            return EncodedEvent::new(name, args);
        }
        let offset = 1 + self.last_offset.fetch_add(1, Ordering::Relaxed);
        let made = self.detached_sockets.elapsed_secs();
        EncodedEvent::recoverable(
            name,
            args,
            offset,
            made,
            &self.detached_sockets.replay_budget,
        )
    }

    /// True if queued packets are still handled after the session closed for this reason: the client left, its
    /// connection was lost, or its ping timed out, and the server is not shutting down.
    pub(super) fn drains_inbox_after(
        session: &EngineIoSession<Self>,
        reason: DisconnectReason,
    ) -> bool {
        let is_gone = matches!(
            reason,
            DisconnectReason::ClientDisconnect
                | DisconnectReason::TransportClosed
                | DisconnectReason::PingTimeout
        );
        is_gone && !session.engine().has_stopped_accepting()
    }

    /// Detaches a socket from its closed session, and holds or ends it.
    fn detach_socket(
        &self,
        socket: &Arc<Socket<A::State>>,
        lane: &Arc<EngineIoSession<Self>>,
        reason: DisconnectReason,
    ) {
        {
            let mut link = socket.lock_state();
            let is_its = link
                .session
                .as_ref()
                .is_some_and(|it| std::ptr::addr_eq(Arc::as_ptr(it), Arc::as_ptr(lane)));
            // The socket may belong to another session already.
            if !is_its {
                return;
            }
            link.session = None;
            // `finish_connect` continues when `on_connected` has returned.
            if std::mem::replace(&mut link.status, Status::Claimed) == Status::Entering {
                return;
            }
        }
        self.hold_or_end(socket, reason);
    }

    pub(super) fn detach_sockets(
        &self,
        session: &Arc<EngineIoSession<Self>>,
        ends: &ClosedSockets<A::State>,
    ) {
        for (socket, reason) in ends {
            self.detach_socket(socket, session, *reason);
        }
    }

    /// Detaches the sockets of a session if it is closed.
    pub(super) fn detach_sockets_of_closed_session(&self, session: &Arc<EngineIoSession<Self>>) {
        let ends = session.state().lock().take_closed_sockets();
        self.detach_sockets(session, &ends);
    }

    /// Holds a socket in transition for recovery, or ends it.
    fn hold_or_end(&self, socket: &Arc<Socket<A::State>>, reason: DisconnectReason) {
        let reason = socket.lock_state().requested_disconnect.unwrap_or(reason);
        if socket.recovery_options().is_none() || !reason.is_recoverable() {
            return self.end_socket(socket, reason);
        }
        self.app.on_detached(socket, reason);
        self.hold_for_recovery(socket, self.detached_sockets.new_deadline(), reason);
    }

    /// `on_connected` has returned: the socket is connected, or its loss is reported if the session has closed
    /// meanwhile.
    pub(super) fn finish_connect(
        &self,
        socket: &Arc<Socket<A::State>>,
        session: &Arc<EngineIoSession<Self>>,
    ) {
        {
            let mut link = socket.lock_state();
            if link.status == Status::Entering {
                link.status = Status::Live;
                return;
            }
        }
        let over = session.state().lock().close_reason;
        self.hold_or_end(socket, over.unwrap_or(DisconnectReason::TransportClosed));
    }

    /// Detaches a socket in transition. Ends it if the maximum is reached or the handler has disconnected it.
    pub(super) fn hold_for_recovery(
        &self,
        socket: &Arc<Socket<A::State>>,
        deadline: u64,
        reason: DisconnectReason,
    ) {
        let doomed = {
            let mut link = socket.lock_state();
            if link.status == Status::Over {
                return;
            }
            match link.requested_disconnect {
                Some(doom) => Some(doom),
                None => match self.detached_sockets.insert(socket, deadline) {
                    Some(key) => {
                        link.status = Status::Held(key, reason);
                        None
                    }
                    None => Some(reason),
                },
            }
        };
        if let Some(reason) = doomed {
            self.end_socket(socket, reason);
        }
    }

    /// Ends a socket. Only the first call notifies the handler.
    pub(super) fn end_socket(&self, socket: &Arc<Socket<A::State>>, reason: DisconnectReason) {
        {
            let mut link = socket.lock_state();
            if link.status == Status::Over {
                return;
            }
            link.status = Status::Over;
            link.session = None;
            link.replay_buffer = None;
        }
        self.registry.remove(socket);
        self.app.on_disconnected(socket, reason);
    }

    /// Ends all sockets without an open session: detached ones, and those of closed sessions that still drain their
    /// inbox.
    pub(super) fn end_sockets_without_session(&self) {
        for socket in self.detached_sockets.close() {
            self.end_socket(&socket, DisconnectReason::ServerShutdown);
        }
        let mut heard = Vec::new();
        self.registry.for_each(|socket| {
            let link = socket.lock_state();
            let is_cut_off = link.session.as_ref().is_some_and(|lane| !lane.is_there());
            if link.status == Status::Live && is_cut_off {
                heard.push(Arc::clone(socket));
            }
        });
        for socket in heard {
            self.end_socket(&socket, DisconnectReason::ServerShutdown);
        }
    }

    /// Dispatches a packet, or queues it behind others. Returns false if the inbox is full: the next packet must wait.
    fn dispatch_or_queue(
        self: &Arc<Self>,
        session: &Arc<EngineIoSession<Self>>,
        text: &str,
        parts: Vec<Bytes>,
    ) -> bool {
        {
            let mut links = session.state().lock();
            if links.close_reason.is_some() {
                return true;
            }
            if std::mem::replace(&mut links.is_dispatching, true) {
                let text = text.into();
                links.enqueue(Waiting { text, parts });
                return !links.is_inbox_full(self.inbox_capacity);
            }
        }
        let work = self.decode_and_dispatch(session, text, &parts);
        self.run_until_pending(session, work);
        !session.state().lock().is_inbox_full(self.inbox_capacity)
    }
}

impl<A: SocketHandler> SessionHandler for SocketIoLayer<A> {
    type State = SocketIoSessionLock<A::State>;

    fn text(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, text: &str) -> bool {
        let Ok(packet) = SocketIoPacket::decode(text) else {
            session.close(DisconnectReason::ProtocolError);
            return true;
        };
        {
            let mut links = session.state().lock();
            if links.partial_packet.is_some() {
                drop(links);
                session.close(DisconnectReason::ProtocolError);
                return true;
            }
            if packet.attachments > 0 {
                let pending = PartialBinaryPacket::new(&packet, text, self.inbox_capacity.bytes);
                links.partial_packet = Some(Box::new(pending));
                return true;
            }
        }
        self.dispatch_or_queue(session, text, Vec::new())
    }

    fn on_binary(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, bytes: Bytes) -> bool {
        let pending = session.state().lock().partial_packet.take();
        match pending.map(|pending| pending.with(bytes)) {
            Some(Ok(AttachmentProgress::Incomplete(pending))) => {
                session.state().lock().partial_packet = Some(Box::new(pending));
                true
            }
            Some(Ok(AttachmentProgress::Complete(text, parts))) => {
                self.dispatch_or_queue(session, &text, parts)
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
        let mut links = session.state().lock();
        if links.is_inbox_full(self.inbox_capacity) {
            links.register_blocked_reader(cx.waker());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn is_inbox_full(&self, session: &EngineIoSession<Self>) -> bool {
        session.state().lock().is_inbox_full(self.inbox_capacity)
    }

    fn on_pong(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let sockets = session.state().lock().sockets.clone();
        for socket in &sockets {
            if let Some(ring) = &mut socket.lock_state().replay_buffer {
                ring.on_pong();
            }
            self.app.on_pong(socket);
        }
    }

    fn on_connect_deadline(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let is_idle = {
            let links = session.state().lock();
            links.sockets.is_empty() && !links.is_dispatching && links.close_reason.is_none()
        };
        if is_idle {
            session.close(DisconnectReason::PingTimeout);
        }
    }

    fn on_tick(self: &Arc<Self>) {
        for (socket, reason) in self.detached_sockets.take_expired() {
            let held_for = match socket.lock_state().status {
                Status::Held(_, reason) => reason,
                _ => DisconnectReason::TransportClosed,
            };
            self.end_socket(&socket, reason.unwrap_or(held_for));
        }
    }

    fn on_close(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, reason: DisconnectReason) {
        let is_heard = Self::drains_inbox_after(session, reason);
        let ends = session.state().lock().close(reason, is_heard);
        if let Some(ends) = ends {
            return self.detach_sockets(session, &ends);
        }
        // A weak reference is enough: every socket that is not detached yet holds an `Arc` of the session.
        let (hub, heard) = (Arc::clone(self), Arc::downgrade(session));
        session.engine().spawn(async move {
            sleep(INBOX_DRAIN_TIMEOUT).await;
            if let Some(session) = heard.upgrade() {
                hub.detach_sockets_of_closed_session(&session);
            }
        });
    }
}

impl<A: SocketHandler> Lane<A::State> for EngineIoSession<SocketIoLayer<A>> {
    fn carry(self: Arc<Self>, parcel: &Arc<EncodedFrame>) {
        self.send_frame(parcel);
    }

    fn dismiss(self: Arc<Self>, reason: DisconnectReason) {
        self.close(reason);
    }

    fn replace(self: Arc<Self>, socket: &Arc<Socket<A::State>>) {
        self.state().lock().remove_socket(socket);
        self.close(DisconnectReason::ReplacedByReconnect);
    }

    fn is_there(&self) -> bool {
        self.is_open()
    }

    fn waiting(&self) -> usize {
        // The client does not fetch the rest of a send queue after the close.
        if self.is_open() {
            self.send_queue_bytes()
        } else {
            0
        }
    }
}
