//! The life of a node's presence: started, ticking, drained. The one file here that waits for time to pass.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::Presence;
use crate::error::Result;
use crate::nodes::Renewal;

/// How often beats are written, the lease is renewed and deadlines are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often watchers are told at most.
const WATCH_TICK: Duration = Duration::from_millis(100);

/// The background work of presence. Dropping it ends the work.
#[derive(Debug)]
#[must_use = "the work ends when it is dropped"]
pub struct Ticking(Vec<JoinHandle<()>>);

impl Drop for Ticking {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

impl Presence {
    /// Takes the node's lease. Nothing may connect before.
    pub async fn start(&self) -> Result<()> {
        self.nodes.register().await?;
        let epoch = *self.ctx.store().epoch().borrow();
        self.local.lock().is_new_epoch(epoch);
        *self.started.lock() = Some(self.ctx.now());
        Ok(())
    }

    /// Renews the node's lease. If it was lost, others may have ended the devices here, and if the store's epoch changed,
    /// it may have forgotten them: all sockets are registered again, in random order, before they beat.
    pub async fn renew(&self) -> Result<()> {
        let renewal = self.nodes.renew().await?;
        let epoch = *self.ctx.store().epoch().borrow();
        let mut local = self.local.lock();
        if local.is_new_epoch(epoch) || renewal == Renewal::Lost {
            local.owe_all();
        }
        Ok(())
    }

    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> Ticking {
        let beating = Arc::clone(self);
        let judging = Arc::clone(self);
        let watching = Arc::clone(self);
        Ticking(vec![
            tokio::spawn(async move {
                let mut tick = ticks(TICK);
                loop {
                    tick.tick().await;
                    let done = beating.renew().await;
                    told("renew the node's lease", &done);
                    if done.is_ok() {
                        told("write beats", &beating.flush_beats().await);
                    }
                }
            }),
            // Apart from the beats: ending a large node must not end this one's lease.
            tokio::spawn(async move {
                let mut tick = ticks(TICK);
                loop {
                    tick.tick().await;
                    told("look at deadlines", &judging.sweep().await);
                    told("end the devices of dead nodes", &judging.reap().await);
                }
            }),
            tokio::spawn(async move {
                let mut tick = ticks(WATCH_TICK);
                loop {
                    tick.tick().await;
                    told(
                        "read what watchers missed",
                        &watching.flush_watchers().await,
                    );
                }
            }),
        ])
    }

    /// The node is about to end: all its sockets are lost, so that they can come back elsewhere within the grace time, and
    /// the lease is given back. The ticking has to end before, or takes it again.
    pub async fn drain(&self) -> Result<()> {
        self.lose_all().await?;
        self.nodes.resign().await
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn told<T>(what: &str, done: &Result<T>) {
    match done {
        // The store itself says that it is away.
        Err(error) if error.is_away() => tracing::debug!(%error, "cannot {what}"),
        Err(error) => tracing::error!(?error, "cannot {what}"),
        Ok(_) => {}
    }
}
