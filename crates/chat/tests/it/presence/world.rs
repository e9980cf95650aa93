//! A store with nodes on it.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parlor_chat::context::Context;
use parlor_chat::ids::{DeviceId, NodeId, SocketId, UserId};
use parlor_chat::keys::{Keyspace, PresenceLayout, Preset, Settings, TtlName};
use parlor_chat::nodes::Nodes;
use parlor_chat::presence::{Device, Presence, Status, UserStatus};
use parlor_store::{Event, ManualClock, Subscription};
use parlor_testkit::Cluster;

use crate::ground::Ground;

/// Half a lease, so that nodes that renew in between keep theirs: a server's keys age in real time, too.
const STEP: Duration = Duration::from_millis(2_500);
pub const LEASE: Duration = Duration::from_secs(5);
pub const GRACE: Duration = Duration::from_secs(5);

pub struct World {
    ground: Ground,
    pub keys: Keyspace,
    pub layout: PresenceLayout,
    /// The nodes that run.
    pub nodes: Vec<Presence>,
    events: Subscription,
}

/// What was announced: `online alice`.
pub type Announced = Vec<(String, u64)>;

impl World {
    pub async fn embedded(layout: PresenceLayout) -> Self {
        Self::on(Ground::embedded().await, layout).await
    }

    pub async fn redis(layout: PresenceLayout) -> Self {
        Self::on(Ground::redis().await, layout).await
    }

    pub async fn valkey(layout: PresenceLayout) -> Self {
        Self::on(Ground::valkey().await, layout).await
    }

    pub async fn cluster(cluster: &mut Cluster, layout: PresenceLayout) -> Self {
        Self::on(Ground::cluster(cluster).await, layout).await
    }

    pub async fn on_disk(folder: &Path, clock: ManualClock, layout: PresenceLayout) -> Self {
        Self::on(Ground::on_disk(folder, clock).await, layout).await
    }

    async fn on(ground: Ground, layout: PresenceLayout) -> Self {
        let mut layouts = Preset::Parlor.layouts();
        layouts.presence = layout;
        let keys = ground.keys(Settings::from_layouts(Preset::Parlor, layouts));
        let events = ground.store.bus().psubscribe("events:user.*");
        let mut world = Self {
            events: events.await.unwrap(),
            keys,
            layout,
            nodes: Vec::new(),
            ground,
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

    /// Lets time pass while the nodes keep their leases, and nothing else happens.
    pub async fn pass(&self, by: Duration) {
        let mut left = by;
        // What was done before took its time.
        self.renew().await;
        while !left.is_zero() {
            let step = left.min(STEP);
            self.advance(step).await;
            self.renew().await;
            left -= step;
        }
    }

    async fn renew(&self) {
        for node in &self.nodes {
            node.renew().await.unwrap();
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

impl Deref for World {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Ground {
        &mut self.ground
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
