//! Who is connected to this node by something that lasts: a stream, a socket.
//!
//! Always true:
//! 1. Whoever is attached is told when the session ends, also when this node did not hear of it at once. Nobody is told under
//!    a lock.
//! 2. Who is still on their way in may have no session yet: an answer of the store from before they were in is not theirs.
//! 3. News of an end may be late: whoever came after the end is not told of it, but asked for.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::session::Reason;
use crate::context::Moment;
use crate::ids::{DeviceId, UserId};

/// What is told when a session ends. May be told more than once; must not block.
pub type Ended = Arc<dyn Ending>;

/// Something that ends with a session.
pub trait Ending: Send + Sync {
    /// The session has ended.
    fn ended(&self, reason: Reason);
}

impl<F: Fn(Reason) + Send + Sync> Ending for F {
    fn ended(&self, reason: Reason) {
        self(reason);
    }
}

/// The end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub(super) reason: Reason,
    pub(super) at: Moment,
    /// Of one device only.
    pub(super) device: Option<DeviceId>,
}

/// A connection of a user.
struct Line {
    id: u64,
    device: Option<DeviceId>,
    /// When it came, and of when its token is.
    since: Moment,
    issued: Option<Moment>,
    /// When it was let in, by the count of the hub; 0 before.
    entered: u64,
    ended: Ended,
}

/// The connections of this node.
#[derive(Default)]
pub(super) struct Hub {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    users: HashMap<UserId, Vec<Line>>,
    next: u64,
}

/// A connection that is told when its user's session ends. Dropping it ends that.
#[must_use = "nothing is told once this is dropped"]
pub struct Attachment {
    hub: Arc<Hub>,
    user: UserId,
    id: u64,
}

/// A connection that lasts no longer than its user's session, and waits for its end.
pub struct Attached {
    _attachment: Attachment,
    ended: watch::Receiver<Option<Reason>>,
}

impl Hub {
    pub(super) fn attach(
        self: &Arc<Self>,
        user: &UserId,
        device: Option<&DeviceId>,
        (since, issued): (Moment, Option<Moment>),
        ended: Ended,
    ) -> Attachment {
        let mut held = self.held.lock();
        held.next += 1;
        let id = held.next;
        let lines = held.users.entry(user.clone());
        // Most have one.
        let lines = lines.or_insert_with(|| Vec::with_capacity(1));
        lines.push(Line {
            id,
            device: device.cloned(),
            since,
            issued,
            entered: 0,
            ended,
        });
        Attachment {
            hub: Arc::clone(self),
            user: user.clone(),
            id,
        }
    }

    /// Tells a user's connections, or those of one device, that the session has ended at a moment. Who came later may have
    /// another session: of when their tokens are, and the mark of now.
    pub(super) fn end(&self, user: &UserId, end: &End) -> (Vec<Option<Moment>>, u64) {
        let (concerned, late, mark): (Vec<Ended>, Vec<_>, _) = {
            let held = self.held.lock();
            let lines = held.users.get(user).into_iter().flatten();
            let of_device = |it: &&Line| end.device.is_none() || end.device == it.device;
            // Who is replaced is not found by asking: there is a session, that of another device.
            let is_replaced = end.reason == Reason::Replaced;
            let (before, after): (Vec<_>, Vec<_>) = lines
                .filter(of_device)
                .partition(|it| is_replaced || it.since <= end.at);
            let concerned = before.iter().map(|it| Arc::clone(&it.ended));
            let late = after.iter().map(|it| it.issued);
            (concerned.collect(), late.collect(), held.next)
        };
        concerned.iter().for_each(|it| it.ended(end.reason));
        (late, mark)
    }

