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

mod cluster;
mod embedded;
mod lane;
pub(crate) mod queue;
pub(crate) mod registry;
mod sink;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, RedisResult};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout_at};

pub use self::queue::{BusEvent, ChannelName};
pub use self::sink::{BusListener, BusListenerGuard};

use self::cluster::ClusterPubSub;
use self::lane::{PubSubCommand, PubSubEndpoint, PubSubTask};
use self::queue::SubscriptionQueue;
use self::registry::{BusTopic, ListenerRegistry, TopicKind};
use crate::clock::monotonic;
use crate::redis::connect::timeout_error;
use crate::store::StoreBackend;

/// Pause before a lost subscription request is repeated.
const RESUBSCRIBE_DELAY: Duration = Duration::from_millis(20);

/// Publishes and subscribes. Clones share all subscriptions.
#[derive(Clone)]
pub struct Bus {
    inner: Arc<BusInner>,
}

struct BusInner {
    engine: Arc<StoreBackend>,
    registry: Arc<ListenerRegistry>,
    pubsub_tasks: PubSubTasks,
    has_sharded_pubsub: bool,
    timeout: Duration,
}

/// The tasks that own the pub/sub connections.
enum PubSubTasks {
    /// Serves patterns only. Plain channels are looked up in the listener registry by the engine.
    Embedded(PubSubTask),
    Single(PubSubTask),
    Cluster(ClusterPubSub),
}

