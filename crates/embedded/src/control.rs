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
pub(crate) struct Wishes {
    /// The number of the last flush that was asked for.
    pub flush: u64,
    /// A flush is due at once.
    pub hurry: bool,
    /// The end.
    pub stop: bool,
}

#[derive(Debug, Clone, Default)]
struct Progress {
    /// The last asked flush that was tried.
    answered: u64,
    /// Why the last attempt failed.
    failure: Option<Arc<str>>,
    ended: bool,
}

/// The two-way signal.
pub(crate) struct Control {
    wishes: Mutex<Wishes>,
    wished: Condvar,
    progress: watch::Sender<Progress>,
    flushes: watch::Sender<u64>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            wishes: Mutex::default(),
            wished: Condvar::new(),
            progress: watch::Sender::new(Progress::default()),
            flushes: watch::Sender::new(0),
        }
    }
}

impl Control {
    fn wish(&self, change: impl FnOnce(&mut Wishes)) -> u64 {
        let mut wishes = self.wishes.lock();
        change(&mut wishes);
        self.wished.notify_one();
        wishes.flush
    }

    /// Asks for a flush without waiting for it.
    pub fn hurry(&self) {
        self.wish(|wishes| wishes.hurry = true);
    }

    /// Asks the thread to end.
    pub fn stop(&self) {
        self.wish(|wishes| wishes.stop = true);
    }

    /// Asks for a flush and waits until it was tried.
    pub async fn flush(&self) -> Result<(), Arc<str>> {
        let mut progress = self.progress.subscribe();
        let number = self.wish(|wishes| {
            wishes.flush += 1;
            wishes.hurry = true;
        });
        let answer = progress
            .wait_for(|progress| progress.answered >= number || progress.ended)
            .await;
        answer.map_or(Ok(()), |progress| {
            progress.failure.clone().map_or(Ok(()), Err)
        })
    }

    /// Waits until the thread has ended.
    pub async fn ended(&self) {
        // The sender lives as long as `self`, so this ends in no other way.
        let _ = self
            .progress
            .subscribe()
            .wait_for(|progress| progress.ended)
            .await;
    }

    /// Counts the batches that were made durable.
    pub fn flushes(&self) -> watch::Receiver<u64> {
        self.flushes.subscribe()
    }

    /// Sleeps until something is wished for or it is time.
    pub fn sleep_until(&self, time: Instant) -> Wishes {
        let mut wishes = self.wishes.lock();
        while !wishes.hurry && !wishes.stop {
            if self.wished.wait_until(&mut wishes, time).timed_out() {
                break;
            }
        }
        let seen = *wishes;
        wishes.hurry = false;
        seen
    }

    /// Tells how the attempt for the flush `number` went.
    pub fn answer(&self, number: u64, failure: Option<Arc<str>>) {
        self.progress.send_modify(|progress| {
            progress.answered = number;
            progress.failure = failure;
        });
    }

    /// Tells that a batch is durable.
    pub fn flushed(&self) {
        self.flushes.send_modify(|count| *count += 1);
    }

    /// Tells that the thread is about to end.
    pub fn end(&self) {
        self.progress.send_modify(|progress| progress.ended = true);
    }
}
