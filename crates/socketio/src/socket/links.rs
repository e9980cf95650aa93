//! Socket.IO state of one session: its sockets, and the inbox of packets that wait for the handler.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::Socket;
use crate::DisconnectReason;
use crate::packet::attachments::PartialBinaryPacket;
use crate::packet::socket::{SocketIoPacket, SocketIoPacketType};

/// Maximum namespaces per session.
pub(super) const MAX_NAMESPACES_PER_SESSION: usize = 16;

/// Sockets of a closed session, each with the reason of its end.
pub(super) type ClosedSockets<S> = SmallVec<[(Arc<Socket<S>>, DisconnectReason); 1]>;

pub(super) struct SocketIoSessionState<S> {
    pub(super) sockets: SmallVec<[Arc<Socket<S>>; 1]>,
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
pub(super) struct Waiting {
    pub(super) text: Box<str>,
    pub(super) parts: Vec<Bytes>,
}

#[derive(Default)]
struct Inbox {
    packets: VecDeque<Waiting>,
    bytes: usize,
    /// Wakers of the readers that wait for room: the WebSocket, a POST, or both during an upgrade.
    readers: SmallVec<[Waker; 1]>,
}

/// Limits of the inbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) packets: usize,
    pub(super) bytes: usize,
}

/// [`SocketIoSessionState`] behind its mutex; public only as the state of a session.
pub struct SocketIoSessionLock<S>(Mutex<SocketIoSessionState<S>>);

impl<S> Default for SocketIoSessionLock<S> {
    fn default() -> Self {
        Self(Mutex::new(SocketIoSessionState {
            sockets: SmallVec::new(),
            partial_packet: None,
            inbox: None,
            is_dispatching: false,
            has_drain_task: false,
            has_unresolved_packet: false,
            close_reason: None,
        }))
    }
}

impl<S> SocketIoSessionLock<S> {
    pub(super) fn lock(&self) -> MutexGuard<'_, SocketIoSessionState<S>> {
        self.0.lock()
    }
}

impl<S> SocketIoSessionState<S> {
    fn socket_in(&self, namespace: &str) -> Option<&Arc<Socket<S>>> {
        self.sockets.iter().find(|it| it.namespace() == namespace)
    }

    /// True if a queued packet matches.
    fn has_queued_packet(&self, is_like: impl Fn(&SocketIoPacket<'_>) -> bool) -> bool {
        let is_like =
            |waiting: &Waiting| SocketIoPacket::decode(&waiting.text).is_ok_and(|it| is_like(&it));
        let inbox = self.inbox.as_ref();
        inbox.is_some_and(|inbox| inbox.packets.iter().any(is_like))
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
        is_heard: bool,
    ) -> Option<ClosedSockets<S>> {
        self.close_reason = Some(reason);
        self.partial_packet = None;
        let is_event = |it: &SocketIoPacket<'_>| {
            matches!(
                it.packet_type,
                SocketIoPacketType::Event | SocketIoPacketType::BinaryEvent
            )
        };
        let is_speaking =
            self.has_drain_task && (self.has_unresolved_packet || self.has_queued_packet(is_event));
        let is_heard = is_heard && is_speaking && !self.sockets.is_empty();
        (!is_heard).then(|| self.take_closed_sockets())
    }

    /// Takes the sockets of a closed session and drops its inbox. Takes none of an open session.
    pub(super) fn take_closed_sockets(&mut self) -> ClosedSockets<S> {
        let Some(reason) = self.close_reason else {
            return ClosedSockets::new();
        };
        let sockets = std::mem::take(&mut self.sockets);
        let ends = sockets.into_iter().map(|socket| {
            let is_left = self.has_queued_disconnect(socket.namespace());
            (
                socket,
                if is_left {
                    DisconnectReason::ClientDisconnect
                } else {
                    reason
                },
            )
        });
        let ends = ends.collect();
        self.wake_blocked_readers();
        self.inbox = None;
        ends
    }

    pub(super) fn remove_socket(&mut self, socket: &Arc<Socket<S>>) {
        self.sockets.retain(|it| !Arc::ptr_eq(it, socket));
    }

