//! The open sessions, by the moment at which they are pinged.
//!
//! Always true: a session stays in its place until it is removed, and its id names the place, so that no map is needed to find it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Above;
use super::session::Session;
use crate::slab::Slab;

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) phase: u16,
    pub(super) index: u32,
}

#[derive(Debug)]
pub(super) struct Table<U: Above> {
    phases: Box<[Mutex<Phase<U>>]>,
    open: AtomicUsize,
    next: AtomicUsize,
}

type Phase<U> = Slab<Arc<Session<U>>>;

impl<U: Above> Table<U> {
    pub(super) fn new(phases: u16) -> Self {
        Self {
            phases: (0..phases).map(|_| Mutex::default()).collect(),
            open: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
        }
    }

    /// Takes one of `most` places, to be given back by [`Table::release`].
    pub(super) fn reserve(&self, most: usize) -> bool {
        let more = |open| (open < most).then_some(open + 1);
        self.open
            .try_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    pub(super) fn release(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Puts a session where its first ping is due in six to eight tenths of the interval: many that come at once are spread,
    /// and none waits longer than the interval, also where a tick is late.
    pub(super) fn insert(
        &self,
        tick: u32,
        make: impl FnOnce(Place) -> Arc<Session<U>>,
    ) -> Arc<Session<U>> {
        let phases = self.phases.len();
        let spread = self.next.fetch_add(1, Ordering::Relaxed) % (phases * 2 / 10).max(1);
        let at = (tick as usize + phases * 6 / 10 + spread) % phases;
        let phase = u16::try_from(at).expect("there are at most u16::MAX phases");
        self.phases[at]
            .lock()
            .insert(|index| make(Place { phase, index }))
    }

    pub(super) fn get(&self, place: Place) -> Option<Arc<Session<U>>> {
        let phase = self.phases.get(usize::from(place.phase))?;
        phase.lock().get(place.index).cloned()
    }

    /// Takes a session out, if it is still in.
    pub(super) fn remove(&self, session: &Arc<Session<U>>) -> bool {
        let place = session.place();
        let Some(phase) = self.phases.get(usize::from(place.phase)) else {
            return false;
        };
        let taken = phase
            .lock()
            .remove(place.index, |entry| Arc::ptr_eq(entry, session));
        taken.is_some()
    }

    /// Calls `each` with the sessions of one phase, which stay in while it does.
    pub(super) fn of_phase(&self, phase: usize, mut each: impl FnMut(&Arc<Session<U>>)) {
        for session in self.phases[phase].lock().iter() {
            each(session);
        }
    }

    pub(super) fn for_each(&self, mut each: impl FnMut(&Arc<Session<U>>)) {
        for phase in 0..self.phases.len() {
            self.of_phase(phase, &mut each);
        }
    }

    pub(super) fn phases(&self) -> usize {
        self.phases.len()
    }
}
