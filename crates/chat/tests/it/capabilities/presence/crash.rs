//! Nodes die, pause, restart and are drained.

use std::time::Duration;

use parlor_chat::presence::PresenceStatus;

use super::expected_keys::{ExpectedKeys, assert_store_holds_exactly};
use super::fixture::{GRACE, LEASE, World, api_device, socket_device, user};
use super::{on_every_engine, on_every_layout};

const HOUR: Duration = Duration::from_secs(3_600);

on_every_layout! {
    only_devices_of_a_dead_node_go_offline;
    a_paused_node_finds_its_devices_reaped_and_brings_them_back_once;
    a_store_that_was_away_makes_nobody_offline;
    a_restarted_node_ends_what_did_not_come_back_to_it;
    a_node_whose_lease_was_taken_re_registers_its_users;
    a_drained_node_leaves_the_grace_time_to_its_users;
    a_drained_node_writes_the_beats_it_has_taken;
}

on_every_engine! {
    a_state_lives_as_long_as_its_device_beats;
}

mod users_of_nodes_that_were_all_away_for_days_are_gone {
    use parlor_chat::keys::PresenceLayout;

    use super::{World, all_away_for_days};

    #[tokio::test]
    async fn embedded() {
        all_away_for_days(World::embedded(PresenceLayout::Sockets).await).await;
    }

    #[tokio::test]
    async fn redis() {
        all_away_for_days(World::redis(PresenceLayout::Sockets).await).await;
    }
}

pub async fn only_devices_of_a_dead_node_go_offline(mut world: World) {
    let at = world.now();
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    world.nodes[1]
        .connect(socket_device("bob", "s3"))
        .await
        .unwrap();
    world.nodes.remove(0);
    let almost = LEASE + GRACE - Duration::from_millis(1);
    world.pass(almost).await;
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "online bob"]
    );
    world.pass(Duration::from_millis(1)).await;
    world.run_background_once().await;
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["offline alice"]);
    world.assert_status("alice", PresenceStatus::Offline).await;
    world.assert_status("bob", PresenceStatus::Online).await;
    let left = world.ttl() - LEASE - GRACE;
    // The socket keys of a dead node end by their TTL only.
    let alice = ExpectedKeys::offline("alice", &world).seen(world.now());
    let bob = ExpectedKeys::offline("bob", &world).device("s3", "n1", at);
    let bob = bob
        .left(left)
        .last_heartbeat(at)
        .socket("s2", left)
        .socket("s3", left);
    assert_store_holds_exactly(&world, &[alice.socket("s1", left), bob]).await;
}

async fn a_paused_node_finds_its_devices_reaped_and_brings_them_back_once(mut world: World) {
    let at = world.now();
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let paused = world.nodes.remove(0);
    world.pass(LEASE + GRACE).await;
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let gone = world.now();
    world.nodes.push(paused);
    world.nodes[1].beat(&socket_device("alice", "s1")).unwrap();
    world.run_background_once().await;
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["online alice"]);
    world.pass(LEASE + GRACE).await;
    world.nodes[1].beat(&socket_device("alice", "s1")).unwrap();
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, Vec::<String>::new());
    let shown = ExpectedKeys::offline("alice", &world)
        .device("s1", "n0", at)
        .refreshed_at("s1", world.now())
        .left(world.ttl())
        .socket("s1", world.ttl())
        .seen(gone);
    shown.assert_only_these(&world).await;
}

/// A failover that takes longer than the leases: all leases have ended, and every node looks dead.
pub async fn a_store_that_was_away_makes_nobody_offline(mut world: World) {
    let at = world.now();
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[1]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    world.advance(LEASE + GRACE + Duration::from_secs(2)).await;
    for node in world.nodes.iter().rev() {
        node.sweep().await.unwrap();
        node.reap_dead_nodes().await.unwrap();
    }
    world.run_background_once().await;
    world.pass(LEASE + GRACE).await;
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "online bob"]
    );

    // Longer than the lifetime of a device: the nodes buffer the heartbeats until the store is back.
    world.nodes[0].beat(&socket_device("alice", "s1")).unwrap();
    world.nodes[1].beat(&socket_device("bob", "s2")).unwrap();
    world.advance(world.ttl() * 2).await;
    for node in &world.nodes {
        node.sweep().await.unwrap();
        node.reap_dead_nodes().await.unwrap();
    }
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, Vec::<String>::new());
    let shown = [("alice", "s1", "n0"), ("bob", "s2", "n1")].map(|(who, device, node)| {
        ExpectedKeys::offline(who, &world)
            .device(device, node, at)
            .refreshed_at(device, world.now())
            .left(world.ttl())
            .socket(device, world.ttl())
    });
    assert_store_holds_exactly(&world, &shown).await;
}

