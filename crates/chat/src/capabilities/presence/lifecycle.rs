//! Lifecycle of a node's presence: start, lease renewal, background tasks, drain.

use std::sync::Arc;
use std::time::Duration;

use super::layouts::LIMIT_UNATTENDED_KEYS;
use super::script_call::{PresenceScriptArgs, query_each};
use super::{Presence, PreviousRun};
use crate::api::error::Result;
use crate::background::{BackgroundTask, BackgroundTasks, log_failure};
use crate::clock::duration_millis;
use crate::ids::{DeadlineShard, UserId};
use crate::keys::{PresenceLayout, TtlName};
use crate::nodes::LeaseRenewal;

/// Users per page and pipeline.
const USERS_PER_PAGE: usize = 500;
/// Interval of the background tasks.
const BACKGROUND_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between two notifications of a watcher.
const WATCH_FLUSH_INTERVAL: Duration = Duration::from_millis(100);

impl Presence {
    /// Takes the node's lease. No device may connect before.
    pub async fn start(&self) -> Result<()> {
        self.load_version_floor().await?;
        self.local_node.acquire_lease().await?;
        let epoch = self.ctx.store_epoch();
        self.devices.lock().update_store_epoch(epoch);
        let grace_end = self
            .ctx
            .now()
            .saturating_add(self.local_node.grace_period());
        *self.previous_run.lock() = PreviousRun::ReapAfter(grace_end);
        Ok(())
    }

    /// Renews the node's lease. If the lease was lost, other nodes may have removed the devices of this node; if the
    /// store epoch changed, the store may have lost them. In both cases all sockets are queued for registration, in
    /// random order, and their heartbeats wait for it.
    pub async fn renew_lease(&self) -> Result<()> {
        let renewal = self.local_node.renew_lease().await?;
        let epoch = self.ctx.store_epoch();
        let mut local = self.devices.lock();
        if local.update_store_epoch(epoch) || renewal == LeaseRenewal::Lost {
            local.queue_all_registrations();
        }
        Ok(())
    }

    /// Starts the background tasks. The tasks run independently: neither a long registration queue nor a large dead
    /// node may delay the lease renewal of this node or the expiry of other devices.
    pub fn start_background_tasks(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![
            BackgroundTask::spawn_periodic(
                self,
                BACKGROUND_INTERVAL,
                "renew the node's lease",
                |it| async move { it.renew_lease().await },
            ),
            BackgroundTask::spawn_periodic(
                self,
                BACKGROUND_INTERVAL,
                "flush heartbeats",
                |it| async move {
                    // After a pause of the process, the lease must be renewed first.
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
                |it| async move { it.reap_dead_nodes().await },
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

    /// Prepares the end of the process: writes the buffers, marks all connections of this node as lost, so that the
    /// clients can reconnect elsewhere within the grace period, and releases the lease. The background tasks must have
    /// ended before; otherwise they take the lease again.
    pub async fn drain(&self) -> Result<()> {
        log_failure("flush heartbeats", &self.flush_heartbeats().await);
        self.all_connections_lost().await?;
        self.local_node.release_lease().await?;
        if self.local_node.is_last().await? {
            self.limit_unattended_keys().await?;
        }
        Ok(())
    }

    /// Lets the keys that have no TTL and say that a user is online expire: no node is left to correct them. The next node
    /// that starts writes them without a TTL again.
    async fn limit_unattended_keys(&self) -> Result<()> {
        let keys = self.ctx.keys();
        if keys.settings().layouts.presence != PresenceLayout::Sockets {
            return Ok(());
        }
        let left = keys.ttl(TtlName::NodeLease) + self.local_node.grace_period();
        let store = self.ctx.store().idempotent();
        for shard in DeadlineShard::all() {
            let mut range = redis::cmd("ZRANGE");
            range.arg(keys.presence_deadlines(shard)).arg(0).arg(-1);
            let users: Vec<UserId> = range.query_async(&mut store.clone()).await?;
            for page in users.chunks(USERS_PER_PAGE) {
                let args = PresenceScriptArgs::new(&self.ctx);
                let mut pipe = redis::pipe();
                for user in page {
                    let call = args.call_script(&LIMIT_UNATTENDED_KEYS, user);
                    pipe.add_command(call.arg(duration_millis(left)).cmd());
                }
                query_each::<u8>(store.clone(), &mut pipe).await?;
            }
        }
        Ok(())
    }
}
