//! One pub/sub connection and the subscriptions it carries.
//!
//! Always true:
//! 1. After each reconnect everything that is wanted is subscribed to again, and its readers are told
//!    [`MaybeMissed`](super::Event::MaybeMissed) after that, so that whoever then looks for what is missing finds it.
//! 2. A connection on which the server unsubscribed us by itself (a slot moved away), or which gives no sign of life,
//!    is replaced.
//! 3. Commands are taken while there is no connection too, so that an outage does not pile them up.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::registry::{Kind, Registry, Topic};
use super::wire::{Signs, Wire, receiver};
use crate::redis::cluster;
use crate::redis::connect::{Dialer, timed_out};
use crate::redis::lines::Conn;
use crate::redis::retry::{back_off, nothing_executed};
use crate::tasks::Tasks;
use crate::telemetry::Event;
use crate::url::Address;

/// Commands taken together, and subscriptions sent in one pipeline.
const BATCH: usize = 512;
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Before a subscription that a node could not take now is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// What a lane is asked to do.
pub(crate) enum Command {
    /// Subscribe, and say when it is confirmed; `owed` if readers have to be told then that they may have missed something.
    Want {
        topic: Topic,
        owed: bool,
        done: Option<oneshot::Sender<RedisResult<()>>>,
    },
    /// Unsubscribe.
    Drop { topic: Topic },
}

/// Where a lane connects to.
pub(crate) enum Source {
    /// The primary that the commands go to.
    Primary(watch::Receiver<Option<Arc<Conn>>>),
    /// This node of a cluster.
    Node(Address, Arc<cluster::Core>),
    /// Any primary of a cluster: plain messages reach all nodes.
    Any(Arc<cluster::Core>),
}

/// A running lane. Ends when dropped.
pub(crate) struct Lane {
    commands: mpsc::UnboundedSender<Command>,
    tasks: Tasks,
}

impl Lane {
    pub(crate) fn start(source: Source, dialer: Dialer, registry: Arc<Registry>) -> Self {
        Self::with(|commands| {
            Worker {
                source,
                dialer,
                registry,
                commands,
                wanted: HashSet::new(),
                live: HashSet::new(),
                changed: Vec::new(),
                owed: HashSet::new(),
                refused: HashSet::new(),
                waiting: HashMap::new(),
            }
            .run()
        })
    }

    /// A lane with another worker.
    pub(crate) fn with<F>(work: impl FnOnce(mpsc::UnboundedReceiver<Command>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (commands, receiver) = mpsc::unbounded_channel();
        let tasks = Tasks::default();
        tasks.spawn(work(receiver));
        Self { commands, tasks }
    }

    pub(crate) fn send(&self, command: Command) {
        // A lane that has ended answers nobody, and its askers notice that their answer was dropped.
        let _ = self.commands.send(command);
    }

    pub(crate) fn end(&self) {
        self.tasks.end();
    }
}

struct Worker {
    source: Source,
    dialer: Dialer,
    registry: Arc<Registry>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// What should be subscribed to, and what is.
    wanted: HashSet<Topic>,
    live: HashSet<Topic>,
    /// Topics that may be in one and not in the other.
    changed: Vec<Topic>,
    /// Topics whose readers have to be told when they are live again.
    owed: HashSet<Topic>,
    /// Topics with readers from before that the server refuses now: tried again with each heartbeat.
    refused: HashSet<Topic>,
    waiting: HashMap<Topic, Vec<oneshot::Sender<RedisResult<()>>>>,
}

impl Worker {
    async fn run(mut self) {
        let mut attempt = 0;
        loop {
            if !self.rest(back_off(attempt)).await {
                return;
            }
            attempt += 1;
            let Ok(mut wire) = self.connect().await else {
                continue;
            };
            self.take_waiting();
            self.changed = self.wanted.iter().cloned().collect();
            if self.sync(&mut wire).await.is_err() {
                // What this connection confirmed is gone with it.
                self.live.clear();
                continue;
            }
            Event::BusConnected {
                server: &wire.server.to_string(),
                topics: self.live.len(),
            }
            .emit();
            attempt = 0;
            let Some(reason) = self.serve(&mut wire).await else {
                return;
            };
            Event::BusLost { reason: &reason }.emit();
            self.owed.extend(self.live.drain());
        }
    }

    /// Takes commands until it is time for the next connection; false when the lane was dropped.
    async fn rest(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            tokio::select! {
                () = sleep_until(until) => return true,
                command = self.commands.recv() => match command {
                    Some(command) => self.take(command),
                    None => return false,
                },
            }
            // Everything that is wanted is asked for on the next connection.
            self.changed.clear();
        }
    }

    async fn connect(&mut self) -> RedisResult<Wire> {
        let server = match &mut self.source {
            Source::Primary(primary) => primary
                .borrow_and_update()
                .as_ref()
                .map(|conn| conn.server.clone()),
            Source::Node(node, _) => Some(node.clone()),
            Source::Any(core) => core.any_primary(),
        };
        let server = server.ok_or_else(|| timed_out("no primary to connect to"))?;
        let signs = Arc::new(Signs::default());
        let con = self
            .dialer
            .dial_bus(&server, receiver(&self.registry, &signs))
            .await?;
        Ok(Wire { con, server, signs })
    }

