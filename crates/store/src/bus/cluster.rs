//! The bus on a Cluster: one lane for plain channels and patterns, one to each primary that owns shard channels here.
//!
//! Always true: a shard channel is carried by the lane to the owner of its slot; when the owner changes, the channel
//! moves and its readers are told that they may have missed something.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::lane::{Command, Lane, Source};
use super::queue::Name;
use super::registry::{Kind, Registry, Topic};
use crate::redis::cluster::Core;
use crate::tasks::Tasks;
use crate::url::Address;

pub(crate) struct ClusterLanes {
    plain: Lane,
    shards: Arc<Shards>,
    tasks: Tasks,
}

struct Shards {
    core: Arc<Core>,
    registry: Arc<Registry>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lanes: HashMap<Address, Lane>,
    /// The lane of each shard channel.
    homes: HashMap<Name, Address>,
}

impl ClusterLanes {
    pub(crate) fn start(core: Arc<Core>, registry: Arc<Registry>) -> Self {
        let dialer = core.dialer().clone();
        let plain = Lane::start(
            Source::Any(Arc::clone(&core)),
            dialer,
            Arc::clone(&registry),
        );
        let shards = Arc::new(Shards {
            core,
            registry,
            state: Mutex::default(),
        });
        let tasks = Tasks::default();
        tasks.spawn(follow(Arc::clone(&shards)));
        Self {
            plain,
            shards,
            tasks,
        }
    }

    pub(crate) fn send(&self, command: Command) {
        let topic = match &command {
            Command::Want { topic, .. } | Command::Drop { topic } => topic,
        };
        if topic.kind == Kind::Sharded {
            self.shards.send(command);
        } else {
            self.plain.send(command);
        }
    }

    pub(crate) fn end(&self) {
        self.tasks.end();
        self.plain.end();
        self.shards.state.lock().lanes.values().for_each(Lane::end);
    }
}

impl Shards {
    fn send(&self, command: Command) {
        let mut state = self.state.lock();
        match &command {
            Command::Want { topic, .. } => {
                let home = state.homes.get(&topic.name).cloned();
                // Without an owner the asker is not answered, and asks again.
                let Some(home) = home.or_else(|| self.core.owner(&topic.name)) else {
                    return;
                };
                state.homes.insert(topic.name.clone(), home.clone());
                self.lane(&mut state, &home).send(command);
            }
            Command::Drop { topic } => {
                let home = state.homes.remove(&topic.name);
                if let Some(lane) = home.and_then(|home| state.lanes.get(&home)) {
                    lane.send(command);
                }
            }
        }
    }

    fn lane<'a>(&self, state: &'a mut State, home: &Address) -> &'a Lane {
        state.lanes.entry(home.clone()).or_insert_with(|| {
            let source = Source::Node(home.clone(), Arc::clone(&self.core));
            Lane::start(
                source,
                self.core.dialer().clone(),
                Arc::clone(&self.registry),
            )
        })
    }

    /// Moves the channels whose slots have another owner now.
    fn move_channels(&self) {
        let mut state = self.state.lock();
        let moves = state.homes.iter().filter_map(|(name, home)| {
            let owner = self.core.owner(name)?;
            (owner != *home).then(|| (name.clone(), home.clone(), owner))
        });
        for (name, from, to) in moves.collect::<Vec<_>>() {
            let topic = Topic {
                kind: Kind::Sharded,
                name: name.clone(),
            };
            if let Some(lane) = state.lanes.get(&from) {
                lane.send(Command::Drop {
                    topic: topic.clone(),
                });
            }
            state.homes.insert(name, to.clone());
            self.lane(&mut state, &to).send(Command::Want {
                topic,
                owed: true,
                done: None,
            });
        }
        let State { lanes, homes } = &mut *state;
        let used = homes.values().collect::<HashSet<_>>();
        lanes.retain(|address, _| used.contains(address));
    }
}

async fn follow(shards: Arc<Shards>) {
    let mut version = shards.core.version();
    while version.changed().await.is_ok() {
        shards.move_channels();
    }
}
