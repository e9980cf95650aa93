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

pub use self::queue::{Event, Name};
pub use self::sink::{Listening, Sink};

use self::cluster::ClusterLanes;
use self::lane::{Command, Lane, Source};
use self::queue::Queue;
use self::registry::{Kind, Registry, Topic};
use crate::clock::monotonic;
use crate::redis::connect::timed_out;
use crate::store::Engine;

/// Before a subscription is asked for again that nobody could take.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Publishes and subscribes. Clones share everything.
#[derive(Clone)]
pub struct Bus {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<Engine>,
    registry: Arc<Registry>,
    lanes: Lanes,
    sharded: bool,
    timeout: Duration,
}

/// The connections that carry the subscriptions.
enum Lanes {
    /// Needed for patterns only: to channels the engine listens as the registry says.
    Embedded(Lane),
    One(Lane),
    Cluster(ClusterLanes),
}

impl Bus {
    pub(crate) fn open(engine: &Arc<Engine>, timeout: Duration) -> Self {
        let registry = Arc::new(Registry::default());
        let mut sharded = false;
        let lanes = match &**engine {
            Engine::Embedded(engine) => {
                let subscriber = engine.subscriber();
                Lanes::Embedded(embedded::start(subscriber, Arc::clone(&registry)))
            }
            Engine::Redis(redis) => match redis.cluster() {
                Some(core) => {
                    sharded = core.is_sharded();
                    Lanes::Cluster(ClusterLanes::start(Arc::clone(core), Arc::clone(&registry)))
                }
                None => {
                    let primaries = redis.links().into_iter().map(|link| link.primary());
                    let source = Source::Primary(
                        primaries
                            .last()
                            .expect("a store that is no cluster has one link"),
                    );
                    Lanes::One(Lane::start(
                        source,
                        redis.dialer().clone(),
                        Arc::clone(&registry),
                    ))
                }
            },
        };
        Self {
            inner: Arc::new(Inner {
                engine: Arc::clone(engine),
                registry,
                lanes,
                sharded,
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
        if self.inner.sharded {
            "SPUBLISH"
        } else {
            "PUBLISH"
        }
    }

    /// Calls a sink with what is published on a channel, from when this returns.
    pub async fn listen(
        &self,
        channel: impl AsRef<[u8]>,
        sink: Arc<dyn Sink>,
    ) -> RedisResult<Listening> {
        self.attach(Kind::Plain, channel.as_ref(), sink).await
    }

    /// Calls a sink with what is published by [`publish_sharded`](Self::publish_sharded) or a script with
    /// [`publish_command`](Self::publish_command).
    pub async fn listen_sharded(
        &self,
        channel: impl AsRef<[u8]>,
        sink: Arc<dyn Sink>,
    ) -> RedisResult<Listening> {
        self.attach(self.shard_kind(), channel.as_ref(), sink).await
    }

    /// Listens to a channel.
    pub async fn subscribe(&self, channel: impl AsRef<[u8]>) -> RedisResult<Subscription> {
        self.queue(Kind::Plain, channel.as_ref()).await
    }

    /// Listens to a channel that is published to by [`publish_sharded`](Self::publish_sharded) or a script with
    /// [`publish_command`](Self::publish_command).
    pub async fn subscribe_sharded(&self, channel: impl AsRef<[u8]>) -> RedisResult<Subscription> {
        self.queue(self.shard_kind(), channel.as_ref()).await
    }

    /// Listens to all channels whose name matches a pattern, in Redis's glob style. Sharded channels match none.
    pub async fn psubscribe(&self, pattern: impl AsRef<[u8]>) -> RedisResult<Subscription> {
        self.queue(Kind::Pattern, pattern.as_ref()).await
    }

    fn shard_kind(&self) -> Kind {
        match self.inner.sharded {
            true => Kind::Sharded,
            false => Kind::Plain,
        }
    }

    async fn send(&self, command: &str, channel: &[u8], payload: &[u8]) -> RedisResult<u64> {
        let mut cmd: Cmd = redis::cmd(command);
        cmd.arg(channel).arg(payload);
        let reply = self
            .inner
            .engine
            .command(&cmd, false)
            .await?
            .extract_error()?;
        Ok(redis::from_redis_value(reply)?)
    }

    async fn queue(&self, kind: Kind, name: &[u8]) -> RedisResult<Subscription> {
        let queue = Arc::new(Queue::default());
        let sink = Arc::clone(&queue) as Arc<dyn Sink>;
        let listening = self.attach(kind, name, sink).await?;
        Ok(Subscription { queue, listening })
    }

    async fn attach(&self, kind: Kind, name: &[u8], sink: Arc<dyn Sink>) -> RedisResult<Listening> {
        let deadline = monotonic() + self.inner.timeout;
        let topic = Topic {
            kind,
            name: name.into(),
        };
        let listening = Listening {
            topic,
            sink,
            bus: Arc::clone(&self.inner),
        };
        let Listening { topic, sink, .. } = &listening;
        if !self.inner.lanes.carry(kind) {
            self.inner.registry.add(topic, sink, || {});
            return Ok(listening);
        }
        let (done, mut confirmed) = oneshot::channel();
        let want = Command::Want {
            topic: topic.clone(),
            owed: false,
            done: Some(done),
        };
        let registry = &self.inner.registry;
        registry.add(topic, sink, || self.inner.lanes.send(want));
        loop {
            match timeout_at(deadline.into(), confirmed).await {
                Ok(Ok(answer)) => return answer.map(|()| listening),
                // The connection that was asked is gone: ask whoever is in charge now.
                Ok(Err(_)) if monotonic() < deadline => {
                    sleep(ASK_AGAIN).await;
                    let (done, next) = oneshot::channel();
                    confirmed = next;
                    self.inner.lanes.send(Command::Want {
                        topic: listening.topic.clone(),
                        owed: false,
                        done: Some(done),
                    });
                }
                _ => {
                    return Err(timed_out(
                        "the store did not confirm the subscription in time",
                    ));
                }
            }
        }
    }

    pub(crate) fn close(&self) {
        self.inner.registry.close();
        match &self.inner.lanes {
            Lanes::Embedded(lane) | Lanes::One(lane) => lane.end(),
            Lanes::Cluster(lanes) => lanes.end(),
        }
    }
}

impl Lanes {
    /// Whether they have to be told what is listened to.
    fn carry(&self, kind: Kind) -> bool {
        !matches!(self, Self::Embedded(_)) || kind != Kind::Plain
    }

    fn send(&self, command: Command) {
        match self {
            Self::Embedded(lane) | Self::One(lane) => lane.send(command),
            Self::Cluster(lanes) => lanes.send(command),
        }
    }
}

/// One reader of a channel or pattern: a bounded queue. Dropping it ends the subscription.
#[must_use = "a subscription ends when it is dropped"]
pub struct Subscription {
    queue: Arc<Queue>,
    listening: Listening,
}

impl Subscription {
    /// The next event; none when the store was closed. Safe to cancel.
    pub async fn next(&mut self) -> Option<Event> {
        self.queue.next().await
    }

    /// The next event, if one is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        self.queue.pop()
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscription({:?})", self.listening)
    }
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bus({})", self.publish_command())
    }
}
