//! All watchers of a node, and the channels that the node subscribes to.
//!
//! Invariants:
//! 1. A node subscribes to the channel of a shard once, while a watcher has a user of that shard.
//! 2. After a possible message loss, the watched users of the shard are read from the store.
//! 3. The cost of a watcher depends on the number of its users only, not on the number of other watchers.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use parlor_store::{BusEvent, BusSubscription};
use tokio::sync::Notify;

use super::frame::decode_status_change;
use crate::api::error::Result;
use crate::background::BackgroundTask;
use crate::context::ChatContext;
use crate::ids::{UserId, WatchShard};
use crate::presence::model::UserStatus;
use crate::presence::query::{MAX_USERS_PER_QUERY, StatusReader};

/// All watchers of a node.
pub(in crate::capabilities::presence) struct WatcherRegistry {
    ctx: ChatContext,
    reader: Arc<StatusReader>,
    inner: Mutex<WatcherTable>,
    /// Lock for subscribing and unsubscribing: a shard must not be unsubscribed while a new watcher relies on it.
    subscription_lock: tokio::sync::Mutex<()>,
    /// Id of the next mailbox.
    next_mailbox_id: AtomicU64,
}

#[derive(Default)]
struct WatcherTable {
    watchers: HashMap<UserId, HashMap<u64, Arc<WatcherMailbox>>>,
    shards: HashMap<u8, ShardSubscription>,
    /// Shards with possibly lost messages.
    missed_shards: HashSet<u8>,
    /// Mailboxes with changes to flush.
    dirty_mailboxes: Vec<Arc<WatcherMailbox>>,
}

/// Subscription of a shard, and the number of its watched users, counted once per watcher.
struct ShardSubscription {
    watched_users: usize,
    _reader: BackgroundTask,
}

pub(super) struct WatcherMailbox {
    id: u64,
    changes: Mutex<MailboxChanges>,
    flushed: Notify,
}

/// Latest changes for one watcher.
#[derive(Default)]
struct MailboxChanges {
    pending: HashMap<UserId, UserStatus>,
    ready: HashMap<UserId, UserStatus>,
}

impl WatcherMailbox {
    /// Takes the changes that are ready.
    pub(super) fn take(&self) -> HashMap<UserId, UserStatus> {
        std::mem::take(&mut self.changes.lock().ready)
    }

    /// Waits for the next flush. Returns at once if there was a flush since the last call.
    pub(super) async fn wait_for_flush(&self) {
        self.flushed.notified().await;
    }
}

impl WatcherRegistry {
    pub(in crate::capabilities::presence) fn new(
        ctx: ChatContext,
        reader: Arc<StatusReader>,
    ) -> Arc<Self> {
        Arc::new(Self {
            ctx,
            reader,
            inner: Mutex::default(),
            subscription_lock: tokio::sync::Mutex::default(),
            next_mailbox_id: AtomicU64::new(0),
        })
    }

    pub(super) fn reader(&self) -> &StatusReader {
        &self.reader
    }

    /// Creates the mailbox of a new watcher.
    pub(super) fn new_mailbox(&self) -> Arc<WatcherMailbox> {
        Arc::new(WatcherMailbox {
            id: self.next_mailbox_id.fetch_add(1, Ordering::Relaxed),
            changes: Mutex::default(),
            flushed: Notify::new(),
        })
    }

    /// Marks the shards of these users for a re-read, because changes may be lost.
    pub(super) fn mark_missed(&self, users: &[UserId]) {
        let shards = users.iter().map(|user| WatchShard::for_user(user).number());
        self.inner.lock().missed_shards.extend(shards);
    }

    /// Subscribes to the shards of these users.
    pub(super) async fn subscribe(self: &Arc<Self>, users: &[UserId]) -> Result<()> {
        let _guard = self.subscription_lock.lock().await;
        for shard in users.iter().map(WatchShard::for_user) {
            let number = shard.number();
            if self.inner.lock().shards.contains_key(&number) {
                continue;
            }
            let channel = self.ctx.keys().presence_changes_channel(shard);
            let subscription = self.ctx.store().bus().subscribe(channel.as_str()).await?;
            let reading = read_shard_channel(Arc::downgrade(self), number, subscription);
            let shard = ShardSubscription {
                watched_users: 0,
                _reader: BackgroundTask::spawn(reading),
            };
            self.inner.lock().shards.insert(number, shard);
        }
        // Counted under the lock: a shard without users may be unsubscribed.
        let mut inner = self.inner.lock();
        for user in users {
            if let Some(shard) = inner.shards.get_mut(&WatchShard::for_user(user).number()) {
                shard.watched_users += 1;
            }
        }
        Ok(())
    }

