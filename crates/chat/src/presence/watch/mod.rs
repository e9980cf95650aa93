//! Watching chosen users.
//!
//! Always true: a watcher gets changes of its users only, the latest of each, in rising versions, and only after a flush.

mod frame;
mod hub;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use self::hub::WatcherMailbox;
use super::Presence;
use super::ops::UserStatus;
use super::reads::{self, MAX_USERS_PER_QUERY};
use crate::error::{Error, Result};
use crate::ids::UserId;

pub(super) use self::hub::WatcherRegistry;

/// Users of one watcher.
pub const MAX_WATCHED_USERS: usize = 1_000;

impl Presence {
    /// Somebody who watches nobody yet.
    pub fn new_watcher(&self) -> PresenceWatcher {
        PresenceWatcher {
            mailbox: self.watchers.new_mailbox(),
            hub: Arc::clone(&self.watchers),
            users: HashMap::new(),
        }
    }

    /// Hands the collected changes to their watchers. To be called ten times a second.
    pub async fn flush_watchers(&self) -> Result<()> {
        self.watchers.unsubscribe_unused();
        let read = self.watchers.read_missed().await;
        self.watchers.flush_mailboxes();
        read
    }
}

/// One who watches users. Dropping it ends the watching.
pub struct PresenceWatcher {
    hub: Arc<WatcherRegistry>,
    mailbox: Arc<WatcherMailbox>,
    /// The version of each that was last told.
    users: HashMap<UserId, u64>,
}

impl PresenceWatcher {
    /// Watches more users; how these are seen now. If the store cannot tell, or nobody waits for the answer, they are
    /// watched all the same unless even that failed, and told as changes.
    pub async fn watch(&mut self, users: &[UserId]) -> Result<Vec<UserStatus>> {
        let fresh = self.not_yet_watched(users)?;
        self.hub.subscribe(&fresh).await?;
        self.hub.add_watcher(&self.mailbox, &fresh);
        self.users.extend(fresh.into_iter().map(|user| (user, 0)));
        let mut untold = RereadOnDrop {
            hub: &self.hub,
            users,
        };
        let now = reads::read_statuses(self.hub.context(), users).await?;
        untold.users = &[];
        drop(untold);
        for status in &now {
            self.accept_if_newer(status);
        }
        Ok(now)
    }

    /// Those of the users that are not watched yet.
    fn not_yet_watched(&self, users: &[UserId]) -> Result<Vec<UserId>> {
        let mut seen = HashSet::new();
        let fresh = users.iter();
        let fresh = fresh.filter(|user| !self.users.contains_key(*user) && seen.insert(*user));
        let fresh: Vec<UserId> = fresh.cloned().collect();
        let given = (self.users.len() + fresh.len()).max(users.len());
        let most = MAX_WATCHED_USERS.min(MAX_USERS_PER_QUERY);
        if given > most {
            return Err(Error::TooMany {
                items: "watched users",
                given,
                max: most,
            });
        }
        Ok(fresh)
    }

    /// Watches these users no more.
    pub fn unwatch(&mut self, users: &[UserId]) {
        for user in users {
            if self.users.remove(user).is_some() {
                self.hub.remove_watcher(&self.mailbox, user);
            }
        }
    }

    /// The next changes, the latest of each user. Safe to cancel.
    pub async fn next(&mut self) -> Vec<UserStatus> {
        loop {
            let news = self.try_next();
            if !news.is_empty() {
                return news;
            }
            self.mailbox.wait_for_flush().await;
        }
    }

    /// The changes that are there already.
    pub fn try_next(&mut self) -> Vec<UserStatus> {
        let ready = self.mailbox.take().into_values();
        ready
            .filter(|status| self.accept_if_newer(status))
            .collect()
    }

    fn accept_if_newer(&mut self, status: &UserStatus) -> bool {
        match self.users.get_mut(&status.user_id) {
            Some(told) if status.version > *told => {
                *told = status.version;
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

/// Watched users whose state was not told. If it is not, they are read again with the next flush.
struct RereadOnDrop<'a> {
    hub: &'a WatcherRegistry,
    users: &'a [UserId],
}

impl Drop for RereadOnDrop<'_> {
    fn drop(&mut self) {
        self.hub.missed_shards(self.users);
    }
}
