//! Whether writes are let through.
//!
//! Always true:
//! 1. Asking costs one atomic load while all is well.
//! 2. Only `crowded` makes callers wait; in every other state they get their answer at once, so reads always go on.
//! 3. A gate that was shut stays shut.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::Error;

const OPEN: u8 = 0;
const CROWDED: u8 = 1;
const FAILING: u8 = 2;
const SHUT: u8 = 3;

/// The gate that every command passes.
#[derive(Default)]
pub(crate) struct Gate {
    state: AtomicU8,
    refusal: Mutex<Option<Error>>,
    room: Notify,
}

impl Gate {
    /// Why a command that begins now may not write.
    pub fn refusal(&self) -> Option<Error> {
        match self.state.load(Ordering::Acquire) {
            OPEN | CROWDED => None,
            _ => self.refusal.lock().clone(),
        }
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Makes callers wait. Whether they did not before.
    pub fn crowd(&self) -> bool {
        self.step(OPEN, CROWDED)
    }

    /// Lets waiting callers go on.
    pub fn relieve(&self) {
        if self.step(CROWDED, OPEN) {
            self.room.notify_waiters();
        }
    }

    /// Refuses writes for now. Whether they were let through before.
    pub fn fail(&self, reason: Error) -> bool {
        let mut refusal = self.refusal.lock();
        if self.state.load(Ordering::Acquire) == SHUT {
            return false;
        }
        *refusal = Some(reason);
        let changed = self.step(OPEN, FAILING) || self.step(CROWDED, FAILING);
        self.room.notify_waiters();
        changed
    }

    /// Lets writes through again. Whether they were refused before.
    pub fn recover(&self) -> bool {
        self.step(FAILING, OPEN)
    }

    /// Refuses writes for good.
    pub fn shut(&self, reason: Error) {
        let mut refusal = self.refusal.lock();
        if self.state.swap(SHUT, Ordering::AcqRel) != SHUT {
            *refusal = Some(reason);
        }
        self.room.notify_waiters();
    }

    /// Whether writers have to wait.
    pub fn is_crowded(&self) -> bool {
        self.state.load(Ordering::Acquire) == CROWDED
    }

    /// Waits while the gate is crowded.
    pub async fn room(&self) {
        while self.is_crowded() {
            let room = self.room.notified();
            // What happens after this line wakes it, what happened before is seen here.
            if !self.is_crowded() {
                return;
            }
            room.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shut_gate_stays_shut_and_keeps_its_reason() {
        let gate = Gate::default();
        gate.shut(Error::fixed("ERR first"));
        gate.shut(Error::fixed("ERR second"));
        assert!(!gate.crowd() && !gate.recover() && !gate.fail(Error::fixed("ERR third")));
        assert_eq!(gate.refusal(), Some(Error::fixed("ERR first")));
    }

    #[tokio::test]
    async fn callers_wait_only_while_it_is_crowded() {
        let gate = std::sync::Arc::new(Gate::default());
        gate.room().await;
        for end in [Gate::relieve as fn(&Gate), |gate| {
            let _ = gate.fail(Error::fixed("MISCONF full"));
        }] {
            assert!(gate.crowd() && !gate.crowd());
            let waiting = tokio::spawn({
                let gate = gate.clone();
                async move { gate.room().await }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            end(&gate);
            waiting.await.unwrap();
        }
        assert!(gate.refusal().is_some() && gate.recover());
        assert!(gate.refusal().is_none());
    }
}