impl Bus {
    pub(crate) fn open(engine: &Arc<StoreBackend>, timeout: Duration) -> Self {
        let registry = Arc::new(ListenerRegistry::default());
        let mut sharded = false;
        let lanes = match &**engine {
            StoreBackend::Embedded(engine) => {
                let subscriber = engine.subscriber();
                PubSubTasks::Embedded(embedded::start(subscriber, Arc::clone(&registry)))
            }
            StoreBackend::Redis(redis) => match redis.cluster() {
                Some(core) => {
                    sharded = core.supports_sharded_pubsub();
                    PubSubTasks::Cluster(ClusterPubSub::start(
                        Arc::clone(core),
                        Arc::clone(&registry),
                    ))
                }
                None => {
                    let primaries = redis.primary_pools().into_iter().map(|link| link.primary());
                    let source = PubSubEndpoint::Primary(
                        primaries
                            .last()
                            .expect("a store that is not a Cluster has one pool"),
                    );
                    PubSubTasks::Single(PubSubTask::start(
                        source,
                        redis.connector().clone(),
                        Arc::clone(&registry),
                    ))
                }
            },
        };
        Self {
            inner: Arc::new(BusInner {
                engine: Arc::clone(engine),
                registry,
                pubsub_tasks: lanes,
                has_sharded_pubsub: sharded,
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
        self.send("PUBLISH", channel.as_ref(), payload.as_ref())
            .await
    }

    /// Publishes to a channel of one shard of a Cluster. On other stores it does the same as
    /// [`publish`](Self::publish).
    pub async fn publish_sharded(
        &self,
        channel: impl AsRef<[u8]>,
        payload: impl AsRef<[u8]>,
    ) -> RedisResult<u64> {
        self.send(self.publish_command(), channel.as_ref(), payload.as_ref())
            .await
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
        sink: Arc<dyn BusListener>,
    ) -> RedisResult<BusListenerGuard> {
        self.register_listener(TopicKind::Plain, channel.as_ref(), sink)
            .await
    }

    /// Adds a listener for messages of [`publish_sharded`](Self::publish_sharded), and of scripts that use
    /// [`publish_command`](Self::publish_command).
    pub async fn add_sharded_listener(
        &self,
        channel: impl AsRef<[u8]>,
        sink: Arc<dyn BusListener>,
    ) -> RedisResult<BusListenerGuard> {
        self.register_listener(self.sharded_topic_kind(), channel.as_ref(), sink)
            .await
    }

    /// Subscribes to a channel.
    pub async fn subscribe(&self, channel: impl AsRef<[u8]>) -> RedisResult<BusSubscription> {
        self.queue(TopicKind::Plain, channel.as_ref()).await
    }

    /// Subscribes to messages of [`publish_sharded`](Self::publish_sharded), and of scripts that use
    /// [`publish_command`](Self::publish_command).
    pub async fn subscribe_sharded(
        &self,
        channel: impl AsRef<[u8]>,
    ) -> RedisResult<BusSubscription> {
        self.queue(self.sharded_topic_kind(), channel.as_ref())
            .await
    }

    /// Subscribes to all channels that match a pattern in Redis's glob style. On a Cluster, sharded channels match no
    /// pattern.
    pub async fn psubscribe(&self, pattern: impl AsRef<[u8]>) -> RedisResult<BusSubscription> {
        self.queue(TopicKind::Pattern, pattern.as_ref()).await
    }

    fn sharded_topic_kind(&self) -> TopicKind {
        match self.inner.has_sharded_pubsub {
            true => TopicKind::Sharded,
            false => TopicKind::Plain,
        }
    }

    async fn send(&self, command: &str, channel: &[u8], payload: &[u8]) -> RedisResult<u64> {
        let mut cmd: Cmd = redis::cmd(command);
        cmd.arg(channel).arg(payload);
        let reply = self
            .inner
            .engine
            .execute(&cmd, false)
            .await?
            .extract_error()?;
        Ok(redis::from_redis_value(reply)?)
    }

    async fn queue(&self, kind: TopicKind, name: &[u8]) -> RedisResult<BusSubscription> {
        let queue = Arc::new(SubscriptionQueue::default());
        let sink = Arc::clone(&queue) as Arc<dyn BusListener>;
        let listening = self.register_listener(kind, name, sink).await?;
        Ok(BusSubscription {
            queue,
            guard: listening,
        })
    }

    async fn register_listener(
        &self,
        kind: TopicKind,
        name: &[u8],
        sink: Arc<dyn BusListener>,
    ) -> RedisResult<BusListenerGuard> {
        let deadline = monotonic() + self.inner.timeout;
        let topic = BusTopic {
            kind,
            name: name.into(),
        };
        let listening = BusListenerGuard {
            topic,
            sink,
            bus: Arc::clone(&self.inner),
        };
        let BusListenerGuard { topic, sink, .. } = &listening;
        if !self.inner.pubsub_tasks.needs_subscribe(kind) {
            self.inner.registry.add(topic, sink, || {});
            return Ok(listening);
        }
        let (done, mut confirmed) = oneshot::channel();
        let want = PubSubCommand::Subscribe {
            topic: topic.clone(),
            owed: false,
            confirmation: Some(done),
        };
        let registry = &self.inner.registry;
        registry.add(topic, sink, || self.inner.pubsub_tasks.send(want));
        loop {
            match timeout_at(deadline.into(), confirmed).await {
                Ok(Ok(answer)) => return answer.map(|()| listening),
                // The task that had the request is gone or could not serve it. The request is repeated for the task in
                // charge now.
                Ok(Err(_)) if monotonic() < deadline => {
                    sleep(RESUBSCRIBE_DELAY).await;
                    let (done, next) = oneshot::channel();
                    confirmed = next;
                    self.inner.pubsub_tasks.send(PubSubCommand::Subscribe {
                        topic: listening.topic.clone(),
                        owed: false,
                        confirmation: Some(done),
                    });
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
            PubSubTasks::Embedded(lane) | PubSubTasks::Single(lane) => lane.stop(),
            PubSubTasks::Cluster(lanes) => lanes.end(),
        }
    }
}

impl PubSubTasks {
    /// Whether the task needs a request for each subscription of this kind.
    fn needs_subscribe(&self, kind: TopicKind) -> bool {
        !matches!(self, Self::Embedded(_)) || kind != TopicKind::Plain
    }

    fn send(&self, command: PubSubCommand) {
        match self {
            Self::Embedded(lane) | Self::Single(lane) => lane.send(command),
            Self::Cluster(lanes) => lanes.send(command),
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
        self.queue.next().await
    }

    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<BusEvent> {
        self.queue.pop()
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