    /// Tells those of a user's connections that were in at `mark`, or those of them whose token is of a moment, that the
    /// session has ended, as the store said later.
    pub(super) fn end_entered(
        &self,
        user: &UserId,
        reason: Reason,
        issued: Option<Moment>,
        mark: u64,
    ) {
        let concerned: Vec<Ended> = {
            let held = self.held.lock();
            let lines = held.users.get(user).into_iter().flatten();
            let concerned = lines
                .filter(|it| (1..=mark).contains(&it.entered))
                .filter(|it| issued.is_none() || it.issued == issued);
            concerned.map(|it| Arc::clone(&it.ended)).collect()
        };
        concerned.iter().for_each(|it| it.ended(reason));
    }

    /// Whoever is in, and the mark of now.
    pub(super) fn users(&self) -> (Vec<UserId>, u64) {
        let held = self.held.lock();
        let is_in = |lines: &Vec<Line>| lines.iter().any(|it| it.entered > 0);
        let users = held.users.iter().filter(|(_, lines)| is_in(lines));
        (users.map(|(user, _)| user.clone()).collect(), held.next)
    }
}

impl Attachment {
    /// It is let in: from now on what the store says of the session counts for it.
    pub(super) fn entered(&self) {
        let mut held = self.hub.held.lock();
        held.next += 1;
        let now = held.next;
        let mut lines = held.users.get_mut(&self.user).into_iter().flatten();
        if let Some(line) = lines.find(|it| it.id == self.id) {
            line.entered = now;
        }
    }
}

impl Attached {
    /// What to attach by, and what waits for it.
    pub(super) fn by(attach: impl FnOnce(Ended) -> Attachment) -> Self {
        let (sender, ended) = watch::channel(None);
        let tell = move |reason| {
            sender.send_replace(Some(reason));
        };
        let attachment = attach(Arc::new(tell));
        attachment.entered();
        Self {
            _attachment: attachment,
            ended,
        }
    }

    /// Waits until the session has ended. Safe to cancel.
    pub async fn ended(&mut self) -> Reason {
        match self.ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.unwrap_or(Reason::Logout),
            Err(_) => Reason::Logout,
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut held = self.hub.held.lock();
        let Some(lines) = held.users.get_mut(&self.user) else {
            return;
        };
        let place = lines.iter().position(|it| it.id == self.id);
        let line = place.map(|place| lines.swap_remove(place));
        if lines.is_empty() {
            held.users.remove(&self.user);
        }
        // Not under the lock: what it calls may hold another attachment.
        drop(held);
        drop(line);
    }
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Attachment({})", self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_said_before_somebody_was_in_does_not_put_them_out() {
        let hub = Arc::new(Hub::default());
        let alice = UserId::new("alice").unwrap();
        let told: Arc<Mutex<Vec<Reason>>> = Arc::default();
        let there = Arc::clone(&told);
        let ended = Arc::new(move |reason| there.lock().push(reason));
        let attachment = hub.attach(&alice, None, (Moment(5), Some(Moment(3))), ended);
        let (users, early) = hub.users();
        assert_eq!(users, []);
        attachment.entered();
        hub.end_entered(&alice, Reason::Logout, None, early);
        assert_eq!(*told.lock(), []);
        let (users, mark) = hub.users();
        assert_eq!(users, std::slice::from_ref(&alice));
        hub.end_entered(&alice, Reason::Logout, Some(Moment(2)), mark);
        assert_eq!(*told.lock(), []);
        hub.end_entered(&alice, Reason::Logout, Some(Moment(3)), mark);
        assert_eq!(*told.lock(), [Reason::Logout]);
        let blocked = |at| End {
            reason: Reason::Blocked,
            at: Moment(at),
            device: None,
        };
        let late = vec![Some(Moment(3))];
        assert_eq!(hub.end(&alice, &blocked(4)), (late, mark));
        assert_eq!(*told.lock(), [Reason::Logout]);
        assert_eq!(hub.end(&alice, &blocked(5)), (vec![], mark));
        assert_eq!(*told.lock(), [Reason::Logout, Reason::Blocked]);
    }
}
