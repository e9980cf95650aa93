//! The Cluster backend: one pool per primary, found by slot.
//!
//! The redis crate's own cluster connection is not used: it retries requests whatever they do, rejects pipelines that
//! span slots, and never leaves a primary that hangs.
//!
//! Invariants:
//! 1. Each primary has its own pool and breaker, so a dead primary affects only its own slots.
//! 2. The topology is refreshed every two seconds, and at once when a node redirects, fails or does not answer. The
//!    refresh uses a node that answers.

mod keeper;
mod members;
pub(crate) mod slots;
pub(crate) mod topology;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use parking_lot::Mutex;
use redis::{ErrorKind, RedisResult};
use tokio::sync::{Notify, watch};

use self::members::ClusterPoolOwner;
use self::slots::{CommandRoute, slot};
use self::topology::Topology;
use super::connect::ServerConnector;
use super::link::{PrimaryPool, PrimaryPoolOwner, PrimaryPoolTarget};
use super::retry::AttemptError;
use crate::clock::monotonic;
use crate::shared::StoreShared;
use crate::tasks::BackgroundTasks;
use crate::url::ServerAddress;

/// A cluster, with the task that refreshes its topology.
pub(crate) struct ClusterBackend {
    core: Arc<ClusterInner>,
    tasks: BackgroundTasks,
}

pub(crate) struct ClusterInner {
    dialer: ServerConnector,
    shared: Arc<StoreShared>,
    seeds: Vec<ServerAddress>,
    pools: ArcSwap<ClusterPools>,
    /// Pools of nodes that a redirection named before the topology did, with the time of their last use.
    redirect_pools: Mutex<HashMap<ServerAddress, (Arc<PrimaryPool>, Instant)>>,
    host: Arc<ClusterPoolOwner>,
    doubt: Notify,
    watch_topology: watch::Sender<u64>,
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
    links: Vec<Arc<PrimaryPool>>,
}

impl ClusterBackend {
    pub(crate) async fn open(
        dialer: ServerConnector,
        shared: Arc<StoreShared>,
        seeds: Vec<ServerAddress>,
    ) -> RedisResult<Self> {
        let core = Arc::new_cyclic(|core: &Weak<ClusterInner>| ClusterInner {
            dialer,
            shared,
            seeds,
            pools: ArcSwap::default(),
            redirect_pools: Mutex::default(),
            host: Arc::new(ClusterPoolOwner::new(core.clone())),
            doubt: Notify::new(),
            watch_topology: watch::Sender::new(0),
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
                core.dialer.clone(),
                Arc::clone(&core.shared),
                core.pool_owner(),
            )
        });
        let links = join_all(opening)
            .await
            .into_iter()
            .map(|link| link.map(Arc::new));
        let links = links.collect::<RedisResult<Vec<_>>>()?;
        core.pools.store(Arc::new(ClusterPools { topology, links }));
        core.reconcile_epoch(None).await?;
        let tasks = BackgroundTasks::default();
        tasks.spawn(keeper::refresh_topology_loop(Arc::clone(&core)));
        Ok(Self { core, tasks })
    }

    pub(crate) fn core(&self) -> &Arc<ClusterInner> {
        &self.core
    }

    /// Pool of the primary that owns a slot.
    pub(crate) fn pool_for_slot(&self, slot: u16) -> Result<Arc<PrimaryPool>, AttemptError> {
        let map = self.core.pools.load();
        let owner = map
            .topology
            .slot_owners
            .get(usize::from(slot))
            .copied()
            .flatten();
        owner
            .and_then(|owner| map.links.get(usize::from(owner)))
            .cloned()
            .ok_or_else(|| {
                self.core.doubt.notify_one();
                let detail = format!("no primary serves slot {slot}");
                AttemptError::before_send((ErrorKind::Io, "store unavailable", detail).into())
            })
    }

    /// Pool for a route. A route without a slot gets a primary that is ready, round robin.
    pub(crate) fn pool_for_route(
        &self,
        place: CommandRoute,
    ) -> Result<Arc<PrimaryPool>, AttemptError> {
        match place {
            CommandRoute::Slot(slot) => self.pool_for_slot(slot),
            CommandRoute::AnyPrimary | CommandRoute::AllPrimaries(_) => {
                let links = self.all_pools();
                let first = self.core.round_robin.fetch_add(1, Ordering::Relaxed);
                let in_turn = (0..links.len()).map(|step| &links[(first + step) % links.len()]);
                let ready = in_turn
                    .clone()
                    .find(|link| link.is_ready())
                    .or(links.first())
                    .cloned();
                ready.ok_or_else(|| {
                    AttemptError::before_send((ErrorKind::Io, "store unavailable").into())
                })
            }
        }
    }

    /// Pool of a node that a redirection named.
    pub(crate) fn pool_for_address(&self, node: &ServerAddress) -> Arc<PrimaryPool> {
        let map = self.core.pools.load();
        if let Some(index) = map
            .topology
            .primaries
            .iter()
            .position(|primary| primary == node)
        {
            return Arc::clone(&map.links[index]);
        }
        let now = monotonic();
        let mut extra = self.core.redirect_pools.lock();
        let (link, used) = extra
            .entry(node.clone())
            .or_insert_with(|| (self.core.open_pool(node), now));
        *used = now;
        Arc::clone(link)
    }

    /// Pools of all primaries.
    pub(crate) fn all_pools(&self) -> Vec<Arc<PrimaryPool>> {
        self.core.pools.load().links.clone()
    }

    /// Requests a refresh, because the topology may have changed.
    pub(crate) fn doubt(&self) {
        self.core.doubt.notify_one();
    }

    /// Stops the topology task and closes the pools that only redirections named.
    pub(crate) fn close(&self) {
        self.tasks.abort_all();
        self.core.redirect_pools.lock().clear();
    }
}

