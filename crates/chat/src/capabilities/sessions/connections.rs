//! Long-lived connections of this node (sockets, gRPC streams). Each one is notified when the session of its user ends.
//!
//! Invariants:
//! 1. Every registered connection is notified, even if this node missed the control message; `recheck_all` finds such
//!    sessions. Handlers are never called while the lock is held.
//! 2. A connection that is not admitted yet may not have a session yet. What the store says about a session applies
//!    only to connections that were admitted before the store was asked.
//! 3. A control message may arrive late. A connection that was made after the session ended is not notified by it; its
//!    session is read from the store instead.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::model::SessionEndReason;
use crate::clock::Timestamp;
use crate::ids::{DeviceId, UserId};

/// Handler of the end of a session. It may be called more than once and must not block.
pub type Ended = Arc<dyn Ending>;

/// A connection that must close when its session ends.
pub trait Ending: Send + Sync {
    /// The session has ended.
    fn ended(&self, reason: SessionEndReason);
}

impl<F: Fn(SessionEndReason) + Send + Sync> Ending for F {
    fn ended(&self, reason: SessionEndReason) {
        self(reason);
    }
}

/// End of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionEnd {
    pub(super) reason: SessionEndReason,
    pub(super) ended_at: Timestamp,
    /// Only the connections of this device; `None` for all devices.
    pub(super) device: Option<DeviceId>,
}

/// A connection of a user.
struct SessionConnection {
    id: u64,
    device: Option<DeviceId>,
    /// Time of the connection, and time at which its token was issued.
    connected_at: Timestamp,
    token_issued_at: Option<Timestamp>,
    /// Sequence number of the admission; 0 before it.
    admitted_at: u64,
    handler: Ended,
}

/// The long-lived connections of this node.
#[derive(Default)]
pub(super) struct SessionConnections {
    table: Mutex<ConnectionTable>,
}

#[derive(Default)]
struct ConnectionTable {
    users: HashMap<UserId, Vec<SessionConnection>>,
    next_sequence: u64,
}

/// Registration of a connection, which is notified when the session ends. Dropping it removes the connection.
#[must_use = "the connection is not notified after this is dropped"]
pub struct ConnectionRegistration {
    hub: Arc<SessionConnections>,
    user: UserId,
    id: u64,
}

/// A registered connection that waits for the end of the session.
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
        // Most users have one connection.
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

    /// Notifies the connections of a user, or of one device, that were made before the session ended. Connections that
    /// were made later may have another session: returns the times at which their tokens were issued, and the current
    /// sequence number.
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
            // The session of another device has replaced this one, so a check of the session would not find the end.
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

    /// Notifies the connections of a user that were admitted up to `sequence`, because a later read of the store has
    /// shown that the session ended. With `issued`, only the connections whose token was issued at this time.
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

    /// Users with an admitted connection, and the current sequence number.
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
    /// Admits the connection: later reads of the session apply to it.
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
    /// Registers a connection with a handler that wakes the waiter.
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

    /// Waits until the session has ended. Cancel safe.
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
        // After the lock is released, because the handler may own another registration.
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
