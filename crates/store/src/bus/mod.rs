//! The bus: publish and subscribe, the same on every backend.
//!
//! Invariants:
//! 1. A message that is published after `subscribe` has returned reaches the subscription, or the subscription gets
//!    [`BusEvent::MaybeMissed`].
//! 2. A node subscribes to a channel once, however many listeners it has, and unsubscribes after the last one is
//!    removed.
//! 3. A slow subscription delays no other one, because its queue is bounded. A [`BusListener`] has no queue and must
//!    not be slow.
//! 4. Messages of one channel arrive in the order in which they were published.

mod cluster_pubsub;
mod embedded_pubsub;
mod listener;
mod listener_registry;
mod pubsub_connection;
mod pubsub_task;
mod subscription_queue;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis::RedisResult;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout_at};

pub use self::listener::{BusListener, BusListenerGuard};

use self::cluster_pubsub::ClusterPubSub;
use self::embedded_pubsub::EmbeddedPubSub;
use self::listener_registry::{BusTopic, ListenerRegistry, TopicKind};
use self::pubsub_task::{PubSubCommand, PubSubEndpoint, PubSubTask};
use self::subscription_queue::SubscriptionQueue;
use crate::redis_backend::RedisDeployment;
use crate::redis_backend::connector::timeout_error;
use crate::store::StoreBackend;

/// Name of a channel or pattern. A clone copies a pointer.
pub type ChannelName = Arc<[u8]>;

/// Event that a [`BusSubscription`] yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusEvent {
    /// A message was published.
    Message {
        /// The channel.
        channel: ChannelName,
        /// The pattern, if the subscription has one.
        pattern: Option<ChannelName>,
        /// The payload.
        payload: Bytes,
    },
    /// Messages may be missing here: the connection was replaced, or this subscription was too slow.
    MaybeMissed,
}

/// Pause before a lost subscription request is repeated.
const RESUBSCRIBE_DELAY: Duration = Duration::from_millis(20);

/// Publishes and subscribes. Clones share all subscriptions.
#[derive(Clone)]
pub struct Bus {
    inner: Arc<BusInner>,
}

struct BusInner {
    backend: StoreBackend,
    registry: Arc<ListenerRegistry>,
    pubsub_tasks: PubSubTasks,
    has_sharded_pubsub: bool,
    timeout: Duration,
}

/// The tasks that own the pub/sub connections.
enum PubSubTasks {
    Embedded(EmbeddedPubSub),
    Single(PubSubTask),
    Cluster(ClusterPubSub),
}

impl Bus {
    pub(crate) fn open(backend: StoreBackend, timeout: Duration) -> Self {
        let registry = Arc::new(ListenerRegistry::default());
        let mut has_sharded_pubsub = false;
        let pubsub_tasks = match &backend {
            StoreBackend::Embedded(connection) => {
                let subscriber = connection.engine().subscriber();
                PubSubTasks::Embedded(EmbeddedPubSub::start(subscriber, &registry))
            }
            StoreBackend::Redis(redis) => match &redis.deployment {
                RedisDeployment::Single(pool) => PubSubTasks::Single(PubSubTask::start(
                    PubSubEndpoint::Primary(pool.primary()),
                    redis.connector.clone(),
                    Arc::clone(&registry),
                )),
                RedisDeployment::Cluster(cluster) => {
                    has_sharded_pubsub = cluster.core().supports_sharded_pubsub();
                    let core = Arc::clone(cluster.core());
                    PubSubTasks::Cluster(ClusterPubSub::start(core, Arc::clone(&registry)))
                }
            },
        };
        Self {
            inner: Arc::new(BusInner {
                backend,
                registry,
                pubsub_tasks,
                has_sharded_pubsub,
                timeout,
            }),
        }
    }

    /// Publishes to a channel. Returns the number of subscribers that got the message from the server (on a Cluster:
    /// from one node).
    pub async fn publish(
        &self,
        channel: impl AsRef<[u8]>,
        payload: impl AsRef<[u8]>,
    ) -> RedisResult<u64> {
        self.send_publish("PUBLISH", channel.as_ref(), payload.as_ref())
            .await
    }

    /// Publishes to a channel of one shard of a Cluster, for tests; scripts use
    /// [`publish_command`](Self::publish_command). On other stores it does the same as [`publish`](Self::publish).
    pub async fn publish_sharded(
        &self,
        channel: impl AsRef<[u8]>,
        payload: impl AsRef<[u8]>,
    ) -> RedisResult<u64> {
        self.send_publish(self.publish_command(), channel.as_ref(), payload.as_ref())
            .await
    }

    /// Passes a payload to the sharded listeners of a channel on this node, as if it had been published. No other node
    /// gets it, and the store need not be available.
    pub fn deliver_locally(&self, channel: impl AsRef<[u8]>, payload: Bytes) {
        let kind = self.sharded_topic_kind();
        let registry = &self.inner.registry;
        registry.deliver(kind, channel.as_ref(), None, payload);
    }

