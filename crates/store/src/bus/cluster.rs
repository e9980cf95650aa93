//! Pub/sub on a Cluster: one task for plain channels and patterns, and one for each primary that owns sharded channels
//! of this node.
//!
//! Invariants:
//! 1. The task of the primary that owns its slot serves a sharded channel. When the owner changes, the channel moves to
//!    the task of the new owner, and its listeners get `MaybeMissed`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::lane::{PubSubCommand, PubSubEndpoint, PubSubTask};
use super::queue::ChannelName;
use super::registry::{BusTopic, ListenerRegistry, TopicKind};
use crate::redis::cluster::ClusterInner;
use crate::tasks::BackgroundTasks;
use crate::url::ServerAddress;

pub(crate) struct ClusterPubSub {
    plain_task: PubSubTask,
    sharded: Arc<ShardedSubscriptions>,
    tasks: BackgroundTasks,
}

struct ShardedSubscriptions {
    core: Arc<ClusterInner>,
    registry: Arc<ListenerRegistry>,
    state: Mutex<ShardedRoutes>,
}

#[derive(Default)]
struct ShardedRoutes {
    lanes: HashMap<ServerAddress, PubSubTask>,
    /// Owner of each sharded channel, whose task serves the channel.
    owner_by_channel: HashMap<ChannelName, ServerAddress>,
}

impl ClusterPubSub {
    pub(crate) fn start(core: Arc<ClusterInner>, registry: Arc<ListenerRegistry>) -> Self {
        let dialer = core.dialer().clone();
        let plain_task = PubSubTask::start(
            PubSubEndpoint::AnyClusterPrimary(Arc::clone(&core)),
            dialer,
            Arc::clone(&registry),
        );
        let sharded = Arc::new(ShardedSubscriptions {
            core,
            registry,
            state: Mutex::default(),
        });
        let tasks = BackgroundTasks::default();
        tasks.spawn(follow_topology(Arc::clone(&sharded)));
        Self {
            plain_task,
            sharded,
            tasks,
        }
    }

    pub(crate) fn send(&self, command: PubSubCommand) {
        let topic = match &command {
            PubSubCommand::Subscribe { topic, .. } | PubSubCommand::Unsubscribe { topic } => topic,
        };
        if topic.kind == TopicKind::Sharded {
            self.sharded.send(command);
        } else {
            self.plain_task.send(command);
        }
    }

    pub(crate) fn end(&self) {
        self.tasks.abort_all();
        self.plain_task.stop();
        self.sharded
            .state
            .lock()
            .lanes
            .values()
            .for_each(PubSubTask::stop);
    }
}

impl ShardedSubscriptions {
    fn send(&self, command: PubSubCommand) {
        let mut state = self.state.lock();
        match &command {
            PubSubCommand::Subscribe { topic, .. } => {
                let home = state.owner_by_channel.get(&topic.name).cloned();
                // Without an owner the request is dropped, and the caller repeats it.
                let Some(home) = home.or_else(|| self.core.slot_owner(&topic.name)) else {
                    return;
                };
                state
                    .owner_by_channel
                    .insert(topic.name.clone(), home.clone());
                self.task_for_node(&mut state, &home).send(command);
            }
            PubSubCommand::Unsubscribe { topic } => {
                let home = state.owner_by_channel.remove(&topic.name);
                if let Some(lane) = home.and_then(|home| state.lanes.get(&home)) {
                    lane.send(command);
                }
            }
        }
    }

    fn task_for_node<'a>(
        &self,
        state: &'a mut ShardedRoutes,
        home: &ServerAddress,
    ) -> &'a PubSubTask {
        state.lanes.entry(home.clone()).or_insert_with(|| {
            let source = PubSubEndpoint::ClusterNode(home.clone(), Arc::clone(&self.core));
            PubSubTask::start(
                source,
                self.core.dialer().clone(),
                Arc::clone(&self.registry),
            )
        })
    }

    /// Moves channels whose slots have another owner now.
    fn move_channels_to_owners(&self) {
        let mut state = self.state.lock();
        let moves = state.owner_by_channel.iter().filter_map(|(name, home)| {
            let owner = self.core.slot_owner(name)?;
            (owner != *home).then(|| (name.clone(), home.clone(), owner))
        });
        for (name, from, to) in moves.collect::<Vec<_>>() {
            let topic = BusTopic {
                kind: TopicKind::Sharded,
                name: name.clone(),
            };
            if let Some(lane) = state.lanes.get(&from) {
                lane.send(PubSubCommand::Unsubscribe {
                    topic: topic.clone(),
                });
            }
            state.owner_by_channel.insert(name, to.clone());
            self.task_for_node(&mut state, &to)
                .send(PubSubCommand::Subscribe {
                    topic,
                    owed: true,
                    confirmation: None,
                });
        }
        let ShardedRoutes {
            lanes,
            owner_by_channel: homes,
        } = &mut *state;
        let used = homes.values().collect::<HashSet<_>>();
        lanes.retain(|address, _| used.contains(address));
    }
}

async fn follow_topology(shards: Arc<ShardedSubscriptions>) {
    let mut version = shards.core.topology_version();
    while version.changed().await.is_ok() {
        shards.move_channels_to_owners();
    }
}
