//! Open sessions, grouped into buckets by the tick at which they are pinged.
//!
//! Invariant: a session stays at its location until it is removed, and its `sid` contains the location, so no map is
//! needed to find it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;

use super::SessionHandler;
use super::session::EngineIoSession;

/// Position of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionLocation {
    pub(super) bucket: u16,
    pub(super) index: u32,
}

#[derive(Debug)]
pub(super) struct SessionTable<H: SessionHandler> {
    buckets: Box<[Mutex<PingBucket<H>>]>,
    open: AtomicUsize,
    /// Notified when the last session is removed.
    emptied: Notify,
    spread_counter: AtomicUsize,
}

type PingBucket<H> = Slab<Arc<EngineIoSession<H>>>;

impl<H: SessionHandler> SessionTable<H> {
    pub(super) fn new(bucket_count: u16) -> Self {
        Self {
            buckets: (0..bucket_count).map(|_| Mutex::default()).collect(),
            open: AtomicUsize::new(0),
            emptied: Notify::new(),
            spread_counter: AtomicUsize::new(0),
        }
    }

    /// Reserves one of `max_sessions`; [`SessionTable::release_reservation`] returns it.
    pub(super) fn try_reserve(&self, max_sessions: usize) -> bool {
        let one_more = |open| (open < max_sessions).then_some(open + 1);
        self.open
            .try_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok()
    }

    pub(super) fn release_reservation(&self) {
        if self.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.emptied.notify_waiters();
        }
    }

    /// Waits until no session is open.
    pub(super) async fn wait_until_empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.open_count() == 0 {
                return;
            }
            emptied.await;
        }
    }

    pub(super) fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Inserts a session into a bucket whose next ping is due after 60 to 80 % of the ping interval. The offset
    /// rotates, so that clients that connect together are not pinged together. The remaining 20 to 40 % is a reserve
    /// for late ticks, so that no client waits longer than the interval.
    pub(super) fn insert(
        &self,
        tick: u32,
        make: impl FnOnce(SessionLocation) -> Arc<EngineIoSession<H>>,
    ) -> Arc<EngineIoSession<H>> {
        let count = self.buckets.len();
        let spread = self.spread_counter.fetch_add(1, Ordering::Relaxed) % (count * 2 / 10).max(1);
        let bucket = (tick as usize + count * 6 / 10 + spread) % count;
        let number = u16::try_from(bucket).expect("there are at most u16::MAX buckets");
        let mut bucket = self.buckets[bucket].lock();
        let entry = bucket.vacant_entry();
        let session = make(SessionLocation {
            bucket: number,
            index: u32::try_from(entry.key()).expect("fewer sessions than bytes of memory"),
        });
        Arc::clone(entry.insert(session))
    }

    pub(super) fn get(&self, location: SessionLocation) -> Option<Arc<EngineIoSession<H>>> {
        let bucket = self.buckets.get(usize::from(location.bucket))?;
        bucket.lock().get(location.index as usize).cloned()
    }

    /// Removes a session. Returns false if it was removed before.
    pub(super) fn remove(&self, session: &Arc<EngineIoSession<H>>) -> bool {
        let location = session.location;
        let Some(bucket) = self.buckets.get(usize::from(location.bucket)) else {
            return false;
        };
        let (mut bucket, index) = (bucket.lock(), location.index as usize);
        // The index may belong to a newer session.
        if !bucket.get(index).is_some_and(|it| Arc::ptr_eq(it, session)) {
            return false;
        }
        bucket.remove(index);
        // An empty bucket owns no memory.
        if bucket.is_empty() {
            *bucket = Slab::new();
        }
        true
    }

    /// Calls `each` with the sessions of one bucket, under its lock.
    pub(super) fn for_each_in_bucket(
        &self,
        bucket: usize,
        mut each: impl FnMut(&Arc<EngineIoSession<H>>),
    ) {
        for (_, session) in self.buckets[bucket].lock().iter() {
            each(session);
        }
    }

    pub(super) fn for_each(&self, mut each: impl FnMut(&Arc<EngineIoSession<H>>)) {
        for bucket in 0..self.buckets.len() {
            self.for_each_in_bucket(bucket, &mut each);
        }
    }

    pub(super) fn bucket_count(&self) -> usize {
        self.buckets.len()
    }
}
