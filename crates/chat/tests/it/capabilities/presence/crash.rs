//! Nodes die, pause, restart and are drained.

use std::time::Duration;

use parlor_chat::presence::PresenceStatus;

use super::expected_keys::{ExpectedKeys, assert_store_holds_exactly};
use super::fixture::{GRACE, LEASE, PresenceFixture, api_device, socket_device, user};
use super::{on_every_engine, on_every_layout};

const HOUR: Duration = Duration::from_secs(3_600);

on_every_layout! {
    only_devices_of_a_dead_node_go_offline;
    a_paused_node_registers_its_reaped_devices_again_once;
    a_store_outage_makes_no_user_offline;
    a_restarted_node_removes_the_devices_that_did_not_reconnect;
    a_node_whose_lease_was_taken_re_registers_its_users;
    a_drained_node_keeps_the_grace_period_of_its_users;
    a_drained_node_writes_its_buffered_heartbeats;
}

on_every_engine! {
    a_state_lives_as_long_as_its_device_sends_heartbeats;
}

mod users_of_nodes_that_were_all_down_for_days_are_offline {
    crate::support::test_on_engines!(
        super::all_away_for_days,
        parlor_chat::keys::PresenceLayout::Sockets
    );
}

pub async fn only_devices_of_a_dead_node_go_offline(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    fixture.nodes[1]
        .connect(socket_device("bob", "s3"))
        .await
        .unwrap();
    fixture.nodes.remove(0);
    let almost = LEASE + GRACE - Duration::from_millis(1);
    fixture.pass(almost).await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "online bob"]
    );
    fixture.pass(Duration::from_millis(1)).await;
    fixture.run_background_once().await;
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["offline alice"]);
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    fixture.assert_status("bob", PresenceStatus::Online).await;
    let left = fixture.ttl() - LEASE - GRACE;
    // The socket keys of a dead node end by their TTL only.
    let alice = ExpectedKeys::offline("alice", &fixture).seen(fixture.now());
    let bob = ExpectedKeys::offline("bob", &fixture).device("s3", "n1", at);
    let bob = bob
        .left(left)
        .last_heartbeat(at)
        .socket("s2", left)
        .socket("s3", left);
    assert_store_holds_exactly(&fixture, &[alice.socket("s1", left), bob]).await;
}

async fn a_paused_node_registers_its_reaped_devices_again_once(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let paused = fixture.nodes.remove(0);
    fixture.pass(LEASE + GRACE).await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let gone = fixture.now();
    fixture.nodes.push(paused);
    fixture.nodes[1]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.run_background_once().await;
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    fixture.pass(LEASE + GRACE).await;
    fixture.nodes[1]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, Vec::<String>::new());
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s1", "n0", at)
        .refreshed_at("s1", fixture.now())
        .left(fixture.ttl())
        .socket("s1", fixture.ttl())
        .seen(gone);
    shown.assert_only_these(&fixture).await;
}

/// A failover that takes longer than the leases: all leases have ended, and every node looks dead.
pub async fn a_store_outage_makes_no_user_offline(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[1]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    fixture
        .advance(LEASE + GRACE + Duration::from_secs(2))
        .await;
    for node in fixture.nodes.iter().rev() {
        node.sweep().await.unwrap();
        node.reap_dead_nodes().await.unwrap();
    }
    fixture.run_background_once().await;
    fixture.pass(LEASE + GRACE).await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "online bob"]
    );

    // Longer than the lifetime of a device: the nodes buffer the heartbeats until the store is back.
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.nodes[1]
        .heartbeat(&socket_device("bob", "s2"))
        .unwrap();
    fixture.advance(fixture.ttl() * 2).await;
    for node in &fixture.nodes {
        node.sweep().await.unwrap();
        node.reap_dead_nodes().await.unwrap();
    }
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, Vec::<String>::new());
    let shown = [("alice", "s1", "n0"), ("bob", "s2", "n1")].map(|(who, device, node)| {
        ExpectedKeys::offline(who, &fixture)
            .device(device, node, at)
            .refreshed_at(device, fixture.now())
            .left(fixture.ttl())
            .socket(device, fixture.ttl())
    });
    assert_store_holds_exactly(&fixture, &shown).await;
}

