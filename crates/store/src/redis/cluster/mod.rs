//! A Cluster: one link to each primary, found by slot.
//!
//! The redis crate's own cluster connection is not used: it repeats requests whatever they do, refuses pipelines that
//! span slots, and never leaves a primary that hangs.
//!
//! Always true:
//! 1. Each primary has its own link and breaker: a dead one takes nothing but its own slots away.
//! 2. The topology is asked for anew every two seconds, and at once when a node redirects, fails or does not answer,
//!    from a node that does answer.

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

use self::members::Members;
use self::slots::{Place, slot};
use self::topology::Topology;
use super::connect::Dialer;
use super::link::{Host, Link, Target};
use super::retry::Failed;
use crate::clock::monotonic;
use crate::shared::Shared;
use crate::tasks::Tasks;
use crate::url::Address;

/// A cluster, with the task that keeps its topology.
pub(crate) struct Cluster {
    core: Arc<Core>,
    tasks: Tasks,
}

pub(crate) struct Core {
    dialer: Dialer,
    shared: Arc<Shared>,
    seeds: Vec<Address>,
    map: ArcSwap<Map>,
    /// Links to nodes that a redirection named before the topology did, and when they were last used.
    extra: Mutex<HashMap<Address, (Arc<Link>, Instant)>>,
    host: Arc<Members>,
    doubt: Notify,
    version: watch::Sender<u64>,
    /// Counts up, for everything that takes turns.
    turn: AtomicUsize,
    /// The origin that the epoch was settled for; held while settling, so that an older view never follows a newer one.
    settled: tokio::sync::Mutex<String>,
}

#[derive(Default)]
struct Map {
    topology: Topology,
    /// The links of `topology.primaries`, in its order.
    links: Vec<Arc<Link>>,
}

impl Cluster {
    pub(crate) async fn open(
        dialer: Dialer,
        shared: Arc<Shared>,
        seeds: Vec<Address>,
    ) -> RedisResult<Self> {
        let core = Arc::new_cyclic(|core: &Weak<Core>| Core {
            dialer,
            shared,
            seeds,
            map: ArcSwap::default(),
            extra: Mutex::default(),
            host: Arc::new(Members::new(core.clone())),
            doubt: Notify::new(),
            version: watch::Sender::new(0),
            turn: AtomicUsize::new(0),
            settled: tokio::sync::Mutex::default(),
        });
        let topology = core.ask_anybody(&core.seeds).await?;
        if topology.primaries.is_empty() {
            let detail = "no slots are assigned: create the cluster first".to_owned();
            return Err((ErrorKind::Client, "empty cluster", detail).into());
        }
        let opening = topology.primaries.iter().map(|primary| {
            let target = Target::Server(primary.clone());
            Link::open(
                target,
                core.dialer.clone(),
                Arc::clone(&core.shared),
                core.host(),
            )
        });
        let links = join_all(opening)
            .await
            .into_iter()
            .map(|link| link.map(Arc::new));
        let links = links.collect::<RedisResult<Vec<_>>>()?;
        core.map.store(Arc::new(Map { topology, links }));
        core.settle(None).await?;
        let tasks = Tasks::default();
        tasks.spawn(keeper::keep(Arc::clone(&core)));
        Ok(Self { core, tasks })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The link that leads to the owner of a slot.
    pub(crate) fn by_slot(&self, slot: u16) -> Result<Arc<Link>, Failed> {
        let map = self.core.map.load();
        let owner = map
            .topology
            .owners
            .get(usize::from(slot))
            .copied()
            .flatten();
        owner
            .and_then(|owner| map.links.get(usize::from(owner)))
            .cloned()
            .ok_or_else(|| {
                self.core.doubt.notify_one();
                let detail = format!("nobody serves slot {slot}");
                Failed::unsent((ErrorKind::Io, "store unavailable", detail).into())
            })
    }

    /// The link of a command with a place of its own.
    pub(crate) fn by_place(&self, place: Place) -> Result<Arc<Link>, Failed> {
        match place {
            Place::Slot(slot) => self.by_slot(slot),
            Place::Any | Place::All(_) => {
                let links = self.links();
                let first = self.core.turn.fetch_add(1, Ordering::Relaxed);
                let in_turn = (0..links.len()).map(|step| &links[(first + step) % links.len()]);
                let ready = in_turn
                    .clone()
                    .find(|link| link.is_ready())
                    .or(links.first())
                    .cloned();
                ready.ok_or_else(|| Failed::unsent((ErrorKind::Io, "store unavailable").into()))
            }
        }
    }

    /// The link to a node that a redirection named.
    pub(crate) fn by_address(&self, node: &Address) -> Arc<Link> {
        let map = self.core.map.load();
        if let Some(index) = map
            .topology
            .primaries
            .iter()
            .position(|primary| primary == node)
        {
            return Arc::clone(&map.links[index]);
        }
        let now = monotonic();
        let mut extra = self.core.extra.lock();
        let (link, used) = extra
            .entry(node.clone())
            .or_insert_with(|| (self.core.link(node), now));
        *used = now;
        Arc::clone(link)
    }

    /// The links to all primaries.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.core.map.load().links.clone()
    }

    /// The topology may have changed: look soon.
    pub(crate) fn doubt(&self) {
        self.core.doubt.notify_one();
    }

    /// Ends following the topology, and where redirections led.
    pub(crate) fn close(&self) {
        self.tasks.end();
        self.core.extra.lock().clear();
    }
}

impl Core {
    /// Rises with each change of the topology.
    pub(crate) fn version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    pub(crate) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// The owner of a channel's slot.
    pub(crate) fn owner(&self, channel: &[u8]) -> Option<Address> {
        let map = self.map.load();
        let owner = map
            .topology
            .owners
            .get(usize::from(slot(channel)))
            .copied()
            .flatten()?;
        map.topology.primaries.get(usize::from(owner)).cloned()
    }

    pub(crate) fn is_primary(&self, server: &Address) -> bool {
        self.map.load().topology.primaries.contains(server)
    }

    /// Any primary that answers.
    pub(crate) fn any_primary(&self) -> Option<Address> {
        let map = self.map.load();
        let ready = map
            .links
            .iter()
            .position(|link| link.is_ready())
            .unwrap_or(0);
        map.topology.primaries.get(ready).cloned()
    }

    /// Whether all primaries have sharded pub/sub.
    pub(crate) fn is_sharded(&self) -> bool {
        self.map.load().links.iter().all(|link| {
            link.primary()
                .borrow()
                .as_ref()
                .is_none_or(|conn| conn.identity.sharded)
        })
    }

    fn host(&self) -> Arc<dyn Host> {
        Arc::clone(&self.host) as Arc<dyn Host>
    }

    fn link(&self, node: &Address) -> Arc<Link> {
        let target = Target::Server(node.clone());
        Arc::new(Link::open_later(
            target,
            self.dialer.clone(),
            Arc::clone(&self.shared),
            self.host(),
        ))
    }
}
