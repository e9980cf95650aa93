//! Open sessions, grouped into buckets by the tick at which they are pinged.
//!
//! Invariant: a session stays at its location until it is removed, and its `sid` contains the location, so no map is
//! needed to find it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::SessionHandler;
use super::session::EngineIoSession;
use crate::slab::Slab;

/// Position of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionLocation {
    pub(super) bucket: u16,
    pub(super) index: u32,
}

#[derive(Debug)]
pub(super) struct SessionTable<U: SessionHandler> {
    bucket_count: Box<[Mutex<PingBucket<U>>]>,
    open: AtomicUsize,
    spread_counter: AtomicUsize,
}

type PingBucket<U> = Slab<Arc<EngineIoSession<U>>>;

impl<U: SessionHandler> SessionTable<U> {
    pub(super) fn new(phases: u16) -> Self {
        Self {
            bucket_count: (0..phases).map(|_| Mutex::default()).collect(),
            open: AtomicUsize::new(0),
            spread_counter: AtomicUsize::new(0),
        }
    }

    /// Reserves one of `max_sessions`; [`SessionTable::release_reservation`] returns it.
    pub(super) fn try_reserve(&self, most: usize) -> bool {
        let more = |open| (open < most).then_some(open + 1);
        self.open
            .try_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    pub(super) fn release_reservation(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
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
        make: impl FnOnce(SessionLocation) -> Arc<EngineIoSession<U>>,
    ) -> Arc<EngineIoSession<U>> {
        let phases = self.bucket_count.len();
        let spread = self.spread_counter.fetch_add(1, Ordering::Relaxed) % (phases * 2 / 10).max(1);
        let at = (tick as usize + phases * 6 / 10 + spread) % phases;
        let phase = u16::try_from(at).expect("there are at most u16::MAX phases");
        self.bucket_count[at].lock().insert(|index| {
            make(SessionLocation {
                bucket: phase,
                index,
            })
        })
    }

    pub(super) fn get(&self, place: SessionLocation) -> Option<Arc<EngineIoSession<U>>> {
        let phase = self.bucket_count.get(usize::from(place.bucket))?;
        phase.lock().get(place.index).cloned()
    }

    /// Removes a session. Returns false if it was removed before.
    pub(super) fn remove(&self, session: &Arc<EngineIoSession<U>>) -> bool {
        let place = session.location();
        let Some(phase) = self.bucket_count.get(usize::from(place.bucket)) else {
            return false;
        };
        let taken = phase
            .lock()
            .remove(place.index, |entry| Arc::ptr_eq(entry, session));
        taken.is_some()
    }

    /// Calls `each` with the sessions of one bucket, under the lock of the bucket.
    pub(super) fn for_each_in_bucket(
        &self,
        phase: usize,
        mut each: impl FnMut(&Arc<EngineIoSession<U>>),
    ) {
        for session in self.bucket_count[phase].lock().iter() {
            each(session);
        }
    }

    pub(super) fn for_each(&self, mut each: impl FnMut(&Arc<EngineIoSession<U>>)) {
        for phase in 0..self.bucket_count.len() {
            self.for_each_in_bucket(phase, &mut each);
        }
    }

    pub(super) fn buckets(&self) -> usize {
        self.bucket_count.len()
    }
}
