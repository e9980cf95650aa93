//! The life of a node's presence: started, ticking, drained.

use std::sync::Arc;
use std::time::Duration;

use super::Presence;
use crate::error::Result;
use crate::nodes::LeaseRenewal;
use crate::ticking::{BackgroundTask, BackgroundTasks, log_failure};

/// How often beats are written, the lease is renewed and deadlines are looked at.
const BACKGROUND_INTERVAL: Duration = Duration::from_secs(1);
/// How often watchers are told at most.
const WATCH_FLUSH_INTERVAL: Duration = Duration::from_millis(100);

impl Presence {
    /// Takes the node's lease. Nothing may connect before.
    pub async fn start(&self) -> Result<()> {
        self.local_node.register().await?;
        let epoch = *self.ctx.store().epoch().borrow();
        self.devices.lock().update_store_epoch(epoch);
        *self.started_at.lock() = Some(self.ctx.now());
        Ok(())
    }

    /// Renews the node's lease. If it was lost, others may have ended the devices here, and if the store's epoch changed,
    /// it may have forgotten them: all sockets are registered again, in random order, before they beat.
    pub async fn renew(&self) -> Result<()> {
        let renewal = self.local_node.renew().await?;
        let epoch = *self.ctx.store().epoch().borrow();
        let mut local = self.devices.lock();
        if local.update_store_epoch(epoch) || renewal == LeaseRenewal::Lost {
            local.queue_all_registrations();
        }
        Ok(())
    }

    /// Starts the background work. None of it waits for another: neither a long list of sockets to be registered nor a large
    /// node to be ended may cost this one its lease, or others their announcement.
    pub fn tick(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![
            BackgroundTask::spawn_periodic(
                self,
                BACKGROUND_INTERVAL,
                "renew the node's lease",
                |it| async move { it.renew().await },
            ),
            BackgroundTask::spawn_periodic(
                self,
                BACKGROUND_INTERVAL,
                "flush heartbeats",
                |it| async move {
                    // After a pause the lease comes first.
                    match it.local_node.holds_lease() {
                        true => it.flush_heartbeats().await,
                        false => Ok(()),
                    }
                },
            ),
            BackgroundTask::spawn_periodic(
                self,
                BACKGROUND_INTERVAL,
                "expire overdue devices",
                |it| async move { it.sweep().await.map(drop) },
            ),
            BackgroundTask::spawn_periodic(
                self,
                BACKGROUND_INTERVAL,
                "remove the devices of dead nodes",
                |it| async move { it.reap_dead_nodes().await.map(drop) },
            ),
            BackgroundTask::spawn_periodic(
                self,
                WATCH_FLUSH_INTERVAL,
                "read statuses that watchers missed",
                |it| async move { it.flush_watchers().await },
            ),
            BackgroundTask::spawn(Arc::clone(self).listen_for_removed_devices()),
        ])
    }

    /// The node is about to end: what waits is written, all its sockets are lost, so that they can come back elsewhere
    /// within the grace time, and the lease is given back. The ticking has to end before, or takes it again.
    pub async fn drain(&self) -> Result<()> {
        log_failure("flush heartbeats", &self.flush_heartbeats().await);
        self.all_connections_lost().await?;
        self.local_node.release_lease().await
    }
}
