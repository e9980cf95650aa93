//! Watching chosen users.
//!
//! Always true:
//! 1. A node listens to the channel of a shard while it has a watcher for a user of that shard, once for all watchers.
//! 2. A watcher gets changes of its users only, the latest of each, in rising versions, and only after a flush.
//! 3. What may have been missed is read from the store.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use parlor_store::{Event, Subscription};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Presence;
use super::ops::{Status, UserStatus};
use super::reads::{self, MOST_READ};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ids::{UserId, WatchShard};

/// Users of one watcher.
pub const MOST_WATCHED: usize = 1_000;

/// The version byte of a frame.
const FRAME: u8 = 1;

/// All watchers of a node.
pub(super) struct Hub {
    ctx: Context,
    inner: Mutex<Inner>,
    /// Held while shards are opened or closed, so that no shard closes under somebody who counts on it.
    doors: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Inner {
    watchers: HashMap<UserId, Vec<Arc<Mailbox>>>,
    shards: HashMap<u8, Shard>,
    /// Shards whose messages may be missing.
    missed: HashSet<u8>,
    /// Mailboxes with something to flush.
    dirty: Vec<Arc<Mailbox>>,
}

/// The open channel of a shard, and how many of its users are watched.
struct Shard {
    users: usize,
    reader: JoinHandle<()>,
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

#[derive(Default)]
struct Mailbox {
    changes: Mutex<Changes>,
    flushed: Notify,
}

/// The latest changes for one watcher.
#[derive(Default)]
struct Changes {
    pending: HashMap<UserId, UserStatus>,
    ready: HashMap<UserId, UserStatus>,
}

impl Presence {
    /// Somebody who watches nobody yet.
    pub fn watcher(&self) -> Watcher {
        Watcher {
            hub: Arc::clone(&self.hub),
            mailbox: Arc::default(),
            users: HashMap::new(),
        }
    }

    /// Hands the collected changes to their watchers. To be called ten times a second.
    pub async fn flush_watchers(&self) -> Result<()> {
        self.hub.close_unused();
        let read = self.hub.read_missed().await;
        self.hub.flush();
        read
    }
}

/// One who watches users. Dropping it ends the watching.
pub struct Watcher {
    hub: Arc<Hub>,
    mailbox: Arc<Mailbox>,
    /// The version of each that was last told.
    users: HashMap<UserId, u64>,
}

impl Watcher {
    /// Watches more users; how these are seen now. If the store cannot tell, they are watched all the same unless even that
    /// failed, and told as changes when it can.
    pub async fn watch(&mut self, users: &[UserId]) -> Result<Vec<UserStatus>> {
        let mut fresh: Vec<UserId> = Vec::new();
        let mut seen = HashSet::new();
        for user in users {
            if !self.users.contains_key(user) && seen.insert(user) {
                fresh.push(user.clone());
            }
        }
        let given = self.users.len() + fresh.len();
        if given > MOST_WATCHED {
            return Err(Error::TooMany {
                what: "watched users",
                given,
                most: MOST_WATCHED,
            });
        }
        self.hub.open(&fresh).await?;
        self.hub.add(&self.mailbox, &fresh);
        self.users.extend(fresh.into_iter().map(|user| (user, 0)));
        let now = reads::read(&self.hub.ctx, users).await;
        match &now {
            Ok(statuses) => {
                for status in statuses {
                    self.is_news(status);
                }
            }
            Err(_) => {
                let shards = users.iter().map(|user| WatchShard::of(user).number());
                self.hub.inner.lock().missed.extend(shards);
            }
        }
        now
    }

