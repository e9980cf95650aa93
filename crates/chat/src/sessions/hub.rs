//! Who is connected to this node by something that lasts: a stream, a socket.
//!
//! Always true: whoever is attached is told when the session ends, also when this node did not hear of it at once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::session::Reason;
use crate::ids::{DeviceId, UserId};

/// The connections of one user.
type Lines = HashMap<u64, (Option<DeviceId>, watch::Sender<Option<Reason>>)>;

/// The connections of this node.
#[derive(Default)]
pub(super) struct Hub {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    users: HashMap<UserId, Lines>,
    next: u64,
}

/// A connection that lasts no longer than its user's session.
pub struct Attached {
    hub: Arc<Hub>,
    user: UserId,
    id: u64,
    ended: watch::Receiver<Option<Reason>>,
}

impl Hub {
    pub(super) fn attach(self: &Arc<Self>, user: &UserId, device: Option<&DeviceId>) -> Attached {
        let (sender, ended) = watch::channel(None);
        let mut held = self.held.lock();
        held.next += 1;
        let id = held.next;
        let lines = held.users.entry(user.clone()).or_default();
        lines.insert(id, (device.cloned(), sender));
        Attached {
            hub: Arc::clone(self),
            user: user.clone(),
            id,
            ended,
        }
    }

    /// Tells a user's connections, or those of one device, that the session has ended.
    pub(super) fn end(&self, user: &UserId, reason: Reason, device: Option<&DeviceId>) {
        let held = self.held.lock();
        for (of, sender) in held.users.get(user).into_iter().flat_map(HashMap::values) {
            if device.is_none() || device == of.as_ref() {
                sender.send_replace(Some(reason));
            }
        }
    }

    /// Whoever is attached.
    pub(super) fn users(&self) -> Vec<UserId> {
        self.held.lock().users.keys().cloned().collect()
    }
}

impl Attached {
    /// Waits until the session has ended. Safe to cancel.
    pub async fn ended(&mut self) -> Reason {
        match self.ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.unwrap_or(Reason::Logout),
            Err(_) => Reason::Logout,
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut held = self.hub.held.lock();
        if let Some(lines) = held.users.get_mut(&self.user) {
            lines.remove(&self.id);
            if lines.is_empty() {
                held.users.remove(&self.user);
            }
        }
    }
}
