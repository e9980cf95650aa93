//! Socket.IO above the engine: what sessions bring, and what becomes of their sockets when they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::links::{Ends, Linked, Room, Waiting};
use super::one::{Lane, Status};
use super::roster::Roster;
use super::shelf::Shelf;
use super::{App, Frame, Socket};
use crate::engine::{Above, Parcel, Session};
use crate::packet::attachments::{Pending, Step};
use crate::packet::socket::Packet;
use crate::{Options, Reason};

/// How long a client that is gone is heard to the end.
const HEARD: Duration = Duration::from_secs(10);

pub struct Hub<A: App> {
    pub(super) app: Arc<A>,
    pub(super) roster: Roster<A::State>,
    pub(super) shelf: Arc<Shelf<A::State>>,
    pub(super) room: Room,
    pub(super) recovered: AtomicU64,
    offset: AtomicU64,
}

impl<A: App> Hub<A> {
    pub(super) fn new(app: Arc<A>, options: &Options) -> Self {
        Self {
            app,
            roster: Roster::new(),
            shelf: Arc::new(Shelf::new(options)),
            room: Room {
                packets: options.inbox,
                bytes: options.max_payload,
            },
            recovered: AtomicU64::new(0),
            offset: AtomicU64::new(0),
        }
    }

    /// An event that is kept, if anything is.
    pub(super) fn frame(&self, name: &str, args: &[u8]) -> Frame {
        if self.shelf.recovery.is_none() {
            return Frame::event(name, args);
        }
        let offset = 1 + self.offset.fetch_add(1, Ordering::Relaxed);
        let made = self.shelf.seconds();
        Frame::kept(name, args, offset, made, &self.shelf.account)
    }

    /// Whether what a client has said still counts when its session ends for this reason: nobody has sent it away, and the
    /// server goes on.
    pub(super) fn hears(session: &Session<Self>, reason: Reason) -> bool {
        let is_gone = matches!(
            reason,
            Reason::ClientLeft | Reason::TransportClosed | Reason::PingTimeout
        );
        is_gone && !session.engine().is_stopped()
    }

    /// The connection of a socket is lost.
    fn lose(&self, socket: &Arc<Socket<A::State>>, lane: &Arc<Session<Self>>, reason: Reason) {
        {
            let mut link = socket.link();
            let is_its = link
                .lane
                .as_ref()
                .is_some_and(|it| std::ptr::addr_eq(Arc::as_ptr(it), Arc::as_ptr(lane)));
            // It may have found another one already.
            if !is_its {
                return;
            }
            link.lane = None;
            // Whoever lets it in goes on from here.
            if std::mem::replace(&mut link.status, Status::Claimed) == Status::Entering {
                return;
            }
        }
        self.lost(socket, reason);
    }

    pub(super) fn lose_all(&self, session: &Arc<Session<Self>>, ends: &Ends<A::State>) {
        for (socket, reason) in ends {
            self.lose(socket, session, *reason);
        }
    }

    /// The sockets of a session are lost if it has ended.
    pub(super) fn lose_ended(&self, session: &Arc<Session<Self>>) {
        let ends = session.state().lock().take_ended();
        self.lose_all(session, &ends);
    }

    /// A claimed socket without a connection is held, or over.
    fn lost(&self, socket: &Arc<Socket<A::State>>, reason: Reason) {
        let reason = socket.link().doomed.unwrap_or(reason);
        if socket.recovery().is_none() || !reason.is_accident() {
            return self.end(socket, reason);
        }
        self.app.detached(socket, reason);
        self.hold(socket, self.shelf.deadline(), reason);
    }

    /// The application knows of a socket now, and hears of its loss if it was lost meanwhile.
    pub(super) fn entered(&self, socket: &Arc<Socket<A::State>>, session: &Arc<Session<Self>>) {
        {
            let mut link = socket.link();
            if link.status == Status::Entering {
                link.status = Status::Live;
                return;
            }
        }
        let over = session.state().lock().over;
        self.lost(socket, over.unwrap_or(Reason::TransportClosed));
    }

    /// Puts a claimed socket on the shelf, if there is room and nobody has ended it.
    pub(super) fn hold(&self, socket: &Arc<Socket<A::State>>, deadline: u64, reason: Reason) {
        let doomed = {
            let mut link = socket.link();
            if link.status == Status::Over {
                return;
            }
            match link.doomed {
                Some(doom) => Some(doom),
                None => match self.shelf.put(socket, deadline) {
                    Some(key) => {
                        link.status = Status::Held(key, reason);
                        None
                    }
                    None => Some(reason),
                },
            }
        };
        if let Some(reason) = doomed {
            self.end(socket, reason);
        }
    }

    /// Over for good. The application is told by whoever comes first.
    pub(super) fn end(&self, socket: &Arc<Socket<A::State>>, reason: Reason) {
        {
            let mut link = socket.link();
            if link.status == Status::Over {
                return;
            }
            link.status = Status::Over;
            link.lane = None;
            link.ring = None;
        }
        self.roster.remove(socket);
        self.app.disconnected(socket, reason);
    }

