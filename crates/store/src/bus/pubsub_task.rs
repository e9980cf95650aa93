//! The task that owns one pub/sub connection and keeps its subscriptions.
//!
//! Invariants:
//! 1. After a reconnect a topic is subscribed to first, and its listeners get
//!    [`MaybeMissed`](super::BusEvent::MaybeMissed) only after the server has confirmed. A listener that then reads the
//!    missed data has no gap between that read and the stream.
//! 2. The task replaces the connection if the server unsubscribes it unasked (a slot moved away) or if a heartbeat gets
//!    no reply in time.
//! 3. The task takes commands while it is disconnected, so the command channel does not grow during an outage.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::listener_registry::{BusTopic, ListenerRegistry, TopicKind};
use super::pubsub_connection::{PubSubConnection, PubSubSignals, push_handler};
use crate::redis_backend::cluster;
use crate::redis_backend::connector::{ServerConnector, timeout_error};
use crate::redis_backend::primary_pool::connections::ServerConnection;
use crate::redis_backend::retry::{backoff, proves_not_executed};
use crate::task_group::TaskGroup;
use crate::telemetry;
use crate::url::ServerAddress;

/// Commands that are taken together, and subscriptions that are sent in one pipeline.
const MAX_BATCH: usize = 512;
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Pause before a subscription is retried that a node could not accept yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Request to a pub/sub task.
pub(crate) enum PubSubCommand {
    /// Subscribe, and send the result to `confirmation`. If `notify_gap` is set, the listeners get `MaybeMissed` as
    /// soon as the topic is active.
    Subscribe {
        topic: BusTopic,
        notify_gap: bool,
        confirmation: Option<oneshot::Sender<RedisResult<()>>>,
    },
    /// Unsubscribe.
    Unsubscribe { topic: BusTopic },
}

/// Server that a pub/sub task connects to.
pub(crate) enum PubSubEndpoint {
    /// The primary that the commands go to.
    Primary(watch::Receiver<Option<Arc<ServerConnection>>>),
    /// This node of a cluster.
    ClusterNode(ServerAddress, Arc<cluster::ClusterInner>),
    /// Any primary of a cluster, because plain messages reach all nodes.
    AnyClusterPrimary(Arc<cluster::ClusterInner>),
}

/// Handle to a pub/sub task. Dropping it stops the task.
pub(crate) struct PubSubTask {
    commands: mpsc::UnboundedSender<PubSubCommand>,
    tasks: TaskGroup,
}

impl PubSubTask {
    pub(crate) fn start(
        endpoint: PubSubEndpoint,
        connector: ServerConnector,
        registry: Arc<ListenerRegistry>,
    ) -> Self {
        let (commands, receiver) = mpsc::unbounded_channel();
        let worker = PubSubWorker {
            endpoint,
            connector,
            registry,
            commands: receiver,
            desired: HashSet::new(),
            active: HashSet::new(),
            dirty: Vec::new(),
            gap_pending: HashSet::new(),
            rejected: HashSet::new(),
            waiters: HashMap::new(),
        };
        let tasks = TaskGroup::default();
        tasks.spawn(worker.run());
        Self { commands, tasks }
    }

    pub(crate) fn send(&self, command: PubSubCommand) {
        // A task that has ended drops the request, and the caller notices that its confirmation was dropped.
        let _ = self.commands.send(command);
    }

    pub(crate) fn stop(&self) {
        self.tasks.abort_all();
    }
}

struct PubSubWorker {
    endpoint: PubSubEndpoint,
    connector: ServerConnector,
    registry: Arc<ListenerRegistry>,
    commands: mpsc::UnboundedReceiver<PubSubCommand>,
    /// Topics that have a listener.
    desired: HashSet<BusTopic>,
    /// Topics that the server has confirmed on this connection.
    active: HashSet<BusTopic>,
    /// Topics that may differ between `desired` and `active`.
    dirty: Vec<BusTopic>,
    /// Topics whose listeners get `MaybeMissed` as soon as the topic is active again.
    gap_pending: HashSet<BusTopic>,
    /// Topics that were active before the reconnect and that the server now rejects. Retried with every heartbeat.
    rejected: HashSet<BusTopic>,
    /// Callers that wait for the confirmation of a topic.
    waiters: HashMap<BusTopic, Vec<oneshot::Sender<RedisResult<()>>>>,
}