async fn a_restarted_node_removes_the_devices_that_did_not_reconnect(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    fixture.nodes[0] = fixture.start("n0").await;
    fixture.run_background_once().await;
    fixture.pass(Duration::from_secs(1)).await;
    let back = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    fixture.pass(GRACE - Duration::from_millis(1_001)).await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "online bob"]
    );
    fixture.pass(Duration::from_millis(1)).await;
    fixture.run_background_once().await;
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["offline alice"]);
    let left = fixture.ttl() - (GRACE - Duration::from_secs(1));
    let alice = ExpectedKeys::offline("alice", &fixture).seen(fixture.now());
    let alice = alice.socket("s1", fixture.ttl() - GRACE);
    let bob = ExpectedKeys::offline("bob", &fixture).device("s2", "n0", back);
    let bob = bob.left(left).last_heartbeat(back).socket("s2", left);
    assert_store_holds_exactly(&fixture, &[alice, bob]).await;
}

/// Two processes with one node id are a configuration error; users are offline once.
async fn a_node_whose_lease_was_taken_re_registers_its_users(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let second = fixture.start("n0").await;
    fixture.nodes.push(second);
    fixture.pass(GRACE).await;
    fixture.nodes[2].reap_dead_nodes().await.unwrap();
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    for _ in 0..5 {
        fixture.run_background_once().await;
        fixture.pass(GRACE).await;
    }
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
}

async fn a_drained_node_keeps_the_grace_period_of_its_users(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    fixture.nodes.remove(0).drain().await.unwrap();
    fixture.pass(Duration::from_secs(2)).await;
    let back = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("bob", "s3"))
        .await
        .unwrap();
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "online bob"]
    );
    fixture.pass(GRACE - Duration::from_secs(2)).await;
    fixture.nodes[0]
        .heartbeat(&socket_device("bob", "s3"))
        .unwrap();
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["offline alice"]);
    let alice = ExpectedKeys::offline("alice", &fixture).seen(fixture.now());
    let bob = ExpectedKeys::offline("bob", &fixture)
        .device("s3", "n1", back)
        .refreshed_at("s3", fixture.now())
        .left(fixture.ttl())
        .socket("s3", fixture.ttl());
    assert_store_holds_exactly(&fixture, &[alice, bob]).await;
}

async fn a_drained_node_writes_its_buffered_heartbeats(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .heartbeat(&api_device("alice", "api"))
        .unwrap();
    fixture.nodes.remove(0).drain().await.unwrap();
    let alice = ExpectedKeys::offline("alice", &fixture).api_device("api", "n0", at);
    alice.left(fixture.ttl()).assert_only_these(&fixture).await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
}

/// The state has a TTL, the keys of the layout `sockets` have none.
async fn all_away_for_days(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes.clear();
    fixture.advance(49 * HOUR).await;
    fixture.nodes.push(fixture.start("n2").await);
    fixture.pass(LEASE + GRACE).await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let shown = ExpectedKeys::offline("alice", &fixture).seen(fixture.now());
    shown.assert_only_these(&fixture).await;
}

/// Heartbeats and checks must not renew the state's TTL each time, because that would double the writes.
async fn a_state_lives_as_long_as_its_device_sends_heartbeats(fixture: PresenceFixture) {
    let phone = api_device("alice", "phone");
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    let state = fixture.keys.presence_state(&user("alice"));
    for (left, renewed) in [(40 * HOUR, false), (23 * HOUR, true)] {
        let mut expire = redis::cmd("PEXPIRE");
        expire.arg(&state).arg(left.as_millis() as u64);
        let mut store = fixture.store.clone();
        expire.exec_async(&mut store).await.unwrap();
        for _ in 0..3 {
            fixture.pass(fixture.ttl() / 2).await;
            fixture.nodes[0].heartbeat(&phone).unwrap();
            fixture.run_background_once().await;
        }
        let mut rest = redis::cmd("PTTL");
        let rest: u64 = rest.arg(&state).query_async(&mut store).await.unwrap();
        assert_eq!(Duration::from_millis(rest) > 40 * HOUR, renewed, "{rest}");
    }
}