    /// Works until the connection is lost; none when the lane was dropped.
    async fn serve(&mut self, wire: &mut Wire) -> Option<String> {
        let mut next_beat = Instant::now() + HEARTBEAT;
        loop {
            let signs = Arc::clone(&wire.signs);
            let until = match self.changed.is_empty() {
                true => next_beat,
                false => next_beat.min(Instant::now() + RETRY),
            };
            let worked = tokio::select! {
                () = signs.lost.notified() => return Some("connection lost".to_owned()),
                () = moved_on(&mut self.source, &wire.server) => return Some("another server is the primary".to_owned()),
                command = self.commands.recv() => {
                    self.take(command?);
                    self.take_waiting();
                    self.sync(wire).await
                }
                () = sleep_until(until), if until < next_beat => self.sync(wire).await,
                () = sleep_until(next_beat) => {
                    next_beat = Instant::now() + HEARTBEAT;
                    self.beat(wire).await
                }
            };
            if let Err(error) = worked {
                return Some(error.to_string());
            }
        }
    }

    /// A sign of life, and another try of what was refused.
    async fn beat(&mut self, wire: &mut Wire) -> RedisResult<()> {
        let ping = redis::cmd("PING");
        let ping = timeout(self.dialer.patience(), wire.con.send_packed_command(&ping)).await;
        ping.map_err(|_| timed_out("no sign of life in time"))??;
        self.changed.extend(self.refused.iter().cloned());
        self.sync(wire).await
    }

    fn take_waiting(&mut self) {
        for _ in 0..BATCH {
            match self.commands.try_recv() {
                Ok(command) => self.take(command),
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Want { topic, owed, done } => {
                if owed {
                    self.owed.insert(topic.clone());
                }
                if let Some(done) = done {
                    let waiting = self.waiting.entry(topic.clone()).or_default();
                    waiting.retain(|done| !done.is_closed());
                    waiting.push(done);
                }
                self.wanted.insert(topic.clone());
                self.changed.push(topic);
            }
            Command::Drop { topic } => {
                self.wanted.remove(&topic);
                self.owed.remove(&topic);
                self.refused.remove(&topic);
                self.waiting.remove(&topic);
                self.changed.push(topic);
            }
        }
    }

    /// Makes the server's subscriptions those that are wanted, and answers who waits for that.
    async fn sync(&mut self, wire: &mut Wire) -> RedisResult<()> {
        let changed = std::mem::take(&mut self.changed)
            .into_iter()
            .collect::<HashSet<_>>();
        let differ = |topic: &&Topic| self.wanted.contains(*topic) != self.live.contains(*topic);
        let differing = changed.iter().filter(differ).cloned().collect::<Vec<_>>();
        for batch in differing.chunks(BATCH) {
            self.send(wire, batch).await?;
        }
        for topic in changed.iter().filter(|topic| self.live.contains(*topic)) {
            answer(self.waiting.remove(topic), &Ok(()));
            if self.owed.remove(topic) {
                self.registry.tell_missed(topic);
            }
        }
        Ok(())
    }

    async fn send(&mut self, wire: &mut Wire, topics: &[Topic]) -> RedisResult<()> {
        let mut pipe = redis::Pipeline::with_capacity(topics.len());
        for topic in topics {
            if self.wanted.contains(topic) {
                pipe.add_command(topic.subscribe());
            } else {
                if topic.kind == Kind::Sharded {
                    wire.signs.leaving.fetch_add(1, Ordering::SeqCst);
                }
                pipe.add_command(topic.unsubscribe());
            }
        }
        let replies = timeout(
            self.dialer.patience(),
            wire.con.send_packed_commands(&pipe, 0, topics.len()),
        )
        .await;
        let replies = replies.map_err(|_| timed_out("no confirmation in time"))??;
        for (topic, reply) in topics.iter().zip(replies) {
            self.confirm(topic, &reply);
        }
        Ok(())
    }

    fn confirm(&mut self, topic: &Topic, reply: &Value) {
        match (reply, self.wanted.contains(topic)) {
            (Value::ServerError(_), true) if nothing_executed(reply) => {
                self.changed.push(topic.clone());
                if let Source::Node(_, core) | Source::Any(core) = &self.source {
                    core.doubt();
                }
            }
            (Value::ServerError(error), true) => {
                let error = RedisError::from(error.clone());
                let first = match self.owed.contains(topic) {
                    true => self.refused.insert(topic.clone()),
                    false => self.wanted.remove(topic),
                };
                if first {
                    Event::BusRefused {
                        topic: &String::from_utf8_lossy(&topic.name),
                        reason: &error.to_string(),
                    }
                    .emit();
                }
                answer(self.waiting.remove(topic), &Err(error));
            }
            (_, true) => {
                self.refused.remove(topic);
                self.live.insert(topic.clone());
            }
            (_, false) => {
                self.live.remove(topic);
            }
        }
    }
}

fn answer(waiting: Option<Vec<oneshot::Sender<RedisResult<()>>>>, answer: &RedisResult<()>) {
    for done in waiting.into_iter().flatten() {
        // Nobody waits any more if this fails.
        let _ = done.send(answer.clone());
    }
}

/// Returns when ours is not a server to listen to any more: another one is the primary.
async fn moved_on(source: &mut Source, ours: &Address) {
    let other = match source {
        Source::Primary(primary) => primary
            .wait_for(|conn| conn.as_ref().is_some_and(|conn| conn.server != *ours))
            .await
            .is_ok(),
        // One that left the cluster, or was cut off from it, hears nothing of the others' messages.
        Source::Any(core) => {
            let mut version = core.version();
            version.wait_for(|_| !core.is_primary(ours)).await.is_ok()
        }
        // Its channels are moved away one by one.
        Source::Node(..) => false,
    };
    if !other {
        std::future::pending::<()>().await;
    }
}
