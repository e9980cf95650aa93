//! Decides whether a command may write now, must wait, or is rejected.
//!
//! ```text
//! OPEN               -- start_backpressure --> BACKPRESSURE
//! BACKPRESSURE       -- end_backpressure   --> OPEN
//! OPEN, BACKPRESSURE -- reject_writes      --> DISK_FAILING
//! DISK_FAILING       -- accept_writes      --> OPEN
//! any state          -- close              --> CLOSED, which is final
//! ```
//!
//! Invariants:
//! 1. In OPEN and BACKPRESSURE the check of a command costs one atomic load.
//! 2. Only BACKPRESSURE makes a caller wait, and only a caller that may write. In DISK_FAILING and CLOSED a write gets
//!    an error at once. Reads never wait.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::CommandError;

const OPEN: u8 = 0;
const BACKPRESSURE: u8 = 1;
const DISK_FAILING: u8 = 2;
const CLOSED: u8 = 3;

/// Gate that every command passes before it runs.
#[derive(Default)]
pub(crate) struct WriteGate {
    state: AtomicU8,
    refusal: Mutex<Option<CommandError>>,
    wait_for_capacity: Notify,
}

impl WriteGate {
    /// Error that the writes of a command get that starts now, if any.
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

    /// Starts backpressure. Returns whether the gate was open before.
    pub fn crowd(&self) -> bool {
        self.transition(OPEN, BACKPRESSURE)
    }

    /// Ends backpressure and wakes the waiting writers.
    pub fn end_backpressure(&self) {
        if self.transition(BACKPRESSURE, OPEN) {
            self.wait_for_capacity.notify_waiters();
        }
    }

    /// Rejects writes with `reason` until the disk works again. Returns whether writes were accepted before.
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

    /// Accepts writes again. Returns whether the disk was failing before.
    pub fn accept_writes(&self) -> bool {
        self.transition(DISK_FAILING, OPEN)
    }

    /// Rejects writes for good. The first call determines the error.
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

    /// Waits while there is backpressure.
    pub async fn capacity_available(&self) {
        while self.has_backpressure() {
            let room = self.wait_for_capacity.notified();
            // `Notified` receives every `notify_waiters` from its creation on. A change before the second check is seen
            // by that check, a change after it wakes this future.
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
