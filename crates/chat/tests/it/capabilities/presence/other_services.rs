//! Another service writes the keys of the layouts `devices` and `sockets`, with the commands of its document.

use std::time::Duration;

use parlor_chat::keys::{KeySettings, PresenceLayout, Preset};
use parlor_chat::presence::PresenceStatus;
use redis::FromRedisValue;

use super::fixture::{GRACE, LEASE, PresenceFixture, api_device, socket_device, user};
use crate::support::Fixture;
use crate::support::backend::TestBackend;

/// A store that Parlor shares with the services of a document.
pub struct SharedStore(pub PresenceFixture);

impl Fixture<Preset> for SharedStore {
    async fn on(backend: TestBackend, preset: Preset) -> Self {
        let settings = KeySettings::from_preset(preset);
        Self(PresenceFixture::with_settings(backend, settings).await)
    }
}

impl SharedStore {
    /// Executes a command of the other service. `<>` stands for Alice in a key.
    pub async fn run<T: FromRedisValue>(&self, command: &str) -> T {
        let tag = match self.0.keys.cluster() {
            true => "{alice}",
            false => "alice",
        };
        let mut words = command.split(' ').map(|word| word.replace("<>", tag));
        let mut cmd = redis::cmd(&words.next().unwrap());
        for word in words {
            cmd.arg(word);
        }
        cmd.query_async(&mut self.0.store.clone()).await.unwrap()
    }

    /// Status of Alice, and whether another service keeps her online.
    pub async fn status(&self) -> (PresenceStatus, bool) {
        let status = self.0.status("alice").await;
        (status.status, status.external)
    }
}

/// Declares a test per body and engine, in a preset.
macro_rules! beside_services {
    ($preset:ident: $($body:ident;)+) => { $(
        mod $body {
            crate::support::test_on_engines!(super::$body, parlor_chat::keys::Preset::$preset);
        }
    )+ };
}
pub(super) use beside_services;

pub const ONLINE: (PresenceStatus, bool) = (PresenceStatus::Online, false);
pub const EXTERNAL: (PresenceStatus, bool) = (PresenceStatus::Online, true);
pub const OFFLINE: (PresenceStatus, bool) = (PresenceStatus::Offline, false);

beside_services! { Rooms:
    fields_of_another_gateway_stay;
    a_lost_connection_does_not_shorten_the_ttl_of_a_shared_hash;
    a_user_of_another_gateway_alone_is_external;
}

beside_services! { ChatService:
    sockets_of_another_gateway_stay;
    a_user_stays_online_until_the_last_gateway_has_no_socket;
    a_device_without_a_socket_is_named_with_its_user;
    the_last_node_that_stops_lets_its_flags_expire;
    the_last_node_that_stops_keeps_the_sockets_of_another_gateway;
}

