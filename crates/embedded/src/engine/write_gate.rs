//! Decides whether a command may write now, must wait, or is rejected.
//!
//! ```text
//! OPEN                       -- start_backpressure --> BACKPRESSURE
//! BACKPRESSURE, DISK_HANGING -- end_backpressure   --> OPEN
//! BACKPRESSURE               -- a wait is too long --> DISK_HANGING
//! any but CLOSED             -- reject_writes      --> DISK_FAILING
//! DISK_FAILING               -- accept_writes      --> OPEN
//! any state                  -- close              --> CLOSED, which is final
//! ```
//!
//! Invariants:
//! 1. In OPEN and BACKPRESSURE the check of a command costs one atomic load.
//! 2. Only BACKPRESSURE makes a caller wait, only a caller that may write, and at most for the limit that the caller
//!    names. In the other states a write gets an error at once. Reads never wait.
//! 3. DISK_FAILING and DISK_HANGING accept a write that may be deferred. CLOSED accepts none.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::error::CommandError;

const OPEN: u8 = 0;
const BACKPRESSURE: u8 = 1;
const DISK_FAILING: u8 = 2;
const CLOSED: u8 = 3;
const DISK_HANGING: u8 = 4;

/// The code says that a later attempt may succeed.
pub(crate) const DISK_HANGS: CommandError = CommandError::from_static(
    "TRYAGAIN the disk of the data folder does not answer; writes are rejected until it does, reads still work",
);

/// Gate that every command passes before it runs.
#[derive(Default)]
pub(crate) struct WriteGate {
    state: AtomicU8,
    write_error: Mutex<Option<CommandError>>,
    capacity_available: Notify,
}

impl WriteGate {
    /// Error that the writes of a command get that starts now, if any. A write that may be deferred need not reach the disk
    /// soon.
    pub fn write_error(&self, may_defer: impl Fn() -> bool) -> Option<CommandError> {
        match self.state.load(Ordering::Acquire) {
            OPEN | BACKPRESSURE => None,
            DISK_FAILING | DISK_HANGING if may_defer() => None,
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
        } else if self.transition(DISK_HANGING, OPEN) {
            tracing::info!("the disk of the data folder answers again, writes are accepted");
        }
    }

    /// Rejects writes until the running flush ends, because a writer has waited for too long.
    fn report_hanging_disk(&self) {
        let mut write_error = self.write_error.lock();
        if self.transition(BACKPRESSURE, DISK_HANGING) {
            *write_error = Some(DISK_HANGS);
            tracing::error!(
                "the disk of the data folder does not answer, writes are rejected until it does"
            );
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
        let changed = [OPEN, BACKPRESSURE, DISK_HANGING]
            .into_iter()
            .any(|from| self.transition(from, DISK_FAILING));
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

    /// Waits while there is backpressure. If that takes longer than `limit`, the disk hangs, and writes are rejected.
    pub async fn wait_for_capacity(&self, limit: Duration) {
        if timeout(limit, self.wait_until_capacity()).await.is_err() {
            self.report_hanging_disk();
        }
    }

    async fn wait_until_capacity(&self) {
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
            gate.write_error(|| true),
            Some(CommandError::from_static("ERR first"))
        );
    }

    #[tokio::test]
    async fn callers_wait_only_under_backpressure() {
        let gate = std::sync::Arc::new(WriteGate::default());
        gate.wait_for_capacity(Duration::MAX).await;
        for end in [WriteGate::end_backpressure as fn(&WriteGate), |gate| {
            let _ = gate.reject_writes(CommandError::from_static("MISCONF full"));
        }] {
            assert!(gate.start_backpressure() && !gate.start_backpressure());
            let waiting = tokio::spawn({
                let gate = gate.clone();
                async move { gate.wait_for_capacity(Duration::MAX).await }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            end(&gate);
            waiting.await.unwrap();
        }
        assert!(gate.write_error(|| false).is_some() && gate.write_error(|| true).is_none());
        assert!(gate.accept_writes());
        assert!(gate.write_error(|| false).is_none());
    }

    #[tokio::test]
    async fn a_wait_that_takes_too_long_rejects_writes_until_the_flush_ends() {
        let gate = WriteGate::default();
        assert!(gate.start_backpressure());
        gate.wait_for_capacity(Duration::from_millis(1)).await;
        assert_eq!(gate.write_error(|| false), Some(DISK_HANGS));
        assert_eq!(gate.write_error(|| true), None);
        // No further writer waits.
        gate.wait_for_capacity(Duration::MAX).await;
        gate.end_backpressure();
        assert_eq!(gate.write_error(|| false), None);
    }
}
