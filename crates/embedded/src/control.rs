//! Signals between callers and the background thread.
//!
//! Invariants:
//! 1. A flush request is answered by an attempt that began after the request.
//! 2. The thread reports that it has stopped only after it has released the folder lock.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// Requests to the background thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BackgroundRequests {
    /// Number of the last requested flush.
    pub flush_number: u64,
    /// A flush is due now.
    pub flush_now: bool,
    /// The thread has to end.
    pub stop: bool,
}

#[derive(Debug, Clone, Default)]
struct BackgroundProgress {
    /// Number of the last requested flush that was attempted.
    completed_flush_number: u64,
    /// Why the last attempt failed.
    last_error: Option<Arc<str>>,
    is_stopped: bool,
}

/// Requests to the background thread, and its progress.
pub(crate) struct BackgroundControl {
    requests: Mutex<BackgroundRequests>,
    request_arrived: Condvar,
    progress: watch::Sender<BackgroundProgress>,
    flushes: watch::Sender<u64>,
}

impl Default for BackgroundControl {
    fn default() -> Self {
        Self {
            requests: Mutex::default(),
            request_arrived: Condvar::new(),
            progress: watch::Sender::new(BackgroundProgress::default()),
            flushes: watch::Sender::new(0),
        }
    }
}

impl BackgroundControl {
    fn request(&self, change: impl FnOnce(&mut BackgroundRequests)) -> u64 {
        let mut wishes = self.requests.lock();
        change(&mut wishes);
        self.request_arrived.notify_one();
        wishes.flush_number
    }

    /// Requests a flush without waiting for it.
    pub fn request_flush(&self) {
        self.request(|wishes| wishes.flush_now = true);
    }

    /// Requests that the thread ends.
    pub fn stop(&self) {
        self.request(|wishes| wishes.stop = true);
    }

    /// Requests a flush and waits for the result of the attempt.
    pub async fn flush(&self) -> Result<(), Arc<str>> {
        let mut progress = self.progress.subscribe();
        let number = self.request(|wishes| {
            wishes.flush_number += 1;
            wishes.flush_now = true;
        });
        let answer = progress
            .wait_for(|progress| progress.completed_flush_number >= number || progress.is_stopped)
            .await;
        answer.map_or(Ok(()), |progress| {
            progress.last_error.clone().map_or(Ok(()), Err)
        })
    }

    /// Waits until the thread has ended.
    pub async fn wait_until_stopped(&self) {
        // `self` owns the sender, so `wait_for` ends only when the condition holds.
        let _ = self
            .progress
            .subscribe()
            .wait_for(|progress| progress.is_stopped)
            .await;
    }

    /// Watch of the number of completed flushes.
    pub fn flush_count(&self) -> watch::Receiver<u64> {
        self.flushes.subscribe()
    }

    /// Sleeps until a request arrives or `time` is reached.
    pub fn wait_for_request(&self, time: Instant) -> BackgroundRequests {
        let mut wishes = self.requests.lock();
        while !wishes.flush_now && !wishes.stop {
            if self
                .request_arrived
                .wait_until(&mut wishes, time)
                .timed_out()
            {
                break;
            }
        }
        let seen = *wishes;
        wishes.flush_now = false;
        seen
    }

    /// Reports the result of the attempt for the flush `number`.
    pub fn answer(&self, number: u64, failure: Option<Arc<str>>) {
        self.progress.send_modify(|progress| {
            progress.completed_flush_number = number;
            progress.last_error = failure;
        });
    }

    /// Counts a completed flush.
    pub fn count_flush(&self) {
        self.flushes.send_modify(|count| *count += 1);
    }

    /// Reports that the thread ends.
    pub fn end(&self) {
        self.progress
            .send_modify(|progress| progress.is_stopped = true);
    }
}