async fn fields_of_another_gateway_stay(mut shared: SharedStore) {
    let set: u64 = shared
        .run(r#"HSET presence:user:<> gw {"serverId":"gateway-1"}"#)
        .await;
    assert_eq!(set, 1);
    let _: bool = shared.run("EXPIRE presence:user:<> 60").await;
    assert_eq!(shared.status().await, EXTERNAL);
    let (fixture, phone) = (&mut shared.0, socket_device("alice", "s1"));
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    fixture.nodes[0].heartbeat(&phone).unwrap();
    fixture.run_background_once().await;
    for status in [PresenceStatus::Away, PresenceStatus::Offline] {
        let set = fixture.nodes[0].set_status(&user("alice"), status).await;
        assert_eq!(set.unwrap().status, status);
    }
    fixture.nodes[0]
        .set_status(&user("alice"), PresenceStatus::Online)
        .await
        .unwrap();
    fixture.nodes[0].disconnect(&phone).await.unwrap();
    // The other gateway made her online and keeps her online: only the invisible time in between is published.
    assert_eq!(
        fixture.drain_event_names().await,
        ["offline alice", "online alice"]
    );
    let fields: Vec<String> = shared.run("HKEYS presence:user:<>").await;
    assert_eq!(fields, ["gw"]);
    assert_eq!(shared.status().await, EXTERNAL);
    // Its gateway removes the field. Parlor notices it with the next check.
    let _: u64 = shared.run("HDEL presence:user:<> gw").await;
    assert_eq!(shared.status().await, OFFLINE);
    shared.0.pass(shared.0.ttl()).await;
    shared.0.run_background_once().await;
    assert_eq!(shared.0.drain_event_names().await, ["offline alice"]);
}

async fn a_lost_connection_does_not_shorten_the_ttl_of_a_shared_hash(shared: SharedStore) {
    let _: u64 = shared.run("HSET presence:user:<> gw {}").await;
    let _: bool = shared.run("EXPIRE presence:user:<> 50").await;
    let (fixture, phone) = (&shared.0, socket_device("alice", "s1"));
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    fixture.nodes[0].connection_lost(&phone).await.unwrap();
    let left: i64 = shared.run("PTTL presence:user:<>").await;
    assert!(left > 30_000, "{left}");
    fixture.pass(GRACE).await;
    fixture.run_background_once().await;
    let fields: Vec<String> = shared.run("HKEYS presence:user:<>").await;
    assert_eq!(fields, ["gw"]);
    // A hash without a TTL gets none.
    let _: bool = shared.run("PERSIST presence:user:<>").await;
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    fixture.nodes[0].heartbeat(&phone).unwrap();
    fixture.run_background_once().await;
    let left: i64 = shared.run("PTTL presence:user:<>").await;
    assert_eq!(left, -1);
}

async fn a_user_of_another_gateway_alone_is_external(shared: SharedStore) {
    let mut watcher = shared.0.nodes[0].new_watcher();
    let _: u64 = shared.run("HSET presence:user:<> gw {}").await;
    let now = watcher.watch(&[user("alice"), user("bob")]).await.unwrap();
    assert_eq!((now[0].status, now[0].external), EXTERNAL);
    assert_eq!((now[1].status, now[1].external), OFFLINE);
    // A status needs a device of Parlor, except `offline`.
    let node = &shared.0.nodes[0];
    let busy = node.set_status(&user("alice"), PresenceStatus::Busy).await;
    assert!(busy.unwrap().external);
    let hidden = node
        .set_status(&user("alice"), PresenceStatus::Offline)
        .await;
    assert_eq!(hidden.unwrap().status, PresenceStatus::Offline);
    assert_eq!(shared.status().await, OFFLINE);
    let fields: Vec<String> = shared.run("HKEYS presence:user:<>").await;
    assert_eq!(fields, ["gw"]);
}

async fn sockets_of_another_gateway_stay(mut shared: SharedStore) {
    let _: u64 = shared.run("SADD user:<>:sockets other").await;
    let _: () = shared.run("SET user:<>:online true").await;
    assert_eq!(shared.status().await, EXTERNAL);
    let (fixture, phone) = (&mut shared.0, socket_device("alice", "s1"));
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    fixture.nodes[0].disconnect(&phone).await.unwrap();
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, Vec::<String>::new());
    let members: Vec<String> = shared.run("SMEMBERS user:<>:sockets").await;
    assert_eq!(members, ["other"]);
    let flag: String = shared.run("GET user:<>:online").await;
    assert_eq!(flag, "true");
    assert_eq!(shared.status().await, EXTERNAL);
    // The other gateway removes its socket, and publishes the event itself.
    let _: u64 = shared.run("SREM user:<>:sockets other").await;
    let _: () = shared.run("SET user:<>:online false").await;
    shared.0.pass(shared.0.ttl()).await;
    shared.0.run_background_once().await;
    assert_eq!(shared.status().await, OFFLINE);
    assert_eq!(shared.0.drain_event_names().await, Vec::<String>::new());
}

