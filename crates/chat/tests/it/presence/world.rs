//! A store with nodes on it, whose time is moved by hand.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parlor_chat::context::{Context, Moment};
use parlor_chat::ids::{DeviceId, NodeId, SocketId, UserId};
use parlor_chat::keys::{Keyspace, PresenceLayout, Preset, Settings, TtlName};
use parlor_chat::nodes::Nodes;
use parlor_chat::presence::{Device, Presence, Status, UserStatus};
use parlor_store::{Event, ManualClock, Options, Store, Subscription};
use parlor_testkit::{Cluster, Redis, Valkey};

/// Less than a lease, so that nodes that renew in between keep theirs.
const STEP: Duration = Duration::from_secs(4);
pub const LEASE: Duration = Duration::from_secs(5);
pub const GRACE: Duration = Duration::from_secs(5);

pub struct World {
    pub store: Store,
    pub keys: Keyspace,
    pub layout: PresenceLayout,
    pub server: Option<Redis>,
    primaries: Vec<redis::Client>,
    /// The nodes that run.
    pub nodes: Vec<Presence>,
    events: Subscription,
}

/// What was announced: `online alice`.
pub type Announced = Vec<(String, u64)>;

impl World {
    /// On the strict engine, with hash tags: a step that leaves its slot fails.
    pub async fn embedded(layout: PresenceLayout) -> Self {
        let options = Options {
            strict: true,
            ..Options::default()
        };
        Self::open(options, layout, true, Vec::new()).await
    }

    /// On an engine that keeps its data in a folder, at the time of this clock.
    pub async fn on_disk(folder: &Path, clock: ManualClock, layout: PresenceLayout) -> Self {
        let options = Options {
            data: Some(folder.to_owned()),
            clock: Some(clock),
            ..Options::default()
        };
        Self::open(options, layout, false, Vec::new()).await
    }

    /// On Redis, with the documents' names.
    pub async fn redis(layout: PresenceLayout) -> Self {
        Self::server(Redis::start().await, layout).await
    }

    /// On Valkey.
    pub async fn valkey(layout: PresenceLayout) -> Self {
        Self::server(Valkey::start().await, layout).await
    }

    async fn server(server: Redis, layout: PresenceLayout) -> Self {
        let primaries = vec![server.client()];
        let options = patient(&server.url());
        let world = Self::open(options, layout, false, primaries).await;
        Self {
            server: Some(server),
            ..world
        }
    }

    /// On a cluster, from which everything is removed.
    pub async fn cluster(cluster: &mut Cluster, layout: PresenceLayout) -> Self {
        let primaries = cluster.primary_clients().await;
        for primary in &primaries {
            let mut connection = parlor_testkit::connect(primary).await.unwrap();
            let flush = redis::cmd("FLUSHALL");
            flush.exec_async(&mut connection).await.unwrap();
        }
        Self::open(patient(&cluster.url()), layout, true, primaries).await
    }

    async fn open(
        options: Options,
        layout: PresenceLayout,
        cluster: bool,
        primaries: Vec<redis::Client>,
    ) -> Self {
        let clock = Some(options.clock.clone().unwrap_or_default());
        let store = Store::open(Options { clock, ..options }).await.unwrap();
        let mut layouts = Preset::Parlor.layouts();
        layouts.presence = layout;
        let settings = Settings::from_layouts(Preset::Parlor, layouts);
        let keys = Keyspace::new(settings, cluster).unwrap();
        let events = store.bus().psubscribe("events:user.*").await.unwrap();
        let mut world = Self {
            store,
            keys,
            layout,
            server: None,
            primaries,
            nodes: Vec::new(),
            events,
        };
        world.node("n0").revive().await.unwrap();
        world.nodes.push(world.start("n0").await);
        world.nodes.push(world.start("n1").await);
        // Until the nodes may judge.
        world.pass(LEASE + GRACE).await;
        world
    }

    /// Forgets what was announced and what was missed.
    pub async fn listen_anew(&mut self) {
        let events = self.store.bus().psubscribe("events:user.*");
        self.events = events.await.unwrap();
    }

    /// Another node.
    pub async fn start(&self, id: &str) -> Presence {
        let presence = self.node(id);
        presence.start().await.unwrap();
        presence
    }

