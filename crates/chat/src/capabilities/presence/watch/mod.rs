//! Watches the status of chosen users.
//!
//! Invariant: a watcher receives changes of its own users only, the latest of each user, in rising versions, and only
//! after a flush.

mod frame;
mod registry;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use self::registry::WatcherMailbox;
use super::Presence;
use super::model::UserStatus;
use super::query::MAX_USERS_PER_QUERY;
use crate::api::error::{Error, Result};
use crate::ids::UserId;

pub(super) use self::registry::WatcherRegistry;

/// Maximum number of users per watcher. One query must be able to read them all.
pub const MAX_WATCHED_USERS: usize = MAX_USERS_PER_QUERY;

impl Presence {
    /// Creates a watcher without users.
    pub fn new_watcher(&self) -> PresenceWatcher {
        PresenceWatcher {
            mailbox: self.watchers.new_mailbox(),
            hub: Arc::clone(&self.watchers),
            users: HashMap::new(),
        }
    }

    /// Delivers the collected changes to the watchers. The background task calls this ten times per second.
    pub async fn flush_watchers(&self) -> Result<()> {
        self.watchers.unsubscribe_unused();
        let read = self.watchers.read_missed().await;
        self.watchers.flush_mailboxes();
        read
    }
}

/// Receives the status changes of chosen users. Dropping it ends the subscription.
pub struct PresenceWatcher {
    hub: Arc<WatcherRegistry>,
    mailbox: Arc<WatcherMailbox>,
    /// Version of each user that was last reported.
    users: HashMap<UserId, u64>,
}

impl PresenceWatcher {
    /// Adds users and returns their current statuses. If the read fails or the future is dropped, the users are watched
    /// nevertheless, and their statuses are delivered as changes. If the subscription fails, no user is added.
    pub async fn watch(&mut self, users: &[UserId]) -> Result<Vec<UserStatus>> {
        let fresh = self.not_yet_watched(users)?;
        self.hub.subscribe(&fresh).await?;
        self.hub.add_watcher(&self.mailbox, &fresh);
        self.users.extend(fresh.into_iter().map(|user| (user, 0)));
        let mut unreported = RereadOnDrop {
            hub: &self.hub,
            users,
        };
        let now = self.hub.reader().statuses(users).await?;
        unreported.users = &[];
        drop(unreported);
        for status in &now {
            self.accept_if_newer(status);
        }
        Ok(now)
    }

    /// Returns the users that are not watched yet.
    fn not_yet_watched(&self, users: &[UserId]) -> Result<Vec<UserId>> {
        let mut seen = HashSet::new();
        let fresh = users.iter();
        let fresh = fresh.filter(|user| !self.users.contains_key(*user) && seen.insert(*user));
        let fresh: Vec<UserId> = fresh.cloned().collect();
        let given = (self.users.len() + fresh.len()).max(users.len());
        if given > MAX_WATCHED_USERS {
            return Err(Error::TooMany {
                items: "watched users",
                given,
                max: MAX_WATCHED_USERS,
            });
        }
        Ok(fresh)
    }

    /// Removes users.
    pub fn unwatch(&mut self, users: &[UserId]) {
        for user in users {
            if self.users.remove(user).is_some() {
                self.hub.remove_watcher(&self.mailbox, user);
            }
        }
    }

    /// Waits for the next changes, the latest of each user. Cancellation safe.
    pub async fn next(&mut self) -> Vec<UserStatus> {
        loop {
            let news = self.try_next();
            if !news.is_empty() {
                return news;
            }
            self.mailbox.wait_for_flush().await;
        }
    }

    /// Returns the changes that are ready.
    pub fn try_next(&mut self) -> Vec<UserStatus> {
        let ready = self.mailbox.take().into_values();
        ready
            .filter(|status| self.accept_if_newer(status))
            .collect()
    }

    fn accept_if_newer(&mut self, status: &UserStatus) -> bool {
        match self.users.get_mut(&status.user_id) {
            Some(reported_version) if status.version > *reported_version => {
                *reported_version = status.version;
                true
            }
            _ => false,
        }
    }
}

impl Drop for PresenceWatcher {
    fn drop(&mut self) {
        for user in self.users.keys() {
            self.hub.remove_watcher(&self.mailbox, user);
        }
    }
}

/// Users whose status is not returned yet. If the guard is dropped with users, the next flush reads them again.
struct RereadOnDrop<'a> {
    hub: &'a WatcherRegistry,
    users: &'a [UserId],
}

impl Drop for RereadOnDrop<'_> {
    fn drop(&mut self) {
        self.hub.mark_missed(self.users);
    }
}
