//! What Socket.IO keeps of a session: its sockets, and the packets that wait for their turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::Socket;
use crate::Reason;
use crate::packet::attachments::Pending;
use crate::packet::socket::{Kind, Packet};

/// Namespaces of one connection.
pub(super) const MOST: usize = 16;
/// How long a client that is gone is heard to the end.
const HEARD: Duration = Duration::from_secs(10);

/// Sockets whose session has ended, each with the reason of its own end.
pub(super) type Ends<S> = SmallVec<[(Arc<Socket<S>>, Reason); 1]>;

pub(super) struct Links<S> {
    pub(super) sockets: SmallVec<[Arc<Socket<S>>; 1]>,
    /// A packet whose attachments are still to come.
    pub(super) pending: Option<Box<Pending>>,
    inbox: Option<Box<Inbox>>,
    /// A packet is being handled: the next wait.
    pub(super) is_busy: bool,
    /// A task sees to those that wait.
    pub(super) is_driven: bool,
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
    /// Until when a client that is gone is heard.
    until: Option<Instant>,
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
    pub(super) fn of(&self, namespace: &str) -> Option<&Arc<Socket<S>>> {
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

    /// The session has ended, and its sockets with it. A client that is gone by itself is heard to the end first: while events
    /// of it wait, its sockets stay, for [`HEARD`] at most.
    pub(super) fn end(&mut self, reason: Reason) -> Ends<S> {
        self.over = Some(reason);
        self.pending = None;
        self.wake_readers();
        let is_event = |it: &Packet<'_>| matches!(it.kind, Kind::Event | Kind::BinaryEvent);
        if self.is_driven && reason.is_the_clients() && self.any_waits(is_event) {
            if let Some(inbox) = &mut self.inbox {
                inbox.until = Some(Instant::now() + HEARD);
            }
            return Ends::new();
        }
        self.take_ended()
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
            if inbox.until.is_some_and(|until| until <= Instant::now()) {
                return None;
            }
            let waiting = inbox.packets.pop_front()?;
            inbox.bytes -= waiting.text.len();
            inbox.bytes -= waiting.parts.iter().map(Bytes::len).sum::<usize>();
            Some(waiting)
        });
        if !self.is_full(room) || next.is_none() {
            self.wake_readers();
        }
        next.ok_or_else(|| {
            (self.is_busy, self.is_driven) = (false, false);
            let ends = self.take_ended();
            self.inbox = None;
            ends
        })
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

    const ROOM: Room = Room {
        packets: 8,
        bytes: 1_000,
    };

    /// A session that has ended with an event and a goodbye of its client still waiting.
    fn ended(reason: Reason) -> Links<()> {
        let mut links = Linked::default().0.into_inner();
        (links.is_busy, links.is_driven) = (true, true);
        for text in [r#"2["event"]"#, "1"] {
            links.wait(Waiting {
                text: text.into(),
                parts: Vec::new(),
            });
        }
        assert!(links.end(reason).is_empty());
        links
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_gone_is_heard_for_some_time_only() {
        let mut links = ended(Reason::TransportClosed);
        assert!(links.next(ROOM).is_ok());
        tokio::time::advance(HEARD).await;
        assert!(links.next(ROOM).is_err());
        assert!(!links.is_busy && links.inbox.is_none());
        let mut cut = ended(Reason::ServerCut);
        assert!(cut.next(ROOM).is_err(), "who was sent away is not");
    }
}