    /// A node that has not started.
    fn node(&self, id: &str) -> Presence {
        let ctx = Context::new(self.store.clone(), self.keys.clone());
        let nodes = Nodes::new(ctx.clone(), NodeId::new(id).unwrap(), GRACE);
        Presence::new(ctx, Arc::new(nodes))
    }

    pub fn ttl(&self) -> Duration {
        self.keys.ttl(TtlName::Presence)
    }

    pub fn now(&self) -> Moment {
        Moment(self.store.clock().now_ms())
    }

    /// Moves time, for the store's clock and for its keys.
    pub async fn advance(&self, by: Duration) {
        parlor_testkit::advance(&self.primaries, by, |by| self.store.clock().advance(by)).await;
    }

    /// Lets time pass while the nodes keep their leases, and nothing else happens.
    pub async fn pass(&self, by: Duration) {
        let mut left = by;
        while !left.is_zero() {
            let step = left.min(STEP);
            self.advance(step).await;
            for node in &self.nodes {
                node.renew().await.unwrap();
            }
            left -= step;
        }
    }

    /// What every node does once a second.
    pub async fn tick(&self) {
        for node in &self.nodes {
            node.renew().await.unwrap();
            node.flush_beats().await.unwrap();
            node.sweep().await.unwrap();
            node.reap().await.unwrap();
        }
    }

    /// Says that enough was announced; how often.
    async fn enough(&self) -> usize {
        let channel = "events:user.enough";
        if self.primaries.len() < 2 {
            self.store.bus().publish(channel, "").await.unwrap();
            return 1;
        }
        // The servers of a Cluster tell the reader each in its own time.
        for primary in &self.primaries {
            let mut connection = parlor_testkit::connect(primary).await.unwrap();
            let mut publish = redis::cmd("PUBLISH");
            publish.arg(channel).arg("");
            publish.exec_async(&mut connection).await.unwrap();
        }
        self.primaries.len()
    }

    /// What was announced since the last call, in order; on a Cluster that of each user is in order, and users by name.
    pub async fn announced(&mut self) -> Announced {
        let mut enough = self.enough().await;
        let mut announced = Announced::new();
        loop {
            let Some(Event::Message {
                channel, payload, ..
            }) = self.events.next().await
            else {
                panic!("the subscription ended or missed something");
            };
            let channel = String::from_utf8(channel.to_vec()).unwrap();
            let kind = channel.strip_prefix("events:user.").unwrap();
            if kind == "enough" {
                enough -= 1;
                if enough == 0 {
                    break;
                }
                continue;
            }
            let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
            let fields: Vec<_> = payload.as_object().unwrap().keys().collect();
            assert_eq!(fields, ["userId", "timestamp", "version"]);
            assert_eq!(payload["timestamp"].as_str().unwrap().len(), 24);
            let user = payload["userId"].as_str().unwrap();
            announced.push((
                format!("{kind} {user}"),
                payload["version"].as_u64().unwrap(),
            ));
        }
        if self.primaries.len() > 1 {
            announced.sort_by(|(a, _), (b, _)| a.split(' ').nth(1).cmp(&b.split(' ').nth(1)));
        }
        announced
    }

    /// [`announced`](Self::announced) without the versions.
    pub async fn news(&mut self) -> Vec<String> {
        let announced = self.announced().await;
        announced.into_iter().map(|(what, _)| what).collect()
    }

    pub async fn status(&self, who: &str) -> UserStatus {
        self.nodes[0].status(&user(who)).await.unwrap()
    }

    pub async fn is(&self, who: &str, status: Status) {
        let seen = self.status(who).await;
        assert_eq!(seen.status, status, "{seen:?}");
        assert!(!seen.degraded);
    }
}

/// A busy machine must not turn a test about answers into one about time.
fn patient(url: &str) -> Options {
    Options {
        timeout: Duration::from_secs(30),
        ..Options::new(url.parse().unwrap())
    }
}

pub fn user(id: &str) -> UserId {
    UserId::new(id).unwrap()
}

/// A socket of a user.
pub fn socket(who: &str, socket: &str) -> Device {
    Device::socket(user(who), SocketId::new(socket).unwrap())
}

/// A device of a user that comes by requests.
pub fn api(who: &str, id: &str) -> Device {
    Device::api(user(who), DeviceId::new(id).unwrap())
}
