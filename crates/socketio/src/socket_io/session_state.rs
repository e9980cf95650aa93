//! Socket.IO state of one session: its sockets, and the inbox of packets that wait for the handler.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Socket, SocketHandler};
use crate::DisconnectReason;
use crate::packet::partial_binary::PartialBinaryPacket;
use crate::packet::socket_io::{SocketIoPacket, SocketIoPacketType};

/// Maximum namespaces per session.
pub(super) const MAX_NAMESPACES_PER_SESSION: usize = 16;
/// Maximum packets in the inbox; the bytes are limited too. While the inbox is full, the client is not read.
const MAX_INBOX_PACKETS: usize = 64;

/// Sockets of a closed session, each with the reason of its end.
pub(super) type ClosedSockets<H> = SmallVec<[(Arc<Socket<H>>, DisconnectReason); 1]>;

/// Public only as the state of a session.
pub struct SocketIoSessionState<H: SocketHandler> {
    pub(super) sockets: SmallVec<[Arc<Socket<H>>; 1]>,
    /// Binary packet whose attachments have not all arrived.
    pub(super) partial_packet: Option<Box<PartialBinaryPacket>>,
    inbox: Option<Box<Inbox>>,
    /// A packet is being handled, so further packets are queued.
    pub(super) is_dispatching: bool,
    /// A drain task handles the queued packets.
    pub(super) has_drain_task: bool,
    /// The drain task has taken a packet, but not looked up its socket yet.
    has_unresolved_packet: bool,
    /// Reason of the close, if the session is closed.
    pub(super) close_reason: Option<DisconnectReason>,
}

/// Queued packet with its attachments.
pub(super) struct QueuedPacket {
    pub(super) text: Box<str>,
    pub(super) attachments: Vec<Bytes>,
}

impl QueuedPacket {
    fn len(&self) -> usize {
        self.text.len() + self.attachments.iter().map(Bytes::len).sum::<usize>()
    }
}

#[derive(Default)]
struct Inbox {
    packets: VecDeque<QueuedPacket>,
    bytes: usize,
    /// Wakers of the readers that wait for room: the WebSocket, a POST, or both during an upgrade.
    blocked_readers: SmallVec<[Waker; 1]>,
}

impl<H: SocketHandler> Default for SocketIoSessionState<H> {
    fn default() -> Self {
        Self {
            sockets: SmallVec::new(),
            partial_packet: None,
            inbox: None,
            is_dispatching: false,
            has_drain_task: false,
            has_unresolved_packet: false,
            close_reason: None,
        }
    }
}

impl<H: SocketHandler> SocketIoSessionState<H> {
    fn socket_in(&self, namespace: &str) -> Option<&Arc<Socket<H>>> {
        self.sockets.iter().find(|it| it.namespace() == namespace)
    }

    /// True if a queued packet matches.
    fn has_queued_packet(&self, matches: impl Fn(&SocketIoPacket<'_>) -> bool) -> bool {
        let decodes_and_matches = |packet: &QueuedPacket| {
            SocketIoPacket::decode(&packet.text).is_ok_and(|it| matches(&it))
        };
        let inbox = self.inbox.as_ref();
        inbox.is_some_and(|inbox| inbox.packets.iter().any(decodes_and_matches))
    }

    /// True if a DISCONNECT packet of this namespace is queued.
    fn has_queued_disconnect(&self, namespace: &str) -> bool {
        self.has_queued_packet(|it| {
            it.packet_type == SocketIoPacketType::Disconnect && it.namespace == namespace
        })
    }

    /// Marks the session as closed. Returns its sockets, which the caller must detach. Returns `None` if `drains_inbox`
    /// is set and a drain task still has events to handle: then [`SocketIoSessionState::dequeue`] returns the sockets
    /// when the inbox is empty, or `detach_sockets_of_closed_session` takes them, at the latest after
    /// `INBOX_DRAIN_TIMEOUT`.
    pub(super) fn close(
        &mut self,
        reason: DisconnectReason,
        drains_inbox: bool,
    ) -> Option<ClosedSockets<H>> {
        self.close_reason = Some(reason);
        self.partial_packet = None;
        let is_event = |it: &SocketIoPacket<'_>| {
            matches!(
                it.packet_type,
                SocketIoPacketType::Event | SocketIoPacketType::BinaryEvent
            )
        };
        let has_events =
            self.has_drain_task && (self.has_unresolved_packet || self.has_queued_packet(is_event));
        let drains_inbox = drains_inbox && has_events && !self.sockets.is_empty();
        (!drains_inbox).then(|| self.take_closed_sockets())
    }

    /// Takes the sockets of a closed session and drops its inbox. Takes none of an open session.
    pub(super) fn take_closed_sockets(&mut self) -> ClosedSockets<H> {
        let Some(reason) = self.close_reason else {
            return ClosedSockets::new();
        };
        let sockets = std::mem::take(&mut self.sockets);
        let with_reason =
            |socket: Arc<Socket<H>>| match self.has_queued_disconnect(socket.namespace()) {
                true => (socket, DisconnectReason::ClientDisconnect),
                false => (socket, reason),
            };
        let closed = sockets.into_iter().map(with_reason).collect();
        self.wake_blocked_readers();
        self.inbox = None;
        closed
    }