impl ClusterInner {
    /// Watch of the topology version, which rises with each change.
    pub(crate) fn topology_version(&self) -> watch::Receiver<u64> {
        self.watch_topology.subscribe()
    }

    pub(crate) fn dialer(&self) -> &ServerConnector {
        &self.dialer
    }

    pub(crate) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Primary that owns the slot of a channel or key.
    pub(crate) fn slot_owner(&self, channel: &[u8]) -> Option<ServerAddress> {
        let map = self.pools.load();
        let owner = map
            .topology
            .slot_owners
            .get(usize::from(slot(channel)))
            .copied()
            .flatten()?;
        map.topology.primaries.get(usize::from(owner)).cloned()
    }

    pub(crate) fn is_primary(&self, server: &ServerAddress) -> bool {
        self.pools.load().topology.primaries.contains(server)
    }

    /// Any primary, if possible one that is ready.
    pub(crate) fn any_primary(&self) -> Option<ServerAddress> {
        let map = self.pools.load();
        let ready = map
            .links
            .iter()
            .position(|link| link.is_ready())
            .unwrap_or(0);
        map.topology.primaries.get(ready).cloned()
    }

    /// Whether all connected primaries support sharded pub/sub.
    pub(crate) fn supports_sharded_pubsub(&self) -> bool {
        self.pools.load().links.iter().all(|link| {
            link.primary()
                .borrow()
                .as_ref()
                .is_none_or(|conn| conn.info.supports_sharded_pubsub)
        })
    }

    fn pool_owner(&self) -> Arc<dyn PrimaryPoolOwner> {
        Arc::clone(&self.host) as Arc<dyn PrimaryPoolOwner>
    }

    fn open_pool(&self, node: &ServerAddress) -> Arc<PrimaryPool> {
        let target = PrimaryPoolTarget::Address(node.clone());
        Arc::new(PrimaryPool::open_in_background(
            target,
            self.dialer.clone(),
            Arc::clone(&self.shared),
            self.pool_owner(),
        ))
    }
}
