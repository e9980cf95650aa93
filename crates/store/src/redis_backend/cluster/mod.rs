//! The Cluster backend: one pool per primary, found by slot.
//!
//! The redis crate's own cluster connection is not used: it retries requests whatever they do, rejects pipelines that
//! span slots, and never leaves a primary that hangs.
//!
//! Invariants:
//! 1. Each primary has its own pool and breaker, so a dead primary affects only its own slots.
//! 2. The topology is refreshed every two seconds, and at once when a node redirects, fails or does not answer. The
//!    refresh uses a node that answers.

mod epoch;
pub(crate) mod routing;
pub(crate) mod topology;
mod topology_refresh;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use parking_lot::Mutex;
use redis::{ErrorKind, RedisResult};
use tokio::sync::{Notify, watch};

use self::epoch::ClusterPoolOwner;
use self::routing::{CommandRoute, key_hash_slot};
use self::topology::Topology;
use super::connector::ServerConnector;
use super::primary_pool::{PrimaryPool, PrimaryPoolOwner, PrimaryPoolTarget};
use super::retry::AttemptError;
use crate::health::StoreShared;
use crate::task_group::TaskGroup;
use crate::url::ServerAddress;

/// A cluster, with the task that refreshes its topology.
pub(crate) struct ClusterBackend {
    core: Arc<ClusterInner>,
    tasks: TaskGroup,
}

pub(crate) struct ClusterInner {
    connector: ServerConnector,
    shared: Arc<StoreShared>,
    seeds: Vec<ServerAddress>,
    pools: ArcSwap<ClusterPools>,
    /// Pools of nodes that a redirection named before the topology did, with the time of their last use.
    redirect_pools: Mutex<HashMap<ServerAddress, (Arc<PrimaryPool>, Instant)>>,
    pool_owner: Arc<ClusterPoolOwner>,
    refresh_requested: Notify,
    topology_version: watch::Sender<u64>,
    /// Counter for all round-robin choices.
    round_robin: AtomicUsize,
    /// Origin that the epoch was reconciled for. Locked during a reconcile, so that an older view never follows a newer
    /// one.
    reconciled_origin: tokio::sync::Mutex<String>,
}

#[derive(Default)]
struct ClusterPools {
    topology: Topology,
    /// Pools of `topology.primaries`, in the same order.
    pools: Vec<Arc<PrimaryPool>>,
}

impl ClusterPools {
    fn pool_of(&self, address: &ServerAddress) -> Option<&Arc<PrimaryPool>> {
        let mut primaries = self.topology.primaries.iter();
        let index = primaries.position(|primary| primary == address)?;
        self.pools.get(index)
    }
}

impl ClusterBackend {
    pub(crate) async fn open(
        connector: ServerConnector,
        shared: Arc<StoreShared>,
        seeds: Vec<ServerAddress>,
    ) -> RedisResult<Self> {
        let core = Arc::new_cyclic(|core: &Weak<ClusterInner>| ClusterInner {
            connector,
            shared,
            seeds,
            pools: ArcSwap::default(),
            redirect_pools: Mutex::default(),
            pool_owner: Arc::new(ClusterPoolOwner::new(core.clone())),
            refresh_requested: Notify::new(),
            topology_version: watch::Sender::new(0),
            round_robin: AtomicUsize::new(0),
            reconciled_origin: tokio::sync::Mutex::default(),
        });
        let topology = core.query_nodes(&core.seeds).await?;
        if topology.primaries.is_empty() {
            let detail = "no slots are assigned: create the cluster first".to_owned();
            return Err((ErrorKind::Client, "empty cluster", detail).into());
        }
        let opening = topology.primaries.iter().map(|primary| {
            let target = PrimaryPoolTarget::Address(primary.clone());
            PrimaryPool::open(
                target,
                core.connector.clone(),
                Arc::clone(&core.shared),
                core.as_pool_owner(),
            )
        });
        let pools = join_all(opening)
            .await
            .into_iter()
            .map(|pool| pool.map(Arc::new));
        let pools = pools.collect::<RedisResult<Vec<_>>>()?;
        core.pools.store(Arc::new(ClusterPools { topology, pools }));
        core.reconcile_epoch(None).await?;
        let tasks = TaskGroup::default();
        tasks.spawn(topology_refresh::refresh_topology_loop(Arc::clone(&core)));
        Ok(Self { core, tasks })
    }

    pub(crate) fn core(&self) -> &Arc<ClusterInner> {
        &self.core
    }

