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

use super::session::SessionEndReason;
use crate::context::Timestamp;
use crate::ids::{DeviceId, UserId};

/// What is told when a session ends. May be told more than once; must not block.
pub type Ended = Arc<dyn Ending>;

/// Something that ends with a session.
pub trait Ending: Send + Sync {
    /// The session has ended.
    fn ended(&self, reason: SessionEndReason);
}

impl<F: Fn(SessionEndReason) + Send + Sync> Ending for F {
    fn ended(&self, reason: SessionEndReason) {
        self(reason);
    }
}

/// The end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionEnd {
    pub(super) reason: SessionEndReason,
    pub(super) ended_at: Timestamp,
    /// Of one device only.
    pub(super) device: Option<DeviceId>,
}

/// A connection of a user.
struct SessionConnection {
    id: u64,
    device: Option<DeviceId>,
    /// When it came, and of when its token is.
    connected_at: Timestamp,
    token_issued_at: Option<Timestamp>,
    /// When it was let in, by the count of the hub; 0 before.
    admitted_at: u64,
    handler: Ended,
}

/// The connections of this node.
#[derive(Default)]
pub(super) struct SessionConnections {
    table: Mutex<ConnectionTable>,
}

#[derive(Default)]
struct ConnectionTable {
    users: HashMap<UserId, Vec<SessionConnection>>,
    next_sequence: u64,
}

/// A connection that is told when its user's session ends. Dropping it ends that.
#[must_use = "the connection is not notified after this is dropped"]
pub struct ConnectionRegistration {
    hub: Arc<SessionConnections>,
    user: UserId,
    id: u64,
}

/// A connection that lasts no longer than its user's session, and waits for its end.
pub struct SessionEndWaiter {
    _attachment: ConnectionRegistration,
    ended: watch::Receiver<Option<SessionEndReason>>,
}

impl SessionConnections {
    pub(super) fn register(
        self: &Arc<Self>,
        user: &UserId,
        device: Option<&DeviceId>,
        (since, issued): (Timestamp, Option<Timestamp>),
        ended: Ended,
    ) -> ConnectionRegistration {
        let mut held = self.table.lock();
        held.next_sequence += 1;
        let id = held.next_sequence;
        let lines = held.users.entry(user.clone());
        // Most have one.
        let lines = lines.or_insert_with(|| Vec::with_capacity(1));
        lines.push(SessionConnection {
            id,
            device: device.cloned(),
            connected_at: since,
            token_issued_at: issued,
            admitted_at: 0,
            handler: ended,
        });
        ConnectionRegistration {
            hub: Arc::clone(self),
            user: user.clone(),
            id,
        }
    }

    /// Tells a user's connections, or those of one device, that the session has ended at a moment. Who came later may have
    /// another session: of when their tokens are, and the mark of now.
    pub(super) fn notify_session_end(
        &self,
        user: &UserId,
        end: &SessionEnd,
    ) -> (Vec<Option<Timestamp>>, u64) {
        let (concerned, late, mark): (Vec<Ended>, Vec<_>, _) = {
            let held = self.table.lock();
            let lines = held.users.get(user).into_iter().flatten();
            let of_device =
                |it: &&SessionConnection| end.device.is_none() || end.device == it.device;
            // Who is replaced is not found by asking: there is a session, that of another device.
            let is_replaced = end.reason == SessionEndReason::Replaced;
            let (before, after): (Vec<_>, Vec<_>) = lines
                .filter(of_device)
                .partition(|it| is_replaced || it.connected_at <= end.ended_at);
            let concerned = before.iter().map(|it| Arc::clone(&it.handler));
            let late = after.iter().map(|it| it.token_issued_at);
            (concerned.collect(), late.collect(), held.next_sequence)
        };
        concerned.iter().for_each(|it| it.ended(end.reason));
        (late, mark)
    }