    pub(super) fn enqueue(&mut self, waiting: Waiting) {
        let inbox = self.inbox.get_or_insert_default();
        inbox.bytes += waiting.text.len();
        inbox.bytes += waiting.parts.iter().map(Bytes::len).sum::<usize>();
        inbox.packets.push_back(waiting);
    }

    pub(super) fn is_inbox_full(&self, room: Room) -> bool {
        let Some(inbox) = &self.inbox else {
            return false;
        };
        inbox.packets.len() >= room.packets.max(1) || inbox.bytes >= room.bytes
    }

    /// Registers a reader that waits for room in the inbox.
    pub(super) fn register_blocked_reader(&mut self, waker: &Waker) {
        if let Some(inbox) = &mut self.inbox
            && !inbox.readers.iter().any(|it| it.will_wake(waker))
        {
            inbox.readers.push(waker.clone());
        }
    }

    /// Takes the next queued packet. If there is none, dispatching ends, and the sockets of a closed session are
    /// returned.
    pub(super) fn dequeue(&mut self, room: Room) -> Result<Waiting, ClosedSockets<S>> {
        let next = self.inbox.as_mut().and_then(|inbox| {
            let waiting = inbox.packets.pop_front()?;
            inbox.bytes -= waiting.text.len();
            inbox.bytes -= waiting.parts.iter().map(Bytes::len).sum::<usize>();
            Some(waiting)
        });
        if !self.is_inbox_full(room) || next.is_none() {
            self.wake_blocked_readers();
        }
        self.has_unresolved_packet = next.is_some();
        next.ok_or_else(|| {
            (self.is_dispatching, self.has_drain_task, self.inbox) = (false, false, None);
            self.take_closed_sockets()
        })
    }

    /// Finds the socket of a packet. Also returns the number of sockets of the session.
    pub(super) fn resolve_socket(&mut self, namespace: &str) -> (Option<Arc<Socket<S>>>, usize) {
        self.has_unresolved_packet = false;
        (self.socket_in(namespace).cloned(), self.sockets.len())
    }

    fn wake_blocked_readers(&mut self) {
        if let Some(inbox) = &mut self.inbox {
            inbox.readers.drain(..).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketIoOptions;
    use crate::socket::one::SocketSid;
    use crate::socket::shelf::DetachedSockets;

    const ROOM: Room = Room {
        packets: 8,
        bytes: 1_000,
    };

    /// State of a session with one socket, a running drain task and these queued packets.
    fn busy(waiting: &[&str]) -> SocketIoSessionState<()> {
        let mut links = SocketIoSessionLock::default().0.into_inner();
        let shelf = Arc::new(DetachedSockets::new(&SocketIoOptions::default()));
        let socket = Socket::new((), SocketSid::random(), "/", Arc::default(), shelf, 0);
        links.sockets.push(Arc::new(socket));
        (links.is_dispatching, links.has_drain_task) = (true, true);
        for text in waiting {
            links.enqueue(Waiting {
                text: (*text).into(),
                parts: Vec::new(),
            });
        }
        links
    }

    #[test]
    fn sockets_stay_attached_while_queued_events_are_drained() {
        const EVENT: &str = r#"2["event"]"#;
        const GOODBYE: &str = "1";
        let gone = DisconnectReason::TransportClosed;
        assert!(busy(&[GOODBYE, EVENT]).close(gone, true).is_none());
        assert!(busy(&[GOODBYE]).close(gone, true).is_some());
        assert!(busy(&[EVENT]).close(gone, false).is_some());
        let mut links = busy(&[EVENT]);
        links.has_drain_task = false;
        assert!(
            links.close(gone, true).is_some(),
            "no drain task would handle the event"
        );
        let mut links = busy(&[EVENT]);
        links.sockets.clear();
        assert!(
            links.close(gone, true).is_some(),
            "no socket would receive the event"
        );
        let mut links = busy(&[EVENT]);
        assert!(links.dequeue(ROOM).is_ok());
        assert!(
            links.close(gone, true).is_none(),
            "the event is being handled"
        );
        assert_eq!(links.dequeue(ROOM).err().map(|ends| ends.len()), Some(1));
        let mut links = busy(&[EVENT]);
        assert!(links.dequeue(ROOM).is_ok());
        links.resolve_socket("/");
        assert!(
            links.close(gone, true).is_some(),
            "the socket of the event was looked up"
        );
    }
}
