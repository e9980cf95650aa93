//! Fixture: a store with nodes.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parlor_chat::context::ChatContext;
use parlor_chat::ids::{DeviceId, NodeId, SocketId};
use parlor_chat::keys::{KeySettings, Keyspace, PresenceLayout, Preset, TtlName};
use parlor_chat::nodes::LocalNode;
use parlor_chat::presence::{Device, Presence, PresenceStatus, UserStatus};
use parlor_store::{BusEvent, BusSubscription, ManualClock};

use crate::support::Fixture;
use crate::support::backend::TestBackend;
pub use crate::support::user;

/// Half a lease, so that nodes that renew in between keep their leases: keys of a server also expire in real time.
const HALF_LEASE: Duration = Duration::from_millis(2_500);
pub const LEASE: Duration = Duration::from_secs(5);
pub const GRACE: Duration = Duration::from_secs(5);

pub struct PresenceFixture {
    backend: TestBackend,
    pub keys: Keyspace,
    pub layout: PresenceLayout,
    /// The running nodes.
    pub nodes: Vec<Presence>,
    events: BusSubscription,
}

/// Published events with their version, for example `online alice`.
pub type PublishedEvents = Vec<(String, u64)>;

impl PresenceFixture {
    pub async fn on_disk(folder: &Path, clock: ManualClock, layout: PresenceLayout) -> Self {
        Self::on(TestBackend::on_disk(folder, clock).await, layout).await
    }

    /// Subscribes again, without the events that were published or lost before.
    pub async fn resubscribe(&mut self) {
        let events = self.store.bus().psubscribe("events:user.*");
        self.events = events.await.unwrap();
    }

    /// Creates and starts another node.
    pub async fn start(&self, id: &str) -> Presence {
        let presence = self.new_node(id);
        presence.start().await.unwrap();
        presence
    }

    /// Creates a node without starting it.
    fn new_node(&self, id: &str) -> Presence {
        let ctx = ChatContext::new(self.store.clone(), self.keys.clone());
        let nodes = LocalNode::new(ctx.clone(), NodeId::new(id).unwrap(), GRACE);
        Presence::new(ctx, Arc::new(nodes))
    }

    pub fn ttl(&self) -> Duration {
        self.keys.ttl(TtlName::Presence)
    }

    /// Advances the clock while the nodes keep their leases. The nodes do no other work.
    pub async fn pass(&self, by: Duration) {
        let mut left = by;
        // The calls before this one took some time.
        self.renew_leases().await;
        while !left.is_zero() {
            let step = left.min(HALF_LEASE);
            self.advance(step).await;
            self.renew_leases().await;
            left -= step;
        }
    }

    async fn renew_leases(&self) {
        for node in &self.nodes {
            node.renew_lease().await.unwrap();
        }
    }

    /// Runs the background work of every node once.
    pub async fn run_background_once(&self) {
        for node in &self.nodes {
            node.renew_lease().await.unwrap();
            node.flush_heartbeats().await.unwrap();
            node.sweep().await.unwrap();
            node.reap_dead_nodes().await.unwrap();
        }
    }

    /// Publishes the end marker. Returns how many times the marker is published.
    async fn publish_marker(&self) -> usize {
        let channel = "events:user.enough";
        if self.primaries.len() < 2 {
            self.store.bus().publish(channel, "").await.unwrap();
            return 1;
        }
        // In a Cluster the messages of different servers arrive in any order.
        for primary in &self.primaries {
            let mut connection = parlor_testkit::connect_with_test_timeout(primary)
                .await
                .unwrap();
            let mut publish = redis::cmd("PUBLISH");
            publish.arg(channel).arg("");
            publish.exec_async(&mut connection).await.unwrap();
        }
        self.primaries.len()
    }

    /// Returns the events since the last call in order. In a Cluster they are grouped by user.
    pub async fn drain_events(&mut self) -> PublishedEvents {
        let mut enough = self.publish_marker().await;
        let mut announced = PublishedEvents::new();
        loop {
            let Some(BusEvent::Message {
                channel, payload, ..
            }) = self.events.next().await
            else {
                panic!("the subscription ended or may have lost a message");
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

    /// [`drain_events`](Self::drain_events) without the versions.
    pub async fn drain_event_names(&mut self) -> Vec<String> {
        let announced = self.drain_events().await;
        announced.into_iter().map(|(what, _)| what).collect()
    }

    pub async fn status(&self, who: &str) -> UserStatus {
        self.nodes[0].status(&user(who)).await.unwrap()
    }

    pub async fn assert_status(&self, who: &str, status: PresenceStatus) {
        let seen = self.status(who).await;
        assert_eq!(seen.status, status, "{seen:?}");
        assert!(!seen.degraded);
    }
}

impl Fixture for PresenceFixture {
    async fn on(backend: TestBackend, (): ()) -> Self {
        Self::on(backend, PresenceLayout::Devices).await
    }
}

impl Fixture<PresenceLayout> for PresenceFixture {
    async fn on(backend: TestBackend, layout: PresenceLayout) -> Self {
        let mut layouts = Preset::Parlor.layouts();
        layouts.presence = layout;
        let mut settings = KeySettings::from_layouts(Preset::Parlor, layouts);
        settings.beat_registers = true;
        // Without other services, reading their entries changes nothing. The default of the layout `devices` is off.
        settings.presence_external = layout != PresenceLayout::Devices;
        Self::with_settings(backend, settings).await
    }
}

impl PresenceFixture {
    /// Starts two nodes with these settings.
    pub async fn with_settings(backend: TestBackend, settings: KeySettings) -> Self {
        let layout = settings.layouts.presence;
        let keys = backend.keys(settings);
        let events = backend.store.bus().psubscribe("events:user.*");
        let mut fixture = Self {
            events: events.await.unwrap(),
            keys,
            layout,
            nodes: Vec::new(),
            backend,
        };
        fixture
            .new_node("n0")
            .extend_deadlines_after_restart()
            .await
            .unwrap();
        fixture.nodes.push(fixture.start("n0").await);
        fixture.nodes.push(fixture.start("n1").await);
        // The nodes may expire others from now on.
        fixture.pass(LEASE + GRACE).await;
        fixture
    }
}

impl Deref for PresenceFixture {
    type Target = TestBackend;

    fn deref(&self) -> &TestBackend {
        &self.backend
    }
}

impl DerefMut for PresenceFixture {
    fn deref_mut(&mut self) -> &mut TestBackend {
        &mut self.backend
    }
}

/// A device with a socket.
pub fn socket_device(who: &str, socket: &str) -> Device {
    Device::with_socket(user(who), SocketId::new(socket).unwrap())
}

/// A device without a socket.
pub fn api_device(who: &str, id: &str) -> Device {
    Device::without_socket(user(who), DeviceId::new(id).unwrap())
}

/// A device with this id that has a socket, such as a browser tab.
pub fn tab_of(who: &str, device: &str, socket: &str) -> Device {
    Device {
        id: DeviceId::new(device).unwrap(),
        ..socket_device(who, socket)
    }
}