    /// Gives up all that have no connection: those that are held, and those whose clients are gone and still heard.
    pub(super) fn give_up(&self) {
        for socket in self.shelf.clear() {
            self.end(&socket, Reason::Shutdown);
        }
        let mut heard = Vec::new();
        self.roster.for_each(|socket| {
            let link = socket.link();
            let is_cut_off = link.lane.as_ref().is_some_and(|lane| !lane.is_there());
            if link.status == Status::Live && is_cut_off {
                heard.push(Arc::clone(socket));
            }
        });
        for socket in heard {
            self.end(&socket, Reason::Shutdown);
        }
    }

    /// Hands a packet on, or lets it wait for its turn. False if the next must wait outside.
    fn feed(self: &Arc<Self>, session: &Arc<Session<Self>>, text: &str, parts: Vec<Bytes>) -> bool {
        {
            let mut links = session.state().lock();
            if links.over.is_some() {
                return true;
            }
            if std::mem::replace(&mut links.is_busy, true) {
                let text = text.into();
                links.wait(Waiting { text, parts });
                return !links.is_full(self.room);
            }
        }
        let work = self.run(session, text, &parts);
        self.go_on(session, work);
        !session.state().lock().is_full(self.room)
    }
}

impl<A: App> Above for Hub<A> {
    type State = Linked<A::State>;

    fn text(self: &Arc<Self>, session: &Arc<Session<Self>>, text: &str) -> bool {
        let Ok(packet) = Packet::decode(text) else {
            session.close(Reason::BadPacket);
            return true;
        };
        {
            let mut links = session.state().lock();
            if links.pending.is_some() {
                drop(links);
                session.close(Reason::BadPacket);
                return true;
            }
            if packet.attachments > 0 {
                let pending = Pending::new(&packet, text, self.room.bytes);
                links.pending = Some(Box::new(pending));
                return true;
            }
        }
        self.feed(session, text, Vec::new())
    }

    fn binary(self: &Arc<Self>, session: &Arc<Session<Self>>, bytes: Bytes) -> bool {
        let pending = session.state().lock().pending.take();
        match pending.map(|pending| pending.with(bytes)) {
            Some(Ok(Step::Waiting(pending))) => {
                session.state().lock().pending = Some(Box::new(pending));
                true
            }
            Some(Ok(Step::Complete(text, parts))) => self.feed(session, &text, parts),
            Some(Err(_)) | None => {
                session.close(Reason::BadPacket);
                true
            }
        }
    }

    fn poll_room(self: &Arc<Self>, session: &Arc<Session<Self>>, cx: &mut Context<'_>) -> Poll<()> {
        let mut links = session.state().lock();
        if links.is_full(self.room) {
            links.wake_when_free(cx.waker());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn is_full(&self, session: &Session<Self>) -> bool {
        session.state().lock().is_full(self.room)
    }

    fn alive(self: &Arc<Self>, session: &Arc<Session<Self>>) {
        let sockets = session.state().lock().sockets.clone();
        for socket in &sockets {
            if let Some(ring) = &mut socket.link().ring {
                ring.prove();
            }
            self.app.alive(socket);
        }
    }

    fn settled(self: &Arc<Self>, session: &Arc<Session<Self>>) {
        let is_idle = {
            let links = session.state().lock();
            links.sockets.is_empty() && !links.is_busy && links.over.is_none()
        };
        if is_idle {
            session.close(Reason::PingTimeout);
        }
    }

    fn tick(self: &Arc<Self>) {
        for (socket, reason) in self.shelf.ended() {
            let held_for = match socket.link().status {
                Status::Held(_, reason) => reason,
                _ => Reason::TransportClosed,
            };
            self.end(&socket, reason.unwrap_or(held_for));
        }
    }

    fn closed(self: &Arc<Self>, session: &Arc<Session<Self>>, reason: Reason) {
        let is_heard = Self::hears(session, reason);
        let ends = session.state().lock().end(reason, is_heard);
        if let Some(ends) = ends {
            return self.lose_all(session, &ends);
        }
        // Its sockets hold it for as long as they have not been told.
        let (hub, heard) = (Arc::clone(self), Arc::downgrade(session));
        session.engine().spawn(async move {
            sleep(HEARD).await;
            if let Some(session) = heard.upgrade() {
                hub.lose_ended(&session);
            }
        });
    }
}

impl<A: App> Lane<A::State> for Session<Hub<A>> {
    fn carry(self: Arc<Self>, parcel: &Arc<Parcel>) {
        self.push(parcel);
    }

    fn dismiss(self: Arc<Self>, reason: Reason) {
        self.close(reason);
    }

    fn replace(self: Arc<Self>, socket: &Arc<Socket<A::State>>) {
        self.state().lock().remove(socket);
        self.close(Reason::Replaced);
    }

    fn is_there(&self) -> bool {
        self.is_open()
    }

    fn waiting(&self) -> usize {
        // Nobody fetches the rest of one that has ended.
        if self.is_open() { self.queued() } else { 0 }
    }
}
