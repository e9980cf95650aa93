//! How callers and the background thread talk to each other.
//!
//! Always true:
//! 1. A flush that was asked for is answered by an attempt that began after the question.
//! 2. `ended` is told after the folder's lock was given up.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// What the thread was asked for since it last looked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BackgroundRequests {
    /// The number of the last flush that was asked for.
    pub flush_number: u64,
    /// A flush is due at once.
    pub flush_now: bool,
    /// The end.
    pub stop: bool,
}

#[derive(Debug, Clone, Default)]
struct BackgroundProgress {
    /// The last asked flush that was tried.
    completed_flush_number: u64,
    /// Why the last attempt failed.
    last_error: Option<Arc<str>>,
    is_stopped: bool,
}

/// The two-way signal.
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

    /// Asks for a flush without waiting for it.
    pub fn request_flush(&self) {
        self.request(|wishes| wishes.flush_now = true);
    }

    /// Asks the thread to end.
    pub fn stop(&self) {
        self.request(|wishes| wishes.stop = true);
    }

    /// Asks for a flush and waits until it was tried.
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
        // The sender lives as long as `self`, so this ends in no other way.
        let _ = self
            .progress
            .subscribe()
            .wait_for(|progress| progress.is_stopped)
            .await;
    }

    /// Counts the batches that were made durable.
    pub fn flush_count(&self) -> watch::Receiver<u64> {
        self.flushes.subscribe()
    }

    /// Sleeps until something is wished for or it is time.
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

    /// Tells how the attempt for the flush `number` went.
    pub fn answer(&self, number: u64, failure: Option<Arc<str>>) {
        self.progress.send_modify(|progress| {
            progress.completed_flush_number = number;
            progress.last_error = failure;
        });
    }

    /// Tells that a batch is durable.
    pub fn count_flush(&self) {
        self.flushes.send_modify(|count| *count += 1);
    }

    /// Tells that the thread is about to end.
    pub fn end(&self) {
        self.progress
            .send_modify(|progress| progress.is_stopped = true);
    }
}