    /// Watches these users no more.
    pub fn unwatch(&mut self, users: &[UserId]) {
        for user in users {
            if self.users.remove(user).is_some() {
                self.hub.remove(&self.mailbox, user);
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
            self.mailbox.flushed.notified().await;
        }
    }

    /// The changes that are there already.
    pub fn try_next(&mut self) -> Vec<UserStatus> {
        let ready = std::mem::take(&mut self.mailbox.changes.lock().ready);
        let ready = ready.into_values();
        ready.filter(|status| self.is_news(status)).collect()
    }

    fn is_news(&mut self, status: &UserStatus) -> bool {
        match self.users.get_mut(&status.user_id) {
            Some(told) if status.version > *told => {
                *told = status.version;
                true
            }
            _ => false,
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        for user in self.users.keys() {
            self.hub.remove(&self.mailbox, user);
        }
    }
}

impl Hub {
    pub(super) fn new(ctx: Context) -> Arc<Self> {
        Arc::new(Self {
            ctx,
            inner: Mutex::default(),
            doors: tokio::sync::Mutex::default(),
        })
    }

    /// Listens to the shards of these users.
    async fn open(self: &Arc<Self>, users: &[UserId]) -> Result<()> {
        let _doors = self.doors.lock().await;
        for shard in users.iter().map(WatchShard::of) {
            let number = shard.number();
            if self.inner.lock().shards.contains_key(&number) {
                continue;
            }
            let channel = self.ctx.keys().watch(shard);
            let subscription = self.ctx.store().bus().subscribe(channel.as_str()).await?;
            let reader = tokio::spawn(listen(Arc::downgrade(self), number, subscription));
            let shard = Shard { users: 0, reader };
            self.inner.lock().shards.insert(number, shard);
        }
        // Counted while the doors are held: an open shard without users may be closed.
        let mut inner = self.inner.lock();
        for user in users {
            if let Some(shard) = inner.shards.get_mut(&WatchShard::of(user).number()) {
                shard.users += 1;
            }
        }
        Ok(())
    }

    fn add(&self, mailbox: &Arc<Mailbox>, users: &[UserId]) {
        let mut inner = self.inner.lock();
        for user in users {
            let watchers = inner.watchers.entry(user.clone()).or_default();
            watchers.push(Arc::clone(mailbox));
        }
    }

    fn remove(&self, mailbox: &Arc<Mailbox>, user: &UserId) {
        let mut inner = self.inner.lock();
        if let Some(watchers) = inner.watchers.get_mut(user) {
            watchers.retain(|it| !Arc::ptr_eq(it, mailbox));
            if watchers.is_empty() {
                inner.watchers.remove(user);
            }
        }
        if let Some(shard) = inner.shards.get_mut(&WatchShard::of(user).number()) {
            shard.users -= 1;
        }
    }

    fn close_unused(&self) {
        // Somebody who opens shards just now is no reason to wait: the next flush closes.
        if let Ok(_doors) = self.doors.try_lock() {
            self.inner.lock().shards.retain(|_, shard| shard.users > 0);
        }
    }

    async fn read_missed(&self) -> Result<()> {
        let (missed, users) = {
            let mut inner = self.inner.lock();
            if inner.missed.is_empty() {
                return Ok(());
            }
            let missed = std::mem::take(&mut inner.missed);
            let of_missed = |user: &&UserId| missed.contains(&WatchShard::of(user).number());
            let users: Vec<UserId> = inner.watchers.keys().filter(of_missed).cloned().collect();
            (missed, users)
        };
        for users in users.chunks(MOST_READ) {
            match reads::read(&self.ctx, users).await {
                Ok(statuses) => statuses.iter().for_each(|status| self.post(status)),
                Err(error) => {
                    self.inner.lock().missed.extend(missed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn post(&self, status: &UserStatus) {
        let mut inner = self.inner.lock();
        let Inner {
            watchers, dirty, ..
        } = &mut *inner;
        for mailbox in watchers.get(&status.user_id).into_iter().flatten() {
            let pending = &mut mailbox.changes.lock().pending;
            if pending.is_empty() {
                dirty.push(Arc::clone(mailbox));
            }
            keep_latest(pending, status.clone());
        }
    }

    fn flush(&self) {
        let dirty = std::mem::take(&mut self.inner.lock().dirty);
        for mailbox in dirty {
            let Changes { pending, ready } = &mut *mailbox.changes.lock();
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

/// Reads the channel of a shard as long as somebody wants it.
async fn listen(hub: Weak<Hub>, shard: u8, mut subscription: Subscription) {
    while let Some(event) = subscription.next().await {
        let Some(hub) = hub.upgrade() else { return };
        let change = match &event {
            Event::Message { payload, .. } => frame(payload),
            Event::MaybeMissed => None,
        };
        // A frame of another version is one we missed.
        match change {
            Some(status) => hub.post(&status),
            None => drop(hub.inner.lock().missed.insert(shard)),
        }
    }
}

/// `status version seen user` after the version byte.
fn frame(payload: &[u8]) -> Option<UserStatus> {
    let (&FRAME, text) = payload.split_first()? else {
        return None;
    };
    let mut words = std::str::from_utf8(text).ok()?.splitn(4, ' ');
    let status = Status::named(words.next()?)?;
    let version = words.next()?.parse().ok()?;
    let seen = words.next()?;
    Some(UserStatus {
        user_id: UserId::new(words.next()?).ok()?,
        status,
        last_seen: (seen != "-").then(|| seen.to_owned()),
        version,
        degraded: false,
    })
}
