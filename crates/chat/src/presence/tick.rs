//! The life of a node's presence: started, ticking, drained.

use std::sync::Arc;
use std::time::Duration;

use super::Presence;
use crate::error::Result;
use crate::nodes::Renewal;
use crate::ticking::{Task, Ticking, told};

/// How often beats are written, the lease is renewed and deadlines are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often watchers are told at most.
const WATCH_TICK: Duration = Duration::from_millis(100);

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
        Ticking::new(vec![
            Task::each(self, TICK, "renew the node's lease", |it| async move {
                it.renew().await
            }),
            Task::each(self, TICK, "write beats", |it| async move {
                // After a pause the lease comes first.
                match it.nodes.holds() {
                    true => it.flush_beats().await,
                    false => Ok(()),
                }
            }),
            Task::each(self, TICK, "look at deadlines", |it| async move {
                it.sweep().await.map(drop)
            }),
            Task::each(
                self,
                TICK,
                "end the devices of dead nodes",
                |it| async move { it.reap().await.map(drop) },
            ),
            Task::each(
                self,
                WATCH_TICK,
                "read what watchers missed",
                |it| async move { it.flush_watchers().await },
            ),
            Task::spawn(Arc::clone(self).hear_removals()),
        ])
    }

    /// The node is about to end: what waits is written, all its sockets are lost, so that they can come back elsewhere
    /// within the grace time, and the lease is given back. The ticking has to end before, or takes it again.
    pub async fn drain(&self) -> Result<()> {
        told("write beats", &self.flush_beats().await);
        self.lose_all().await?;
        self.nodes.resign().await
    }
}