    /// Pool of the primary that owns a slot.
    pub(crate) fn pool_for_slot(&self, slot: u16) -> Result<Arc<PrimaryPool>, AttemptError> {
        let cluster = self.core.pools.load();
        let owner = cluster.topology.owner_of(slot);
        let pool = owner.and_then(|owner| cluster.pools.get(owner)).cloned();
        pool.ok_or_else(|| {
            self.core.request_refresh();
            let detail = format!("no primary serves slot {slot}");
            AttemptError::before_send((ErrorKind::Io, "store unavailable", detail).into())
        })
    }

    /// Pool for a route. A route without a slot gets a primary that is ready, round robin.
    pub(crate) fn pool_for_route(
        &self,
        route: CommandRoute,
    ) -> Result<Arc<PrimaryPool>, AttemptError> {
        match route {
            CommandRoute::Slot(slot) => self.pool_for_slot(slot),
            CommandRoute::AnyPrimary | CommandRoute::AllPrimaries(_) => {
                let pools = self.all_pools();
                let first = self.core.round_robin.fetch_add(1, Ordering::Relaxed);
                let in_turn = (0..pools.len()).map(|step| &pools[(first + step) % pools.len()]);
                let ready = in_turn
                    .clone()
                    .find(|pool| pool.is_ready())
                    .or(pools.first())
                    .cloned();
                ready.ok_or_else(|| {
                    AttemptError::before_send((ErrorKind::Io, "store unavailable").into())
                })
            }
        }
    }

    /// Pool of a node that a redirection named.
    pub(crate) fn pool_for_address(&self, node: &ServerAddress) -> Arc<PrimaryPool> {
        if let Some(pool) = self.core.pools.load().pool_of(node) {
            return Arc::clone(pool);
        }
        let now = Instant::now();
        let mut redirect_pools = self.core.redirect_pools.lock();
        let (pool, used) = redirect_pools
            .entry(node.clone())
            .or_insert_with(|| (self.core.open_pool(node), now));
        *used = now;
        Arc::clone(pool)
    }

    pub(crate) fn all_pools(&self) -> Vec<Arc<PrimaryPool>> {
        self.core.pools.load().pools.clone()
    }

    /// Stops the topology task and closes the pools that only redirections named.
    pub(crate) fn close(&self) {
        self.tasks.abort_all();
        self.core.redirect_pools.lock().clear();
    }
}

impl ClusterInner {
    /// Watch of the topology version, which rises with each change.
    pub(crate) fn watch_topology(&self) -> watch::Receiver<u64> {
        self.topology_version.subscribe()
    }

    pub(crate) fn connector(&self) -> &ServerConnector {
        &self.connector
    }

    /// Requests a refresh, because the topology may have changed.
    pub(crate) fn request_refresh(&self) {
        self.refresh_requested.notify_one();
    }

    /// Primary that owns the slot of a channel or key.
    pub(crate) fn slot_owner(&self, channel: &[u8]) -> Option<ServerAddress> {
        let cluster = self.pools.load();
        let owner = cluster.topology.owner_of(key_hash_slot(channel))?;
        cluster.topology.primaries.get(owner).cloned()
    }

    pub(crate) fn is_primary(&self, server: &ServerAddress) -> bool {
        self.pools.load().topology.primaries.contains(server)
    }

    /// Any primary, if possible one that is ready.
    pub(crate) fn any_primary(&self) -> Option<ServerAddress> {
        let cluster = self.pools.load();
        let ready = cluster
            .pools
            .iter()
            .position(|pool| pool.is_ready())
            .unwrap_or(0);
        cluster.topology.primaries.get(ready).cloned()
    }

    /// Whether all connected primaries support sharded pub/sub.
    pub(crate) fn supports_sharded_pubsub(&self) -> bool {
        self.pools.load().pools.iter().all(|pool| {
            pool.primary()
                .borrow()
                .as_ref()
                .is_none_or(|conn| conn.info.supports_sharded_pubsub)
        })
    }

    fn as_pool_owner(&self) -> Arc<dyn PrimaryPoolOwner> {
        Arc::clone(&self.pool_owner) as Arc<dyn PrimaryPoolOwner>
    }

    fn open_pool(&self, node: &ServerAddress) -> Arc<PrimaryPool> {
        let target = PrimaryPoolTarget::Address(node.clone());
        Arc::new(PrimaryPool::open_in_background(
            target,
            self.connector.clone(),
            Arc::clone(&self.shared),
            self.as_pool_owner(),
        ))
    }
}
