//! Background tasks that end with their owner.
//!
//! Invariants:
//! 1. A [`BackgroundTasks`] owns every task of this crate and aborts its tasks on drop and in `abort_all`.

use std::future::Future;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// Running tasks, aborted on drop.
#[derive(Default)]
pub(crate) struct BackgroundTasks(Mutex<Vec<JoinHandle<()>>>);

impl BackgroundTasks {
    /// Starts a task.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(work));
    }

    /// Aborts all tasks.
    pub(crate) fn abort_all(&self) {
        for task in self.0.lock().drain(..) {
            task.abort();
        }
    }
}

impl Drop for BackgroundTasks {
    fn drop(&mut self) {
        self.abort_all();
    }
}