impl PubSubWorker {
    async fn run(mut self) {
        let mut attempt = 0;
        loop {
            if !self.wait_before_reconnect(backoff(attempt)).await {
                return;
            }
            attempt += 1;
            let Ok(mut connection) = self.connect().await else {
                continue;
            };
            self.apply_queued_commands();
            self.dirty = self.desired.iter().cloned().collect();
            if self.sync_subscriptions(&mut connection).await.is_err() {
                // The subscriptions of this connection are lost with it.
                self.active.clear();
                continue;
            }
            telemetry::bus_connected(&connection.server, self.active.len());
            attempt = 0;
            let Some(reason) = self.serve_connection(&mut connection).await else {
                return;
            };
            telemetry::bus_lost(&reason);
            self.gap_pending.extend(self.active.drain());
        }
    }

    /// Applies commands until it is time for the next connection. Returns false if the handle was dropped.
    async fn wait_before_reconnect(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            tokio::select! {
                () = sleep_until(until) => return true,
                command = self.commands.recv() => match command {
                    Some(command) => self.apply_command(command),
                    None => return false,
                },
            }
            // The next connection subscribes to all desired topics anyway.
            self.dirty.clear();
        }
    }

    async fn connect(&mut self) -> RedisResult<PubSubConnection> {
        let server = match &mut self.endpoint {
            PubSubEndpoint::Primary(primary) => primary
                .borrow_and_update()
                .as_ref()
                .map(|conn| conn.server.clone()),
            PubSubEndpoint::ClusterNode(node, _) => Some(node.clone()),
            PubSubEndpoint::AnyClusterPrimary(core) => core.any_primary(),
        };
        let server = server.ok_or_else(|| timeout_error("no primary to connect to"))?;
        let signals = Arc::new(PubSubSignals::default());
        let con = self
            .connector
            .connect_pubsub(&server, push_handler(&self.registry, &signals))
            .await?;
        Ok(PubSubConnection {
            con,
            server,
            signals,
        })
    }

    /// Works on a connection until it must be replaced, and returns the reason. `None` if the handle was dropped.
    async fn serve_connection(&mut self, connection: &mut PubSubConnection) -> Option<String> {
        let mut next_heartbeat = Instant::now() + HEARTBEAT_INTERVAL;
        loop {
            let signals = Arc::clone(&connection.signals);
            let until = match self.dirty.is_empty() {
                true => next_heartbeat,
                false => next_heartbeat.min(Instant::now() + RETRY_INTERVAL),
            };
            let result = tokio::select! {
                () = signals.connection_lost.notified() => return Some("connection lost".to_owned()),
                () = wait_until_wrong_server(&mut self.endpoint, &connection.server) => return Some("another server is the primary".to_owned()),
                command = self.commands.recv() => {
                    self.apply_command(command?);
                    self.apply_queued_commands();
                    self.sync_subscriptions(connection).await
                }
                () = sleep_until(until), if until < next_heartbeat => self.sync_subscriptions(connection).await,
                () = sleep_until(next_heartbeat) => {
                    next_heartbeat = Instant::now() + HEARTBEAT_INTERVAL;
                    self.send_heartbeat(connection).await
                }
            };
            if let Err(error) = result {
                return Some(error.to_string());
            }
        }
    }

    /// Sends a heartbeat, and retries rejected topics.
    async fn send_heartbeat(&mut self, connection: &mut PubSubConnection) -> RedisResult<()> {
        let ping = redis::cmd("PING");
        let ping = timeout(
            self.connector.connect_timeout(),
            connection.con.send_packed_command(&ping),
        )
        .await;
        ping.map_err(|_| timeout_error("no heartbeat reply in time"))??;
        self.dirty.extend(self.rejected.iter().cloned());
        self.sync_subscriptions(connection).await
    }

    fn apply_queued_commands(&mut self) {
        for _ in 0..MAX_BATCH {
            match self.commands.try_recv() {
                Ok(command) => self.apply_command(command),
                Err(_) => return,
            }
        }
    }

    fn apply_command(&mut self, command: PubSubCommand) {
        match command {
            PubSubCommand::Subscribe {
                topic,
                notify_gap,
                confirmation,
            } => {
                if notify_gap {
                    self.gap_pending.insert(topic.clone());
                }
                if let Some(confirmation) = confirmation {
                    let waiters = self.waiters.entry(topic.clone()).or_default();
                    waiters.retain(|waiter| !waiter.is_closed());
                    waiters.push(confirmation);
                }
                self.desired.insert(topic.clone());
                self.dirty.push(topic);
            }
            PubSubCommand::Unsubscribe { topic } => {
                self.desired.remove(&topic);
                self.gap_pending.remove(&topic);
                self.rejected.remove(&topic);
                self.waiters.remove(&topic);
                self.dirty.push(topic);
            }
        }
    }

    /// Makes the server's subscriptions match `desired`, and answers the callers that wait for that.
    async fn sync_subscriptions(&mut self, connection: &mut PubSubConnection) -> RedisResult<()> {
        let dirty = std::mem::take(&mut self.dirty)
            .into_iter()
            .collect::<HashSet<_>>();
        let differ =
            |topic: &&BusTopic| self.desired.contains(*topic) != self.active.contains(*topic);
        let differing = dirty.iter().filter(differ).cloned().collect::<Vec<_>>();
        for batch in differing.chunks(MAX_BATCH) {
            self.send_changes(connection, batch).await?;
        }
        for topic in dirty.iter().filter(|topic| self.active.contains(*topic)) {
            answer_waiters(self.waiters.remove(topic), &Ok(()));
            if self.gap_pending.remove(topic) {
                self.registry.notify_gap(topic);
            }
        }
        Ok(())
    }

    async fn send_changes(
        &mut self,
        connection: &mut PubSubConnection,
        topics: &[BusTopic],
    ) -> RedisResult<()> {
        let mut pipe = redis::Pipeline::with_capacity(topics.len());
        for topic in topics {
            if self.desired.contains(topic) {
                pipe.add_command(topic.subscribe());
            } else {
                if topic.kind == TopicKind::Sharded {
                    connection
                        .signals
                        .pending_sunsubscribes
                        .fetch_add(1, Ordering::SeqCst);
                }
                pipe.add_command(topic.unsubscribe());
            }
        }
        let replies = timeout(
            self.connector.connect_timeout(),
            connection.con.send_packed_commands(&pipe, 0, topics.len()),
        )
        .await;
        let replies = replies.map_err(|_| timeout_error("no confirmation in time"))??;
        for (topic, reply) in topics.iter().zip(replies) {
            self.apply_reply(topic, &reply);
        }
        Ok(())
    }

    fn apply_reply(&mut self, topic: &BusTopic, reply: &Value) {
        match (reply, self.desired.contains(topic)) {
            (Value::ServerError(_), true) if proves_not_executed(reply) => {
                self.dirty.push(topic.clone());
                if let PubSubEndpoint::ClusterNode(_, core)
                | PubSubEndpoint::AnyClusterPrimary(core) = &self.endpoint
                {
                    core.request_refresh();
                }
            }
            (Value::ServerError(error), true) => {
                let error = RedisError::from(error.clone());
                let first = match self.gap_pending.contains(topic) {
                    true => self.rejected.insert(topic.clone()),
                    false => self.desired.remove(topic),
                };
                if first {
                    telemetry::bus_subscription_rejected(&topic.name, &error);
                }
                answer_waiters(self.waiters.remove(topic), &Err(error));
            }
            (_, true) => {
                self.rejected.remove(topic);
                self.active.insert(topic.clone());
            }
            (_, false) => {
                self.active.remove(topic);
            }
        }
    }
}

fn answer_waiters(
    waiters: Option<Vec<oneshot::Sender<RedisResult<()>>>>,
    result: &RedisResult<()>,
) {
    for waiter in waiters.into_iter().flatten() {
        // An error means that the caller no longer waits.
        let _ = waiter.send(result.clone());
    }
}

/// Returns when the task should connect to another server, because this one is not the right primary any more.
async fn wait_until_wrong_server(endpoint: &mut PubSubEndpoint, current: &ServerAddress) {
    let is_wrong = match endpoint {
        PubSubEndpoint::Primary(primary) => primary
            .wait_for(|conn| conn.as_ref().is_some_and(|conn| conn.server != *current))
            .await
            .is_ok(),
        // A node that left the cluster, or was cut off from it, does not receive the messages of the other nodes.
        PubSubEndpoint::AnyClusterPrimary(core) => {
            let mut version = core.watch_topology();
            version
                .wait_for(|_| !core.is_primary(current))
                .await
                .is_ok()
        }
        // The channels of a node are moved one by one.
        PubSubEndpoint::ClusterNode(..) => false,
    };
    if !is_wrong {
        std::future::pending::<()>().await;
    }
}