async fn a_restarted_node_ends_what_did_not_come_back_to_it(mut world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    world.nodes[0] = world.start("n0").await;
    world.run_background_once().await;
    world.pass(Duration::from_secs(1)).await;
    let back = world.now();
    world.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    world.pass(GRACE - Duration::from_millis(1_001)).await;
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "online bob"]
    );
    world.pass(Duration::from_millis(1)).await;
    world.run_background_once().await;
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["offline alice"]);
    let left = world.ttl() - (GRACE - Duration::from_secs(1));
    let alice = ExpectedKeys::offline("alice", &world).seen(world.now());
    let alice = alice.socket("s1", world.ttl() - GRACE);
    let bob = ExpectedKeys::offline("bob", &world).device("s2", "n0", back);
    let bob = bob.left(left).last_heartbeat(back).socket("s2", left);
    assert_store_holds_exactly(&world, &[alice, bob]).await;
}

/// Two processes with one node id are a configuration error; users are offline once.
async fn a_node_whose_lease_was_taken_re_registers_its_users(mut world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let second = world.start("n0").await;
    world.nodes.push(second);
    world.pass(GRACE).await;
    world.nodes[2].reap_dead_nodes().await.unwrap();
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    for _ in 0..5 {
        world.run_background_once().await;
        world.pass(GRACE).await;
    }
    assert_eq!(world.drain_event_names().await, ["online alice"]);
}

async fn a_drained_node_leaves_the_grace_time_to_its_users(mut world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    world.nodes.remove(0).drain().await.unwrap();
    world.pass(Duration::from_secs(2)).await;
    let back = world.now();
    world.nodes[0]
        .connect(socket_device("bob", "s3"))
        .await
        .unwrap();
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "online bob"]
    );
    world.pass(GRACE - Duration::from_secs(2)).await;
    world.nodes[0].beat(&socket_device("bob", "s3")).unwrap();
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["offline alice"]);
    let alice = ExpectedKeys::offline("alice", &world).seen(world.now());
    let bob = ExpectedKeys::offline("bob", &world)
        .device("s3", "n1", back)
        .refreshed_at("s3", world.now())
        .left(world.ttl())
        .socket("s3", world.ttl());
    assert_store_holds_exactly(&world, &[alice, bob]).await;
}

async fn a_drained_node_writes_the_beats_it_has_taken(mut world: World) {
    let at = world.now();
    world.nodes[0].beat(&api_device("alice", "api")).unwrap();
    world.nodes.remove(0).drain().await.unwrap();
    let alice = ExpectedKeys::offline("alice", &world).device("api", "n0", at);
    alice.left(world.ttl()).assert_only_these(&world).await;
    assert_eq!(world.drain_event_names().await, ["online alice"]);
}

/// The state has a TTL, the keys of the layout `sockets` have none.
async fn all_away_for_days(mut world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes.clear();
    world.advance(49 * HOUR).await;
    world.nodes.push(world.start("n2").await);
    world.pass(LEASE + GRACE).await;
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let shown = ExpectedKeys::offline("alice", &world).seen(world.now());
    shown.assert_only_these(&world).await;
}

/// Heartbeats and checks must not renew the state's TTL each time, because that would double the writes.
async fn a_state_lives_as_long_as_its_device_beats(world: World) {
    let phone = api_device("alice", "phone");
    world.nodes[0].connect(phone.clone()).await.unwrap();
    let state = world.keys.presence_state(&user("alice"));
    for (left, renewed) in [(40 * HOUR, false), (23 * HOUR, true)] {
        let mut expire = redis::cmd("PEXPIRE");
        expire.arg(&state).arg(left.as_millis() as u64);
        let mut store = world.store.clone();
        expire.exec_async(&mut store).await.unwrap();
        for _ in 0..3 {
            world.pass(world.ttl() / 2).await;
            world.nodes[0].beat(&phone).unwrap();
            world.run_background_once().await;
        }
        let mut rest = redis::cmd("PTTL");
        let rest: u64 = rest.arg(&state).query_async(&mut store).await.unwrap();
        assert_eq!(Duration::from_millis(rest) > 40 * HOUR, renewed, "{rest}");
    }
}
