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

    /// Starts the background work. None of it waits for another: neither a long list of sockets to be registered nor a large
    /// node to be ended may cost this one its lease, or others their announcement.
    pub fn tick(self: &Arc<Self>) -> Ticking {
        Ticking(vec![
            self.each(TICK, "renew the node's lease", |it| async move {
                it.renew().await
            }),
            self.each(TICK, "write beats", |it| async move {
                // After a pause the lease comes first.
                match it.nodes.holds() {
                    true => it.flush_beats().await,
                    false => Ok(()),
                }
            }),
            self.each(TICK, "look at deadlines", |it| async move {
                it.sweep().await.map(drop)
            }),
            self.each(TICK, "end the devices of dead nodes", |it| async move {
                it.reap().await.map(drop)
            }),
            self.each(WATCH_TICK, "read what watchers missed", |it| async move {
                it.flush_watchers().await
            }),
            tokio::spawn(Arc::clone(self).hear_removals()),
        ])
    }

    fn each<F>(
        self: &Arc<Self>,
        every: Duration,
        what: &'static str,
        work: fn(Arc<Self>) -> F,
    ) -> JoinHandle<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let presence = Arc::clone(self);
        tokio::spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                told(what, &work(Arc::clone(&presence)).await);
            }
        })
    }

    /// The node is about to end: what waits is written, all its sockets are lost, so that they can come back elsewhere
    /// within the grace time, and the lease is given back. The ticking has to end before, or takes it again.
    pub async fn drain(&self) -> Result<()> {
        told("write beats", &self.flush_beats().await);
        self.lose_all().await?;
        self.nodes.resign().await
    }
}

pub(super) fn told<T>(what: &str, done: &Result<T>) {
    match done {
        // The store itself says that it is away.
        Err(error) if error.is_away() => tracing::debug!(%error, "cannot {what}"),
        Err(error) => tracing::error!(?error, "cannot {what}"),
        Ok(_) => {}
    }
}