    /// Command with which scripts publish to sharded channels: `SPUBLISH` on a Cluster since Redis 7, otherwise
    /// `PUBLISH`. Scripts get it as an argument.
    pub fn publish_command(&self) -> &'static str {
        if self.inner.has_sharded_pubsub {
            "SPUBLISH"
        } else {
            "PUBLISH"
        }
    }

    /// Adds a listener to a channel. It gets every message that is published after this call returns.
    pub async fn add_listener(
        &self,
        channel: impl AsRef<[u8]>,
        listener: Arc<dyn BusListener>,
    ) -> RedisResult<BusListenerGuard> {
        self.register_listener(TopicKind::Plain, channel.as_ref(), listener)
            .await
    }

    /// Adds a listener for messages of [`publish_sharded`](Self::publish_sharded), and of scripts that use
    /// [`publish_command`](Self::publish_command).
    pub async fn add_sharded_listener(
        &self,
        channel: impl AsRef<[u8]>,
        listener: Arc<dyn BusListener>,
    ) -> RedisResult<BusListenerGuard> {
        self.register_listener(self.sharded_topic_kind(), channel.as_ref(), listener)
            .await
    }

    /// Subscribes to a channel.
    pub async fn subscribe(&self, channel: impl AsRef<[u8]>) -> RedisResult<BusSubscription> {
        self.open_subscription(TopicKind::Plain, channel.as_ref())
            .await
    }

    /// Subscribes to messages of [`publish_sharded`](Self::publish_sharded), and of scripts that use
    /// [`publish_command`](Self::publish_command).
    pub async fn subscribe_sharded(
        &self,
        channel: impl AsRef<[u8]>,
    ) -> RedisResult<BusSubscription> {
        self.open_subscription(self.sharded_topic_kind(), channel.as_ref())
            .await
    }

    /// Subscribes to all channels that match a pattern in Redis's glob style, for tests. On a Cluster, sharded channels
    /// match no pattern.
    pub async fn psubscribe(&self, pattern: impl AsRef<[u8]>) -> RedisResult<BusSubscription> {
        self.open_subscription(TopicKind::Pattern, pattern.as_ref())
            .await
    }

    fn sharded_topic_kind(&self) -> TopicKind {
        match self.inner.has_sharded_pubsub {
            true => TopicKind::Sharded,
            false => TopicKind::Plain,
        }
    }

    async fn send_publish(
        &self,
        command: &str,
        channel: &[u8],
        payload: &[u8],
    ) -> RedisResult<u64> {
        let mut cmd = redis::cmd(command);
        cmd.arg(channel).arg(payload);
        let reply = self.inner.backend.execute(&cmd, false).await?;
        Ok(redis::from_redis_value(reply.extract_error()?)?)
    }

    async fn open_subscription(
        &self,
        kind: TopicKind,
        name: &[u8],
    ) -> RedisResult<BusSubscription> {
        let queue = Arc::new(SubscriptionQueue::default());
        let listener = Arc::clone(&queue) as Arc<dyn BusListener>;
        let guard = self.register_listener(kind, name, listener).await?;
        Ok(BusSubscription { queue, guard })
    }

    async fn register_listener(
        &self,
        kind: TopicKind,
        name: &[u8],
        listener: Arc<dyn BusListener>,
    ) -> RedisResult<BusListenerGuard> {
        let deadline = Instant::now() + self.inner.timeout;
        let topic = BusTopic {
            kind,
            name: name.into(),
        };
        let guard = BusListenerGuard {
            topic,
            listener,
            bus: Arc::clone(&self.inner),
        };
        let subscribe = |confirmation| {
            self.inner.pubsub_tasks.send(PubSubCommand::Subscribe {
                topic: guard.topic.clone(),
                notify_gap: false,
                confirmation: Some(confirmation),
            });
        };
        let (sender, mut confirmation) = oneshot::channel();
        let registry = &self.inner.registry;
        registry.add(&guard.topic, &guard.listener, || subscribe(sender));
        loop {
            match timeout_at(deadline.into(), confirmation).await {
                Ok(Ok(result)) => return result.map(|()| guard),
                // The task that had the request is gone or could not serve it. The request is repeated for the task in
                // charge now.
                Ok(Err(_)) if Instant::now() < deadline => {
                    sleep(RESUBSCRIBE_DELAY).await;
                    let (sender, next) = oneshot::channel();
                    confirmation = next;
                    subscribe(sender);
                }
                _ => {
                    return Err(timeout_error(
                        "the store did not confirm the subscription in time",
                    ));
                }
            }
        }
    }

    pub(crate) fn close(&self) {
        self.inner.registry.close();
        match &self.inner.pubsub_tasks {
            PubSubTasks::Embedded(embedded) => embedded.stop(),
            PubSubTasks::Single(task) => task.stop(),
            PubSubTasks::Cluster(cluster) => cluster.stop(),
        }
    }
}

impl PubSubTasks {
    fn send(&self, command: PubSubCommand) {
        match self {
            Self::Embedded(embedded) => embedded.send(command),
            Self::Single(task) => task.send(command),
            Self::Cluster(cluster) => cluster.send(command),
        }
    }
}

/// Subscription to a channel or pattern, with a bounded queue. Dropping it unsubscribes.
#[must_use = "a subscription ends when it is dropped"]
pub struct BusSubscription {
    queue: Arc<SubscriptionQueue>,
    guard: BusListenerGuard,
}

impl BusSubscription {
    /// Returns the next event, or `None` after the store was closed. Cancel safe.
    pub async fn next(&mut self) -> Option<BusEvent> {
        self.queue.0.next().await
    }

    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<BusEvent> {
        self.queue.0.try_next()
    }
}

impl std::fmt::Debug for BusSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BusSubscription({:?})", self.guard)
    }
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bus({})", self.publish_command())
    }
}