    pub(super) fn add_watcher(&self, mailbox: &Arc<WatcherMailbox>, users: &[UserId]) {
        let mut inner = self.inner.lock();
        for user in users {
            let watchers = inner.watchers.entry(user.clone()).or_default();
            watchers.insert(mailbox.id, Arc::clone(mailbox));
        }
    }

    pub(super) fn remove_watcher(&self, mailbox: &Arc<WatcherMailbox>, user: &UserId) {
        let mut inner = self.inner.lock();
        if let Some(watchers) = inner.watchers.get_mut(user) {
            watchers.remove(&mailbox.id);
            if watchers.is_empty() {
                inner.watchers.remove(user);
            }
        }
        if let Some(shard) = inner.shards.get_mut(&WatchShard::for_user(user).number()) {
            shard.watched_users -= 1;
        }
        let mut changes = mailbox.changes.lock();
        changes.pending.remove(user);
        changes.ready.remove(user);
    }

    pub(super) fn unsubscribe_unused(&self) {
        // If a watcher subscribes at the moment, the next flush unsubscribes.
        if let Ok(_guard) = self.subscription_lock.try_lock() {
            self.inner
                .lock()
                .shards
                .retain(|_, shard| shard.watched_users > 0);
        }
    }

    pub(super) async fn read_missed(&self) -> Result<()> {
        let (missed, users) = {
            let mut inner = self.inner.lock();
            if inner.missed_shards.is_empty() {
                return Ok(());
            }
            let missed = std::mem::take(&mut inner.missed_shards);
            let of_missed = |user: &&UserId| missed.contains(&WatchShard::for_user(user).number());
            let users: Vec<UserId> = inner.watchers.keys().filter(of_missed).cloned().collect();
            (missed, users)
        };
        for users in users.chunks(MAX_USERS_PER_QUERY) {
            match self.reader.statuses(users).await {
                Ok(statuses) => statuses.iter().for_each(|status| self.post_status(status)),
                Err(error) => {
                    self.inner.lock().missed_shards.extend(missed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn post_status(&self, status: &UserStatus) {
        let mut inner = self.inner.lock();
        let WatcherTable {
            watchers,
            dirty_mailboxes: dirty,
            ..
        } = &mut *inner;
        let of_user = watchers.get(&status.user_id);
        for mailbox in of_user.into_iter().flat_map(HashMap::values) {
            let pending = &mut mailbox.changes.lock().pending;
            if pending.is_empty() {
                dirty.push(Arc::clone(mailbox));
            }
            keep_latest(pending, status.clone());
        }
    }

    pub(super) fn flush_mailboxes(&self) {
        let dirty = std::mem::take(&mut self.inner.lock().dirty_mailboxes);
        for mailbox in dirty {
            let MailboxChanges { pending, ready } = &mut *mailbox.changes.lock();
            for (_, status) in pending.drain() {
                keep_latest(ready, status);
            }
            mailbox.flushed.notify_one();
        }
    }
}

fn keep_latest(changes: &mut HashMap<UserId, UserStatus>, status: UserStatus) {
    match changes.get(&status.user_id) {
        Some(known) if known.version >= status.version => {}
        _ => drop(changes.insert(status.user_id.clone(), status)),
    }
}

/// Reads the channel of a shard until the subscription or the registry is dropped.
async fn read_shard_channel(
    hub: Weak<WatcherRegistry>,
    shard: u8,
    mut subscription: BusSubscription,
) {
    while let Some(event) = subscription.next().await {
        let Some(hub) = hub.upgrade() else { return };
        let change = match &event {
            BusEvent::Message { payload, .. } => decode_status_change(payload),
            BusEvent::MaybeMissed => None,
        };
        // A frame of an unknown version counts as lost.
        match change {
            Some(status) => hub.post_status(&status),
            None => drop(hub.inner.lock().missed_shards.insert(shard)),
        }
    }
}