    /// Tells those of a user's connections that were in at `mark`, or those of them whose token is of a moment, that the
    /// session has ended, as the store said later.
    pub(super) fn notify_admitted(
        &self,
        user: &UserId,
        reason: SessionEndReason,
        issued: Option<Timestamp>,
        mark: u64,
    ) {
        let concerned: Vec<Ended> = {
            let held = self.table.lock();
            let lines = held.users.get(user).into_iter().flatten();
            let concerned = lines
                .filter(|it| (1..=mark).contains(&it.admitted_at))
                .filter(|it| issued.is_none() || it.token_issued_at == issued);
            concerned.map(|it| Arc::clone(&it.handler)).collect()
        };
        concerned.iter().for_each(|it| it.ended(reason));
    }

    /// Whoever is in, and the mark of now.
    pub(super) fn users(&self) -> (Vec<UserId>, u64) {
        let held = self.table.lock();
        let is_in = |lines: &Vec<SessionConnection>| lines.iter().any(|it| it.admitted_at > 0);
        let users = held.users.iter().filter(|(_, lines)| is_in(lines));
        (
            users.map(|(user, _)| user.clone()).collect(),
            held.next_sequence,
        )
    }
}

impl ConnectionRegistration {
    /// It is let in: from now on what the store says of the session counts for it.
    pub(super) fn mark_admitted(&self) {
        let mut held = self.hub.table.lock();
        held.next_sequence += 1;
        let now = held.next_sequence;
        let mut lines = held.users.get_mut(&self.user).into_iter().flatten();
        if let Some(line) = lines.find(|it| it.id == self.id) {
            line.admitted_at = now;
        }
    }
}

impl SessionEndWaiter {
    /// What to attach by, and what waits for it.
    pub(super) fn register(attach: impl FnOnce(Ended) -> ConnectionRegistration) -> Self {
        let (sender, ended) = watch::channel(None);
        let tell = move |reason| {
            sender.send_replace(Some(reason));
        };
        let attachment = attach(Arc::new(tell));
        attachment.mark_admitted();
        Self {
            _attachment: attachment,
            ended,
        }
    }

    /// Waits until the session has ended. Safe to cancel.
    pub async fn ended(&mut self) -> SessionEndReason {
        match self.ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.unwrap_or(SessionEndReason::Logout),
            Err(_) => SessionEndReason::Logout,
        }
    }
}

impl Drop for ConnectionRegistration {
    fn drop(&mut self) {
        let mut held = self.hub.table.lock();
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

impl std::fmt::Debug for ConnectionRegistration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Attachment({})", self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_reply_from_before_attach_does_not_end_the_attachment() {
        let hub = Arc::new(SessionConnections::default());
        let alice = UserId::new("alice").unwrap();
        let told: Arc<Mutex<Vec<SessionEndReason>>> = Arc::default();
        let there = Arc::clone(&told);
        let ended = Arc::new(move |reason| there.lock().push(reason));
        let attachment = hub.register(&alice, None, (Timestamp(5), Some(Timestamp(3))), ended);
        let (users, early) = hub.users();
        assert_eq!(users, []);
        attachment.mark_admitted();
        hub.notify_admitted(&alice, SessionEndReason::Logout, None, early);
        assert_eq!(*told.lock(), []);
        let (users, mark) = hub.users();
        assert_eq!(users, std::slice::from_ref(&alice));
        hub.notify_admitted(&alice, SessionEndReason::Logout, Some(Timestamp(2)), mark);
        assert_eq!(*told.lock(), []);
        hub.notify_admitted(&alice, SessionEndReason::Logout, Some(Timestamp(3)), mark);
        assert_eq!(*told.lock(), [SessionEndReason::Logout]);
        let blocked = |at| SessionEnd {
            reason: SessionEndReason::Blocked,
            ended_at: Timestamp(at),
            device: None,
        };
        let late = vec![Some(Timestamp(3))];
        assert_eq!(hub.notify_session_end(&alice, &blocked(4)), (late, mark));
        assert_eq!(*told.lock(), [SessionEndReason::Logout]);
        assert_eq!(hub.notify_session_end(&alice, &blocked(5)), (vec![], mark));
        assert_eq!(
            *told.lock(),
            [SessionEndReason::Logout, SessionEndReason::Blocked]
        );
    }
}