async fn a_user_stays_online_until_the_last_gateway_has_no_socket(mut shared: SharedStore) {
    let (fixture, phone) = (&mut shared.0, socket_device("alice", "s1"));
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    let _: u64 = shared.run("SADD user:<>:sockets other").await;
    // The other gateway leaves first: the set is not empty, so it does not set `false`.
    let _: u64 = shared.run("SREM user:<>:sockets other").await;
    let left: u64 = shared.run("SCARD user:<>:sockets").await;
    assert_eq!((left, shared.status().await), (1, ONLINE));
    shared.0.nodes[0].disconnect(&phone).await.unwrap();
    let flag: String = shared.run("GET user:<>:online").await;
    assert_eq!(flag, "false");
    assert_eq!(shared.0.drain_event_names().await, ["offline alice"]);
}

async fn a_device_without_a_socket_is_named_with_its_user(shared: SharedStore) {
    let (fixture, api) = (&shared.0, api_device("alice", "api"));
    fixture.nodes[0].connect(api.clone()).await.unwrap();
    let members: Vec<String> = shared.run("SMEMBERS user:<>:sockets").await;
    assert_eq!(members, ["api~alice"]);
    let socket = parlor_chat::ids::SocketId::new("api~alice").unwrap();
    let owner = async || -> Option<String> {
        let mut get = redis::cmd("GET");
        get.arg(fixture.keys.socket_user(&socket));
        get.query_async(&mut fixture.store.clone()).await.unwrap()
    };
    assert_eq!(owner().await.as_deref(), Some("alice"));
    fixture.nodes[0].disconnect(&api).await.unwrap();
    assert_eq!(owner().await, None);
}

async fn the_last_node_that_stops_lets_its_flags_expire(mut shared: SharedStore) {
    let fixture = &mut shared.0;
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes.remove(0).drain().await.unwrap();
    let left: i64 = shared.run("PTTL user:<>:online").await;
    assert_eq!(left, -1, "another node removes the socket");
    shared.0.nodes.remove(0).drain().await.unwrap();
    for key in ["PTTL user:<>:online", "PTTL user:<>:sockets"] {
        let left: i64 = shared.run(key).await;
        let limit = i64::try_from((LEASE + GRACE).as_millis()).unwrap();
        assert!((1..=limit).contains(&left), "{key}: {left}");
    }
    // A node that starts in time keeps the user online.
    let node = shared.0.start("n0").await;
    node.connect(socket_device("alice", "s2")).await.unwrap();
    for key in ["PTTL user:<>:online", "PTTL user:<>:sockets"] {
        let left: i64 = shared.run(key).await;
        assert_eq!(left, -1, "{key}");
    }
}

async fn the_last_node_that_stops_keeps_the_sockets_of_another_gateway(mut shared: SharedStore) {
    shared.0.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let _: u64 = shared.run("SADD user:<>:sockets other").await;
    for node in std::mem::take(&mut shared.0.nodes) {
        node.drain().await.unwrap();
    }
    let members: Vec<String> = shared.run("SMEMBERS user:<>:sockets").await;
    assert_eq!(members, ["other"]);
    let left: i64 = shared.run("PTTL user:<>:online").await;
    assert_eq!(left, -1);
}

#[tokio::test]
async fn without_the_setting_other_services_do_not_count() {
    let backend = TestBackend::embedded().await;
    let mut settings = KeySettings::from_preset(Preset::Parlor);
    assert!(!settings.presence_external);
    settings.layouts.presence = PresenceLayout::Devices;
    let mut shared = SharedStore(PresenceFixture::with_settings(backend, settings).await);
    let _: u64 = shared.run("HSET presence:user:<> gw {}").await;
    assert_eq!(shared.status().await, OFFLINE);
    let phone = socket_device("alice", "s1");
    shared.0.nodes[0].connect(phone.clone()).await.unwrap();
    shared.0.nodes[0].disconnect(&phone).await.unwrap();
    assert_eq!(
        shared.0.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let fields: Vec<String> = shared.run("HKEYS presence:user:<>").await;
    assert_eq!(fields, ["gw"], "its field stays all the same");
    shared.0.pass(Duration::from_secs(1)).await;
}
