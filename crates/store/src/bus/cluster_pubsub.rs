//! Pub/sub on a Cluster: one task for plain channels and patterns, and one for each primary that owns sharded channels
//! of this node.
//!
//! Invariants:
//! 1. The task of the primary that owns its slot serves a sharded channel. When the owner changes, the channel moves to
//!    the task of the new owner, and its listeners get `MaybeMissed`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::ChannelName;
use super::listener_registry::{BusTopic, ListenerRegistry, TopicKind};
use super::pubsub_task::{PubSubCommand, PubSubEndpoint, PubSubTask};
use crate::redis_backend::cluster::ClusterInner;
use crate::task_group::TaskGroup;
use crate::url::ServerAddress;

pub(crate) struct ClusterPubSub {
    plain_task: PubSubTask,
    sharded: Arc<ShardedSubscriptions>,
    tasks: TaskGroup,
}

struct ShardedSubscriptions {
    core: Arc<ClusterInner>,
    registry: Arc<ListenerRegistry>,
    state: Mutex<ShardedRoutes>,
}

#[derive(Default)]
struct ShardedRoutes {
    tasks: HashMap<ServerAddress, PubSubTask>,
    /// Owner of each sharded channel, whose task serves the channel.
    owner_by_channel: HashMap<ChannelName, ServerAddress>,
}

impl ClusterPubSub {
    pub(crate) fn start(core: Arc<ClusterInner>, registry: Arc<ListenerRegistry>) -> Self {
        let connector = core.connector().clone();
        let plain_task = PubSubTask::start(
            PubSubEndpoint::AnyClusterPrimary(Arc::clone(&core)),
            connector,
            Arc::clone(&registry),
        );
        let sharded = Arc::new(ShardedSubscriptions {
            core,
            registry,
            state: Mutex::default(),
        });
        let tasks = TaskGroup::default();
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

    pub(crate) fn stop(&self) {
        self.tasks.abort_all();
        self.plain_task.stop();
        self.sharded
            .state
            .lock()
            .tasks
            .values()
            .for_each(PubSubTask::stop);
    }
}

impl ShardedSubscriptions {
    fn send(&self, command: PubSubCommand) {
        let mut state = self.state.lock();
        match &command {
            PubSubCommand::Subscribe { topic, .. } => {
                let owner = state.owner_by_channel.get(&topic.name).cloned();
                // Without an owner the request is dropped, and the caller repeats it.
                let Some(owner) = owner.or_else(|| self.core.slot_owner(&topic.name)) else {
                    return;
                };
                state
                    .owner_by_channel
                    .insert(topic.name.clone(), owner.clone());
                self.task_for_node(&mut state, &owner).send(command);
            }
            PubSubCommand::Unsubscribe { topic } => {
                let owner = state.owner_by_channel.remove(&topic.name);
                if let Some(task) = owner.and_then(|owner| state.tasks.get(&owner)) {
                    task.send(command);
                }
            }
        }
    }

    fn task_for_node<'a>(
        &self,
        state: &'a mut ShardedRoutes,
        owner: &ServerAddress,
    ) -> &'a PubSubTask {
        state.tasks.entry(owner.clone()).or_insert_with(|| {
            let endpoint = PubSubEndpoint::ClusterNode(owner.clone(), Arc::clone(&self.core));
            PubSubTask::start(
                endpoint,
                self.core.connector().clone(),
                Arc::clone(&self.registry),
            )
        })
    }

    /// Moves channels whose slots have another owner now.
    fn move_channels_to_owners(&self) {
        let mut state = self.state.lock();
        let moves = state.owner_by_channel.iter().filter_map(|(name, from)| {
            let to = self.core.slot_owner(name)?;
            (to != *from).then(|| (name.clone(), from.clone(), to))
        });
        for (name, from, to) in moves.collect::<Vec<_>>() {
            let topic = BusTopic {
                kind: TopicKind::Sharded,
                name: name.clone(),
            };
            if let Some(task) = state.tasks.get(&from) {
                task.send(PubSubCommand::Unsubscribe {
                    topic: topic.clone(),
                });
            }
            state.owner_by_channel.insert(name, to.clone());
            self.task_for_node(&mut state, &to)
                .send(PubSubCommand::Subscribe {
                    topic,
                    notify_gap: true,
                    confirmation: None,
                });
        }
        let ShardedRoutes {
            tasks,
            owner_by_channel,
        } = &mut *state;
        let used = owner_by_channel.values().collect::<HashSet<_>>();
        tasks.retain(|address, _| used.contains(address));
    }
}

async fn follow_topology(sharded: Arc<ShardedSubscriptions>) {
    let mut version = sharded.core.watch_topology();
    while version.changed().await.is_ok() {
        sharded.move_channels_to_owners();
    }
}
