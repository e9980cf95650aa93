//! What Socket.IO keeps of a session: its sockets, and the packets that wait for their turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::Socket;
use crate::Reason;
use crate::packet::attachments::Pending;
use crate::packet::socket::{Kind, Packet};

/// Namespaces of one connection.
pub(super) const MOST: usize = 16;

/// Sockets whose session has ended, each with the reason of its own end.
pub(super) type Ends<S> = SmallVec<[(Arc<Socket<S>>, Reason); 1]>;

pub(super) struct Links<S> {
    pub(super) sockets: SmallVec<[Arc<Socket<S>>; 1]>,
    /// A packet whose attachments are still to come.
    pub(super) pending: Option<Box<Pending>>,
    inbox: Option<Box<Inbox>>,
    /// A packet is being handled: the next wait.
    pub(super) is_busy: bool,
    /// A task sees to those that wait, …
    pub(super) is_driven: bool,
    /// … and has taken one whose socket it has still to find.
    is_taken: bool,
    /// The session has ended.
    pub(super) over: Option<Reason>,
}

/// A packet that waits, with its attachments.
pub(super) struct Waiting {
    pub(super) text: Box<str>,
    pub(super) parts: Vec<Bytes>,
}

#[derive(Default)]
struct Inbox {
    packets: VecDeque<Waiting>,
    bytes: usize,
    /// Who waits for room: the WebSocket, the polling request, or both while one follows the other.
    readers: SmallVec<[Waker; 1]>,
}

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) packets: usize,
    pub(super) bytes: usize,
}

/// [`Links`] behind their lock; public only as the state of a session.
pub struct Linked<S>(Mutex<Links<S>>);

impl<S> Default for Linked<S> {
    fn default() -> Self {
        Self(Mutex::new(Links {
            sockets: SmallVec::new(),
            pending: None,
            inbox: None,
            is_busy: false,
            is_driven: false,
            is_taken: false,
            over: None,
        }))
    }
}

impl<S> Linked<S> {
    pub(super) fn lock(&self) -> MutexGuard<'_, Links<S>> {
        self.0.lock()
    }
}

impl<S> Links<S> {
    fn of(&self, namespace: &str) -> Option<&Arc<Socket<S>>> {
        self.sockets.iter().find(|it| it.namespace() == namespace)
    }

