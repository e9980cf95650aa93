//! Work in the background.
//!
//! Always true: it ends when nobody holds it any more, and what fails is told and tried again.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::error::Result;

/// A task that ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Does something again and again; `what` says what it is.
    pub(crate) fn each<T, F>(
        on: &Arc<T>,
        every: Duration,
        what: &'static str,
        work: fn(Arc<T>) -> F,
    ) -> Self
    where
        T: Send + Sync + 'static,
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let on = Arc::clone(on);
        Self::spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                told(what, &work(Arc::clone(&on)).await);
            }
        })
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Background work. Dropping it ends the work.
#[derive(Debug)]
#[must_use = "the work ends when it is dropped"]
pub struct Ticking(Vec<Task>);

impl Ticking {
    pub(crate) fn new(tasks: Vec<Task>) -> Self {
        Self(tasks)
    }

    /// This work and other work.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

/// Logs what could not be done.
pub(crate) fn told<T>(what: &str, done: &Result<T>) {
    match done {
        // The store itself says that it is away.
        Err(error) if error.is_away() => tracing::debug!(%error, "cannot {what}"),
        Err(error) => tracing::error!(?error, "cannot {what}"),
        Ok(_) => {}
    }
}
