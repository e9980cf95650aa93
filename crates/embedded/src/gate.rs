//! Whether writes are let through.
//!
//! Always true:
//! 1. Asking costs one atomic load while all is well.
//! 2. Only `crowded` makes callers wait; in every other state they get their answer at once, so reads always go on.
//! 3. A gate that was shut stays shut.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::CommandError;

const OPEN: u8 = 0;
const BACKPRESSURE: u8 = 1;
const DISK_FAILING: u8 = 2;
const CLOSED: u8 = 3;

/// The gate that every command passes.
#[derive(Default)]
pub(crate) struct WriteGate {
    state: AtomicU8,
    refusal: Mutex<Option<CommandError>>,
    wait_for_capacity: Notify,
}

impl WriteGate {
    /// Why a command that begins now may not write.
    pub fn refusal(&self) -> Option<CommandError> {
        match self.state.load(Ordering::Acquire) {
            OPEN | BACKPRESSURE => None,
            _ => self.refusal.lock().clone(),
        }
    }

    fn transition(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Makes callers wait. Whether they did not before.
    pub fn crowd(&self) -> bool {
        self.transition(OPEN, BACKPRESSURE)
    }

    /// Lets waiting callers go on.
    pub fn end_backpressure(&self) {
        if self.transition(BACKPRESSURE, OPEN) {
            self.wait_for_capacity.notify_waiters();
        }
    }

    /// Refuses writes for now. Whether they were let through before.
    pub fn reject_writes(&self, reason: CommandError) -> bool {
        let mut refusal = self.refusal.lock();
        if self.state.load(Ordering::Acquire) == CLOSED {
            return false;
        }
        *refusal = Some(reason);
        let changed =
            self.transition(OPEN, DISK_FAILING) || self.transition(BACKPRESSURE, DISK_FAILING);
        self.wait_for_capacity.notify_waiters();
        changed
    }

    /// Lets writes through again. Whether they were refused before.
    pub fn accept_writes(&self) -> bool {
        self.transition(DISK_FAILING, OPEN)
    }

    /// Refuses writes for good.
    pub fn close(&self, reason: CommandError) {
        let mut refusal = self.refusal.lock();
        if self.state.swap(CLOSED, Ordering::AcqRel) != CLOSED {
            *refusal = Some(reason);
        }
        self.wait_for_capacity.notify_waiters();
    }

    /// Whether writers have to wait.
    pub fn has_backpressure(&self) -> bool {
        self.state.load(Ordering::Acquire) == BACKPRESSURE
    }

    /// Waits while the gate is crowded.
    pub async fn capacity_available(&self) {
        while self.has_backpressure() {
            let room = self.wait_for_capacity.notified();
            // What happens after this line wakes it, what happened before is seen here.
            if !self.has_backpressure() {
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
        let gate = WriteGate::default();
        gate.close(CommandError::from_static("ERR first"));
        gate.close(CommandError::from_static("ERR second"));
        assert!(
            !gate.crowd()
                && !gate.accept_writes()
                && !gate.reject_writes(CommandError::from_static("ERR third"))
        );
        assert_eq!(gate.refusal(), Some(CommandError::from_static("ERR first")));
    }

    #[tokio::test]
    async fn writers_wait_only_while_the_journal_is_full() {
        let gate = std::sync::Arc::new(WriteGate::default());
        gate.capacity_available().await;
        for end in [WriteGate::end_backpressure as fn(&WriteGate), |gate| {
            let _ = gate.reject_writes(CommandError::from_static("MISCONF full"));
        }] {
            assert!(gate.crowd() && !gate.crowd());
            let waiting = tokio::spawn({
                let gate = gate.clone();
                async move { gate.capacity_available().await }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            end(&gate);
            waiting.await.unwrap();
        }
        assert!(gate.refusal().is_some() && gate.accept_writes());
        assert!(gate.refusal().is_none());
    }
}
