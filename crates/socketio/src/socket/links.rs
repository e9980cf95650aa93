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

pub(super) struct Links<S> {
    pub(super) sockets: SmallVec<[Arc<Socket<S>>; 1]>,
    /// A packet whose attachments are still to come.
    pub(super) pending: Option<Box<Pending>>,
    inbox: Option<Box<Inbox>>,
    /// A packet is being handled: the next wait.
    pub(super) is_busy: bool,
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

    /// Whether the client has left a namespace by a packet that still waits.
    fn is_left(&self, namespace: &str) -> bool {
        let is_goodbye = |waiting: &Waiting| {
            Packet::decode(&waiting.text).is_ok_and(|packet| {
                packet.kind == Kind::Disconnect && packet.namespace == namespace
            })
        };
        let inbox = self.inbox.as_ref();
        inbox.is_some_and(|inbox| inbox.packets.iter().any(is_goodbye))
    }

    /// The session has ended: takes its sockets out, each with the reason of its own end. What waits is thrown away.
    pub(super) fn end(&mut self, reason: Reason) -> SmallVec<[(Arc<Socket<S>>, Reason); 1]> {
        self.over = Some(reason);
        let sockets = std::mem::take(&mut self.sockets);
        let ends = sockets.into_iter().map(|socket| {
            let is_left = self.is_left(socket.namespace());
            (socket, if is_left { Reason::ClientLeft } else { reason })
        });
        let ends = ends.collect();
        self.clear();
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

    /// The next packet that waits, or none: then nobody is busy any more.
    pub(super) fn next(&mut self, room: Room) -> Option<Waiting> {
        let next = self.inbox.as_mut().and_then(|inbox| {
            let waiting = inbox.packets.pop_front()?;
            inbox.bytes -= waiting.text.len();
            inbox.bytes -= waiting.parts.iter().map(Bytes::len).sum::<usize>();
            Some(waiting)
        });
        if next.is_none() {
            self.is_busy = false;
        }
        if !self.is_full(room) || next.is_none() {
            self.wake_readers();
        }
        if next.is_none() {
            self.inbox = None;
        }
        next
    }

    fn clear(&mut self) {
        self.wake_readers();
        self.inbox = None;
        self.pending = None;
    }

    fn wake_readers(&mut self) {
        if let Some(inbox) = &mut self.inbox {
            inbox.readers.drain(..).for_each(Waker::wake);
        }
    }
}
