//! Background tasks.
//!
//! Invariants:
//! 1. A task stops when its [`BackgroundTask`] is dropped.
//! 2. A failure of periodic work is logged, and the work runs again after the next interval.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::api::error::{Error, Result};

/// A tokio task that is aborted when the value is dropped.
#[derive(Debug)]
pub(crate) struct BackgroundTask(JoinHandle<()>);

impl BackgroundTask {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Runs `work` once per interval and logs failures. `action` completes the log line "cannot …".
    pub(crate) fn spawn_periodic<T, F>(
        target: &Arc<T>,
        period: Duration,
        action: &'static str,
        work: fn(Arc<T>) -> F,
    ) -> Self
    where
        T: Send + Sync + 'static,
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let target = Arc::clone(target);
        Self::spawn(async move {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                log_failure(action, &work(Arc::clone(&target)).await);
            }
        })
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Running background tasks. Dropping the value stops them.
#[derive(Debug)]
#[must_use = "the tasks stop when the value is dropped"]
pub struct BackgroundTasks(Vec<BackgroundTask>);

impl BackgroundTasks {
    pub(crate) fn new(tasks: Vec<BackgroundTask>) -> Self {
        Self(tasks)
    }

    /// Joins several lists of tasks.
    pub(crate) fn merge(lists: impl IntoIterator<Item = Self>) -> Self {
        Self(lists.into_iter().flat_map(|list| list.0).collect())
    }
}

/// Logs a failure as "cannot `action`": as debug if store or database log the cause themselves, else as an error.
pub(crate) fn log_failure<T>(action: &str, result: &Result<T>) {
    match result {
        // The store logs its outage once, and the database that its disk is full.
        Err(error) if error.is_store_outage() || matches!(error, Error::DatabaseFull(_)) => {
            tracing::debug!(%error, "cannot {action}");
        }
        Err(error) => tracing::error!(?error, "cannot {action}"),
        Ok(_) => {}
    }
}