    pub(super) fn remove_socket(&mut self, socket: &Arc<Socket<H>>) {
        self.sockets.retain(|it| !Arc::ptr_eq(it, socket));
    }

    pub(super) fn enqueue(&mut self, packet: QueuedPacket) {
        let inbox = self.inbox.get_or_insert_default();
        inbox.bytes += packet.len();
        inbox.packets.push_back(packet);
    }

    pub(super) fn is_inbox_full(&self, max_bytes: usize) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| {
            inbox.packets.len() >= MAX_INBOX_PACKETS || inbox.bytes >= max_bytes
        })
    }

    /// Registers a reader that waits for room in the inbox.
    pub(super) fn register_blocked_reader(&mut self, waker: &Waker) {
        if let Some(inbox) = &mut self.inbox
            && !inbox.blocked_readers.iter().any(|it| it.will_wake(waker))
        {
            inbox.blocked_readers.push(waker.clone());
        }
    }

    /// Takes the next queued packet. If there is none, dispatching ends, and the sockets of a closed session are
    /// returned.
    pub(super) fn dequeue(
        &mut self,
        max_inbox_bytes: usize,
    ) -> Result<QueuedPacket, ClosedSockets<H>> {
        let next = self.inbox.as_mut().and_then(|inbox| {
            let packet = inbox.packets.pop_front()?;
            inbox.bytes -= packet.len();
            Some(packet)
        });
        if !self.is_inbox_full(max_inbox_bytes) || next.is_none() {
            self.wake_blocked_readers();
        }
        self.has_unresolved_packet = next.is_some();
        next.ok_or_else(|| {
            (self.is_dispatching, self.has_drain_task, self.inbox) = (false, false, None);
            self.take_closed_sockets()
        })
    }

    /// Finds the socket of a packet. Also returns the number of sockets of the session.
    pub(super) fn resolve_socket(&mut self, namespace: &str) -> (Option<Arc<Socket<H>>>, usize) {
        self.has_unresolved_packet = false;
        (self.socket_in(namespace).cloned(), self.sockets.len())
    }

    fn wake_blocked_readers(&mut self) {
        if let Some(inbox) = &mut self.inbox {
            inbox.blocked_readers.drain(..).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketIoOptions;
    use crate::socket_io::detached_sockets::DetachedSockets;
    use crate::socket_io::socket::SocketSid;
    use crate::{ConnectError, ConnectRequest, HandlerFuture, IncomingEvent};

    const MAX_BYTES: usize = 1_000;

    struct NoEvents;

    impl SocketHandler for NoEvents {
        type State = ();

        async fn on_connect(self: &Arc<Self>, _: ConnectRequest) -> Result<(), ConnectError> {
            Ok(())
        }

        fn on_event(
            self: &Arc<Self>,
            _: &Arc<Socket<Self>>,
            _: &IncomingEvent<'_>,
        ) -> Option<HandlerFuture> {
            None
        }

        fn on_disconnected(self: &Arc<Self>, _: &Arc<Socket<Self>>, _: DisconnectReason) {}
    }

    /// State of a session with one socket, a running drain task and these queued packets.
    fn draining(queued: &[&str]) -> SocketIoSessionState<NoEvents> {
        let mut state = SocketIoSessionState::default();
        let detached_sockets = Arc::new(DetachedSockets::new(&SocketIoOptions::default()));
        let socket = Socket::new(
            (),
            SocketSid::random(),
            "/",
            Arc::default(),
            detached_sockets,
            0,
        );
        state.sockets.push(Arc::new(socket));
        (state.is_dispatching, state.has_drain_task) = (true, true);
        for text in queued {
            state.enqueue(QueuedPacket {
                text: (*text).into(),
                attachments: Vec::new(),
            });
        }
        state
    }

    #[test]
    fn sockets_stay_attached_while_queued_events_are_drained() {
        const EVENT: &str = r#"2["event"]"#;
        const DISCONNECT: &str = "1";
        let lost = DisconnectReason::TransportClosed;
        assert!(draining(&[DISCONNECT, EVENT]).close(lost, true).is_none());
        assert!(draining(&[DISCONNECT]).close(lost, true).is_some());
        assert!(draining(&[EVENT]).close(lost, false).is_some());
        let mut state = draining(&[EVENT]);
        state.has_drain_task = false;
        assert!(
            state.close(lost, true).is_some(),
            "no drain task would handle the event"
        );
        let mut state = draining(&[EVENT]);
        state.sockets.clear();
        assert!(
            state.close(lost, true).is_some(),
            "no socket would receive the event"
        );
        let mut state = draining(&[EVENT]);
        assert!(state.dequeue(MAX_BYTES).is_ok());
        assert!(
            state.close(lost, true).is_none(),
            "the event is being handled"
        );
        assert_eq!(
            state.dequeue(MAX_BYTES).err().map(|sockets| sockets.len()),
            Some(1)
        );
        let mut state = draining(&[EVENT]);
        assert!(state.dequeue(MAX_BYTES).is_ok());
        state.resolve_socket("/");
        assert!(
            state.close(lost, true).is_some(),
            "the socket of the event was looked up"
        );
    }
}
