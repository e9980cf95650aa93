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
    write_error: Mutex<Option<CommandError>>,
    capacity_available: Notify,
}

impl WriteGate {
    /// Error that the writes of a command get that starts now, if any.
    pub fn write_error(&self) -> Option<CommandError> {
        match self.state.load(Ordering::Acquire) {
            OPEN | BACKPRESSURE => None,
            _ => self.write_error.lock().clone(),
        }
    }

    fn transition(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Starts backpressure. Returns whether the gate was open before.
    pub fn start_backpressure(&self) -> bool {
        self.transition(OPEN, BACKPRESSURE)
    }

    /// Ends backpressure and wakes the waiting writers.
    pub fn end_backpressure(&self) {
        if self.transition(BACKPRESSURE, OPEN) {
            self.capacity_available.notify_waiters();
        }
    }

    /// Rejects writes with `reason` until the disk works again. Returns whether writes were accepted before.
    pub fn reject_writes(&self, reason: CommandError) -> bool {
        let mut write_error = self.write_error.lock();
        if self.state.load(Ordering::Acquire) == CLOSED {
            return false;
        }
        *write_error = Some(reason);
        let changed =
            self.transition(OPEN, DISK_FAILING) || self.transition(BACKPRESSURE, DISK_FAILING);
        self.capacity_available.notify_waiters();
        changed
    }

    /// Accepts writes again. Returns whether the disk was failing before.
    pub fn accept_writes(&self) -> bool {
        self.transition(DISK_FAILING, OPEN)
    }

    /// Rejects writes for good. The first call determines the error.
    pub fn close(&self, reason: CommandError) {
        let mut write_error = self.write_error.lock();
        if self.state.swap(CLOSED, Ordering::AcqRel) != CLOSED {
            *write_error = Some(reason);
        }
        self.capacity_available.notify_waiters();
    }

    pub fn has_backpressure(&self) -> bool {
        self.state.load(Ordering::Acquire) == BACKPRESSURE
    }

    pub async fn wait_for_capacity(&self) {
        while self.has_backpressure() {
            let woken = self.capacity_available.notified();
            // `Notified` receives every `notify_waiters` from its creation on. A change before the second check is seen
            // by that check, a change after it wakes this future.
            if !self.has_backpressure() {
                return;
            }
            woken.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_stays_closed_and_keeps_its_first_error() {
        let gate = WriteGate::default();
        gate.close(CommandError::from_static("ERR first"));
        gate.close(CommandError::from_static("ERR second"));
        assert!(
            !gate.start_backpressure()
                && !gate.accept_writes()
                && !gate.reject_writes(CommandError::from_static("ERR third"))
        );
        assert_eq!(
            gate.write_error(),
            Some(CommandError::from_static("ERR first"))
        );
    }

    #[tokio::test]
    async fn callers_wait_only_under_backpressure() {
        let gate = std::sync::Arc::new(WriteGate::default());
        gate.wait_for_capacity().await;
        for end in [WriteGate::end_backpressure as fn(&WriteGate), |gate| {
            let _ = gate.reject_writes(CommandError::from_static("MISCONF full"));
        }] {
            assert!(gate.start_backpressure() && !gate.start_backpressure());
            let waiting = tokio::spawn({
                let gate = gate.clone();
                async move { gate.wait_for_capacity().await }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            end(&gate);
            waiting.await.unwrap();
        }
        assert!(gate.write_error().is_some() && gate.accept_writes());
        assert!(gate.write_error().is_none());
    }
}
