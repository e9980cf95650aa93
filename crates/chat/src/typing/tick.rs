//! The background work of typing. The one file here that waits for time to pass.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Typing;

/// How often listeners are told whose typing has ended.
const TICK: Duration = Duration::from_millis(100);
/// Ticks between two cleanings of the throttle: 5 minutes.
const CLEAN_EVERY: u32 = 3_000;

/// A task that ends when it is dropped.
#[derive(Debug)]
pub(super) struct Task(JoinHandle<()>);

impl Task {
    pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The background work of typing. Dropping it ends the work.
#[derive(Debug)]
#[must_use = "the work ends when it is dropped"]
pub struct Ticking {
    _tasks: [Task; 2],
}

impl Typing {
    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> Ticking {
        let ending = Arc::clone(self);
        let reading = Arc::clone(self);
        Ticking {
            _tasks: [
                Task::spawn(async move { ending.end_for_ever().await }),
                // Apart: ends are told on time also while the store does not answer.
                Task::spawn(async move { reading.read_for_ever().await }),
            ],
        }
    }

    async fn end_for_ever(&self) {
        let mut ticks = ticks();
        loop {
            for _ in 0..CLEAN_EVERY {
                ticks.tick().await;
                self.hub.end_due();
            }
            self.clean();
        }
    }

    async fn read_for_ever(&self) {
        let mut ticks = ticks();
        loop {
            ticks.tick().await;
            match self.hub.read_missed().await {
                // The store itself says that it is away.
                Err(error) if error.is_away() => tracing::debug!(%error, "cannot read who types"),
                Err(error) => tracing::error!(?error, "cannot read who types"),
                Ok(()) => {}
            }
        }
    }
}

fn ticks() -> Interval {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
