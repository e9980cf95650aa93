//! Background work that ends with its owner.
//!
//! Always true: a task of this crate is owned by a [`Tasks`], and is gone soon after that was dropped or ended.

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

    /// Ends all tasks.
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