    /// Whether a packet waits that is like this.
    fn any_waits(&self, is_like: impl Fn(&Packet<'_>) -> bool) -> bool {
        let is_like =
            |waiting: &Waiting| Packet::decode(&waiting.text).is_ok_and(|it| is_like(&it));
        let inbox = self.inbox.as_ref();
        inbox.is_some_and(|inbox| inbox.packets.iter().any(is_like))
    }

    /// Whether the client has left a namespace by a packet that still waits.
    fn is_left(&self, namespace: &str) -> bool {
        self.any_waits(|it| it.kind == Kind::Disconnect && it.namespace == namespace)
    }

    /// The session has ended, and its sockets with it. None where its client is to be heard to the end first and events of it
    /// wait: then the sockets stay until [`Links::next`] finds nothing more, or somebody takes them out.
    pub(super) fn end(&mut self, reason: Reason, is_heard: bool) -> Option<Ends<S>> {
        self.over = Some(reason);
        self.pending = None;
        let is_event = |it: &Packet<'_>| matches!(it.kind, Kind::Event | Kind::BinaryEvent);
        let is_speaking = self.is_driven && (self.is_taken || self.any_waits(is_event));
        let is_heard = is_heard && is_speaking && !self.sockets.is_empty();
        (!is_heard).then(|| self.take_ended())
    }

    /// Takes the sockets out of a session that has ended; none of one that goes on. What waits is thrown away.
    pub(super) fn take_ended(&mut self) -> Ends<S> {
        let Some(reason) = self.over else {
            return Ends::new();
        };
        let sockets = std::mem::take(&mut self.sockets);
        let ends = sockets.into_iter().map(|socket| {
            let is_left = self.is_left(socket.namespace());
            (socket, if is_left { Reason::ClientLeft } else { reason })
        });
        let ends = ends.collect();
        self.wake_readers();
        self.inbox = None;
        ends
    }

    pub(super) fn remove(&mut self, socket: &Arc<Socket<S>>) {
        self.sockets.retain(|it| !Arc::ptr_eq(it, socket));
    }

    pub(super) fn wait(&mut self, waiting: Waiting) {
        let inbox = self.inbox.get_or_insert_default();
        inbox.bytes += waiting.text.len();
        inbox.bytes += waiting.parts.iter().map(Bytes::len).sum::<usize>();
        inbox.packets.push_back(waiting);
    }

    pub(super) fn is_full(&self, room: Room) -> bool {
        let Some(inbox) = &self.inbox else {
            return false;
        };
        inbox.packets.len() >= room.packets.max(1) || inbox.bytes >= room.bytes
    }

    /// Who is to be woken when there is room again.
    pub(super) fn wake_when_free(&mut self, waker: &Waker) {
        if let Some(inbox) = &mut self.inbox
            && !inbox.readers.iter().any(|it| it.will_wake(waker))
        {
            inbox.readers.push(waker.clone());
        }
    }

    /// The next packet that waits. If there is none nobody is busy any more, and the sockets are over whose session is.
    pub(super) fn next(&mut self, room: Room) -> Result<Waiting, Ends<S>> {
        let next = self.inbox.as_mut().and_then(|inbox| {
            let waiting = inbox.packets.pop_front()?;
            inbox.bytes -= waiting.text.len();
            inbox.bytes -= waiting.parts.iter().map(Bytes::len).sum::<usize>();
            Some(waiting)
        });
        if !self.is_full(room) || next.is_none() {
            self.wake_readers();
        }
        self.is_taken = next.is_some();
        next.ok_or_else(|| {
            (self.is_busy, self.is_driven, self.inbox) = (false, false, None);
            self.take_ended()
        })
    }

    /// The socket that a packet is for, and how many there are.
    pub(super) fn find(&mut self, namespace: &str) -> (Option<Arc<Socket<S>>>, usize) {
        self.is_taken = false;
        (self.of(namespace).cloned(), self.sockets.len())
    }

    fn wake_readers(&mut self) {
        if let Some(inbox) = &mut self.inbox {
            inbox.readers.drain(..).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::socket::one::Id;
    use crate::socket::shelf::Shelf;

    const ROOM: Room = Room {
        packets: 8,
        bytes: 1_000,
    };

    /// A session of a socket whose task is busy, with these packets waiting.
    fn busy(waiting: &[&str]) -> Links<()> {
        let mut links = Linked::default().0.into_inner();
        let shelf = Arc::new(Shelf::new(&Options::default()));
        let socket = Socket::new((), Id::random(), "/", Arc::default(), shelf, 0);
        links.sockets.push(Arc::new(socket));
        (links.is_busy, links.is_driven) = (true, true);
        for text in waiting {
            links.wait(Waiting {
                text: (*text).into(),
                parts: Vec::new(),
            });
        }
        links
    }

    #[test]
    fn sockets_stay_while_events_of_a_client_to_be_heard_wait() {
        const EVENT: &str = r#"2["event"]"#;
        const GOODBYE: &str = "1";
        let gone = Reason::TransportClosed;
        assert!(busy(&[GOODBYE, EVENT]).end(gone, true).is_none());
        assert!(busy(&[GOODBYE]).end(gone, true).is_some());
        assert!(busy(&[EVENT]).end(gone, false).is_some());
        let mut links = busy(&[EVENT]);
        links.is_driven = false;
        assert!(links.end(gone, true).is_some(), "nobody would handle it");
        let mut links = busy(&[EVENT]);
        links.sockets.clear();
        assert!(links.end(gone, true).is_some(), "it is for nobody");
        let mut links = busy(&[EVENT]);
        assert!(links.next(ROOM).is_ok());
        assert!(links.end(gone, true).is_none(), "it is being handled");
        assert_eq!(links.next(ROOM).err().map(|ends| ends.len()), Some(1));
        let mut links = busy(&[EVENT]);
        assert!(links.next(ROOM).is_ok());
        links.find("/");
        assert!(links.end(gone, true).is_some(), "its socket is found");
    }
}
