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

/// Called when the session of a connection ends. It may be called more than once and must not block.
pub trait SessionEndHandler: Send + Sync {
    /// The session has ended.
    fn session_ended(&self, reason: SessionEndReason);
}

impl<F: Fn(SessionEndReason) + Send + Sync> SessionEndHandler for F {
    fn session_ended(&self, reason: SessionEndReason) {
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
    handler: Arc<dyn SessionEndHandler>,
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
    connections: Arc<SessionConnections>,
    user: UserId,
    id: u64,
}

/// A registered connection that waits for the end of the session.
pub struct SessionEndWaiter {
    _registration: ConnectionRegistration,
    reason: watch::Receiver<Option<SessionEndReason>>,
}

impl SessionConnections {
    pub(super) fn register(
        self: &Arc<Self>,
        user: &UserId,
        device: Option<&DeviceId>,
        (connected_at, token_issued_at): (Timestamp, Option<Timestamp>),
        handler: Arc<dyn SessionEndHandler>,
    ) -> ConnectionRegistration {
        let mut table = self.table.lock();
        table.next_sequence += 1;
        let id = table.next_sequence;
        let connections = table.users.entry(user.clone());
        // Most users have one connection.
        let connections = connections.or_insert_with(|| Vec::with_capacity(1));
        connections.push(SessionConnection {
            id,
            device: device.cloned(),
            connected_at,
            token_issued_at,
            admitted_at: 0,
            handler,
        });
        ConnectionRegistration {
            connections: Arc::clone(self),
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
        let (to_notify, connected_later, sequence): (Vec<Arc<dyn SessionEndHandler>>, Vec<_>, _) = {
            let table = self.table.lock();
            let connections = table.users.get(user).into_iter().flatten();
            let of_device =
                |it: &&SessionConnection| end.device.is_none() || end.device == it.device;
            // The session of another device has replaced this one, so a check of the session would not find the end.
            let is_replaced = end.reason == SessionEndReason::Replaced;
            let (before, after): (Vec<_>, Vec<_>) = connections
                .filter(of_device)
                .partition(|it| is_replaced || it.connected_at <= end.ended_at);
            let to_notify = before.iter().map(|it| Arc::clone(&it.handler));
            let connected_later = after.iter().map(|it| it.token_issued_at);
            (
                to_notify.collect(),
                connected_later.collect(),
                table.next_sequence,
            )
        };
        to_notify.iter().for_each(|it| it.session_ended(end.reason));
        (connected_later, sequence)
    }

    /// Notifies the connections of a user that were admitted up to `sequence`, because a later read of the store has
    /// shown that the session ended. With `issued`, only the connections whose token was issued at this time.
    pub(super) fn notify_admitted(
        &self,
        user: &UserId,
        reason: SessionEndReason,
        issued: Option<Timestamp>,
        sequence: u64,
    ) {
        let to_notify: Vec<Arc<dyn SessionEndHandler>> = {
            let table = self.table.lock();
            let connections = table.users.get(user).into_iter().flatten();
            let to_notify = connections
                .filter(|it| (1..=sequence).contains(&it.admitted_at))
                .filter(|it| issued.is_none() || it.token_issued_at == issued);
            to_notify.map(|it| Arc::clone(&it.handler)).collect()
        };
        to_notify.iter().for_each(|it| it.session_ended(reason));
    }

    /// Users with an admitted connection, and the current sequence number.
    pub(super) fn admitted_users(&self) -> (Vec<UserId>, u64) {
        let table = self.table.lock();
        let is_in =
            |connections: &Vec<SessionConnection>| connections.iter().any(|it| it.admitted_at > 0);
        let users = table
            .users
            .iter()
            .filter(|(_, connections)| is_in(connections));
        (
            users.map(|(user, _)| user.clone()).collect(),
            table.next_sequence,
        )
    }
}

impl ConnectionRegistration {
    /// Admits the connection: later reads of the session apply to it.
    pub(super) fn mark_admitted(&self) {
        let mut table = self.connections.table.lock();
        table.next_sequence += 1;
        let now = table.next_sequence;
        let mut connections = table.users.get_mut(&self.user).into_iter().flatten();
        if let Some(connection) = connections.find(|it| it.id == self.id) {
            connection.admitted_at = now;
        }
    }
}

impl SessionEndWaiter {
    /// Registers a connection with a handler that wakes the waiter.
    pub(super) fn register(
        register: impl FnOnce(Arc<dyn SessionEndHandler>) -> ConnectionRegistration,
    ) -> Self {
        let (sender, reason) = watch::channel(None);
        let handler = move |reason| {
            sender.send_replace(Some(reason));
        };
        let registration = register(Arc::new(handler));
        registration.mark_admitted();
        Self {
            _registration: registration,
            reason,
        }
    }

    /// Waits until the session has ended. Cancel safe.
    pub async fn wait(&mut self) -> SessionEndReason {
        match self.reason.wait_for(Option::is_some).await {
            Ok(reason) => reason.unwrap_or(SessionEndReason::Logout),
            Err(_) => SessionEndReason::Logout,
        }
    }
}

impl Drop for ConnectionRegistration {
    fn drop(&mut self) {
        let mut table = self.connections.table.lock();
        let Some(connections) = table.users.get_mut(&self.user) else {
            return;
        };
        let index = connections.iter().position(|it| it.id == self.id);
        let connection = index.map(|index| connections.swap_remove(index));
        if connections.is_empty() {
            table.users.remove(&self.user);
        }
        // After the lock is released, because the handler may own another registration.
        drop(table);
        drop(connection);
    }
}

impl std::fmt::Debug for ConnectionRegistration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConnectionRegistration({})", self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_read_from_before_the_admission_does_not_end_the_connection() {
        let connections = Arc::new(SessionConnections::default());
        let alice = UserId::new("alice").unwrap();
        let reasons: Arc<Mutex<Vec<SessionEndReason>>> = Arc::default();
        let received = Arc::clone(&reasons);
        let ended = Arc::new(move |reason| received.lock().push(reason));
        let registration =
            connections.register(&alice, None, (Timestamp(5), Some(Timestamp(3))), ended);
        let (users, early) = connections.admitted_users();
        assert_eq!(users, []);
        registration.mark_admitted();
        connections.notify_admitted(&alice, SessionEndReason::Logout, None, early);
        assert_eq!(*reasons.lock(), []);
        let (users, mark) = connections.admitted_users();
        assert_eq!(users, std::slice::from_ref(&alice));
        connections.notify_admitted(&alice, SessionEndReason::Logout, Some(Timestamp(2)), mark);
        assert_eq!(*reasons.lock(), []);
        connections.notify_admitted(&alice, SessionEndReason::Logout, Some(Timestamp(3)), mark);
        assert_eq!(*reasons.lock(), [SessionEndReason::Logout]);
        let blocked = |at| SessionEnd {
            reason: SessionEndReason::Blocked,
            ended_at: Timestamp(at),
            device: None,
        };
        let late = vec![Some(Timestamp(3))];
        assert_eq!(
            connections.notify_session_end(&alice, &blocked(4)),
            (late, mark)
        );
        assert_eq!(*reasons.lock(), [SessionEndReason::Logout]);
        assert_eq!(
            connections.notify_session_end(&alice, &blocked(5)),
            (vec![], mark)
        );
        assert_eq!(
            *reasons.lock(),
            [SessionEndReason::Logout, SessionEndReason::Blocked]
        );
    }
}
