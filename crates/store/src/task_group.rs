//! Background tasks that end with their owner.
//!
//! Invariants:
//! 1. A [`TaskGroup`] owns every task of this crate and aborts its tasks on drop and in `abort_all`.

use std::future::Future;

use parking_lot::Mutex;
use tokio::task::JoinSet;

/// Running tasks, aborted on drop.
#[derive(Default)]
pub(crate) struct TaskGroup(Mutex<JoinSet<()>>);

impl TaskGroup {
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    pub(crate) fn abort_all(&self) {
        self.0.lock().abort_all();
    }
}
