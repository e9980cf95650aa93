//! The bus: publish and subscribe, the same on every engine.
//!
//! Always true:
//! 1. What is published after `subscribe` returned reaches the subscription, or the subscription is told
//!    [`Event::MaybeMissed`].
//! 2. A channel is subscribed to once on the server while anybody here listens, and not a moment longer than needed.
//! 3. A slow reader costs nobody but itself: its queue is bounded. A [`Sink`] has none, and must not be slow.
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

/// Before a subscription is asked for again that nobody could take.
const RESUBSCRIBE_DELAY: Duration = Duration::from_millis(20);

/// Publishes and subscribes. Clones share everything.
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

/// The connections that carry the subscriptions.
enum PubSubTasks {
    /// Needed for patterns only: to channels the engine listens as the registry says.
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

    /// Publishes on a channel; how many subscribers the server sent it to (on a Cluster: those of one node).
    pub async fn publish(
        &self,
        channel: impl AsRef<[u8]>,
        payload: impl AsRef<[u8]>,
    ) -> RedisResult<u64> {
        self.send("PUBLISH", channel.as_ref(), payload.as_ref())
            .await
    }

    /// Publishes on a channel that lives on one shard of a Cluster; elsewhere the same as [`publish`](Self::publish).
    pub async fn publish_sharded(
        &self,
        channel: impl AsRef<[u8]>,
        payload: impl AsRef<[u8]>,
    ) -> RedisResult<u64> {
        self.send(self.publish_command(), channel.as_ref(), payload.as_ref())
            .await
    }

    /// The command by which scripts publish on sharded channels: `SPUBLISH` where it has a use (on a Cluster since
    /// Redis 7), else `PUBLISH`. Scripts take it as an argument.
    pub fn publish_command(&self) -> &'static str {
        if self.inner.has_sharded_pubsub {
            "SPUBLISH"
        } else {
            "PUBLISH"
        }
    }

    /// Calls a sink with what is published on a channel, from when this returns.
    pub async fn add_listener(
        &self,
        channel: impl AsRef<[u8]>,
        sink: Arc<dyn BusListener>,
    ) -> RedisResult<BusListenerGuard> {
        self.register_listener(TopicKind::Plain, channel.as_ref(), sink)
            .await
    }

    /// Calls a sink with what is published by [`publish_sharded`](Self::publish_sharded) or a script with
    /// [`publish_command`](Self::publish_command).
    pub async fn add_sharded_listener(
        &self,
        channel: impl AsRef<[u8]>,
        sink: Arc<dyn BusListener>,
    ) -> RedisResult<BusListenerGuard> {
        self.register_listener(self.sharded_topic_kind(), channel.as_ref(), sink)
            .await
    }

    /// Listens to a channel.
    pub async fn subscribe(&self, channel: impl AsRef<[u8]>) -> RedisResult<BusSubscription> {
        self.queue(TopicKind::Plain, channel.as_ref()).await
    }

    /// Listens to a channel that is published to by [`publish_sharded`](Self::publish_sharded) or a script with
    /// [`publish_command`](Self::publish_command).
    pub async fn subscribe_sharded(
        &self,
        channel: impl AsRef<[u8]>,
    ) -> RedisResult<BusSubscription> {
        self.queue(self.sharded_topic_kind(), channel.as_ref())
            .await
    }

    /// Listens to all channels whose name matches a pattern, in Redis's glob style. Sharded channels match none.
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
                // The connection that was asked is gone: ask whoever is in charge now.
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
    /// Whether they have to be told what is listened to.
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

/// One reader of a channel or pattern: a bounded queue. Dropping it ends the subscription.
#[must_use = "a subscription ends when it is dropped"]
pub struct BusSubscription {
    queue: Arc<SubscriptionQueue>,
    guard: BusListenerGuard,
}

impl BusSubscription {
    /// The next event; none when the store was closed. Safe to cancel.
    pub async fn next(&mut self) -> Option<BusEvent> {
        self.queue.next().await
    }

    /// The next event, if one is there already.
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
