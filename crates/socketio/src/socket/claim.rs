//! A client that comes back for its socket.
//!
//! Always true: a claimed socket is in one pair of hands; dropped without a word it is back on the shelf with the time it had left.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::read_offset;
use super::hub::Hub;
use super::one::{Lane, Status};
use super::{App, Socket};
use crate::Reason;
use crate::engine::{Parcel, Session};

/// What the stock client adds to `auth`.
#[derive(Deserialize)]
struct Returning<'a> {
    #[serde(borrow)]
    pid: Cow<'a, str>,
    #[serde(borrow, default)]
    offset: Option<Cow<'a, str>>,
}

pub(super) struct Claim<A: App> {
    hub: Arc<Hub<A>>,
    pub(super) socket: Arc<Socket<A::State>>,
    /// The offset of what the client has seen last; none if it has seen nothing.
    offset: Option<u64>,
    deadline: u64,
    reason: Reason,
    is_settled: bool,
}

impl<A: App> Hub<A> {
    /// The socket that a client comes back for, if it is still there and all that the client has missed is.
    pub(super) fn claim(
        self: &Arc<Self>,
        namespace: &str,
        auth: Option<&RawValue>,
    ) -> Option<Claim<A>> {
        self.shelf.recovery?;
        let auth = auth?.get();
        // Most do not come back, and need not be read.
        if !auth.contains("\"pid\"") {
            return None;
        }
        let returning: Returning<'_> = serde_json::from_str(auth).ok()?;
        let offset = match &returning.offset {
            Some(offset) => Some(read_offset(offset)?),
            None => None,
        };
        let socket = self
            .roster
            .get(Socket::<A::State>::number_in(&returning.pid)?)?;
        let is_its =
            socket.namespace() == namespace && socket.pid().as_deref() == Some(&returning.pid);
        if !is_its {
            return None;
        }
        let (deadline, reason, lane) = {
            let mut link = socket.link();
            match link.status {
                Status::Held(key, reason) => {
                    let deadline = self.shelf.take(key)?;
                    link.status = Status::Claimed;
                    (deadline, reason, None)
                }
                // The client has noticed sooner than we that the connection is lost.
                Status::Live => {
                    link.status = Status::Claimed;
                    (self.shelf.deadline(), Reason::Replaced, link.lane.take())
                }
                Status::New | Status::Entering | Status::Claimed | Status::Over => return None,
            }
        };
        if let Some(lane) = lane {
            lane.replace(&socket);
            self.app.detached(&socket, Reason::Replaced);
        }
        let claim = Claim {
            hub: Arc::clone(self),
            socket,
            offset,
            deadline,
            reason,
            is_settled: false,
        };
        if claim.is_kept() {
            return Some(claim);
        }
        claim.give_up();
        None
    }
}

impl<A: App> Claim<A> {
    fn is_kept(&self) -> bool {
        match &self.socket.link().ring {
            Some(ring) => ring.after(self.offset).is_some(),
            None => self.offset.is_none(),
        }
    }

    /// The client gets another socket: this one is over.
    pub(super) fn give_up(mut self) {
        self.is_settled = true;
        self.hub.end(&self.socket, Reason::Replaced);
    }

    /// The client gets its socket with what it has missed. False, and the socket is over, if that is not there any more.
    /// A session that has ended meanwhile leaves the socket on the shelf.
    pub(super) fn attach(mut self, session: &Arc<Session<Hub<A>>>) -> bool {
        let bound = session.engine().options().buffer;
        let hello = super::connecting::hello(&self.socket);
        {
            let mut links = session.state().lock();
            if links.over.is_some() {
                drop(links);
                // The application has taken it for one that is back.
                self.hub.app.detached(&self.socket, self.reason);
                return true;
            }
            let mut link = self.socket.link();
            let missed: Option<Vec<_>> = match &link.ring {
                Some(ring) => ring
                    .after(self.offset)
                    .map(|missed| missed.cloned().collect()),
                None => self.offset.is_none().then(Vec::new),
            };
            // More than may wait for the client would cut it, again and again.
            let fits = |missed: &Vec<Arc<Parcel>>| {
                let size: usize = missed.iter().map(|frame| frame.wire().len()).sum();
                session.queued() + hello.wire().len() + size <= bound
            };
            match missed.filter(fits).filter(|_| link.doomed.is_none()) {
                Some(missed) => {
                    session.push(&hello);
                    missed.iter().for_each(|frame| session.push(frame));
                    let lane: Arc<dyn Lane<A::State>> = Arc::clone(session) as _;
                    link.lane = Some(lane);
                    link.status = Status::Live;
                    links.sockets.push(Arc::clone(&self.socket));
                    self.is_settled = true;
                }
                None => {
                    drop(link);
                    drop(links);
                    self.give_up();
                    return false;
                }
            }
        }
        self.hub.recovered.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl<A: App> Drop for Claim<A> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.hub.hold(&self.socket, self.deadline, self.reason);
        }
    }
}
