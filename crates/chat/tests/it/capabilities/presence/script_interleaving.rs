//! Scripts of two nodes that interleave: the test executes the scripts of one node itself.

use std::time::Duration;

use parlor_chat::ids::{DeadlineShard, NodeId, WatchShard};
use parlor_chat::presence::PresenceStatus;
use redis::{FromRedisValue, Script};

use super::fixture::{GRACE, LEASE, PresenceFixture, socket_device, user};
use super::on_every_engine;

const CLAIM_DUE_USERS: &str =
    include_str!("../../../../src/capabilities/presence/scripts/claim_due_users.lua");
const MARK_CHECKED: &str =
    include_str!("../../../../src/capabilities/presence/scripts/mark_checked.lua");
const BEAT: &str = concat!(
    include_str!("../../../../src/capabilities/presence/scripts/layouts/devices_heartbeat.lua"),
    include_str!("../../../../src/capabilities/presence/scripts/beat_single_device.lua"),
    include_str!("../../../../src/capabilities/presence/scripts/user_state.lua"),
    include_str!("../../../../src/capabilities/presence/scripts/layouts/devices.lua"),
    include_str!("../../../../src/capabilities/presence/scripts/beat_device.lua"),
);

const LAPSE: &str = concat!(
    include_str!("../../../../src/capabilities/presence/scripts/layouts/devices_heartbeat.lua"),
    include_str!("../../../../src/capabilities/presence/scripts/user_state.lua"),
    include_str!("../../../../src/capabilities/presence/scripts/layouts/devices.lua"),
    include_str!("../../../../src/capabilities/presence/scripts/expire_devices.lua"),
);

on_every_engine! {
    a_deadline_shortened_during_a_sweep_is_kept;
    a_deadline_shortened_late_in_a_sweep_is_kept;
    a_user_who_connects_during_a_sweep_is_kept;
    a_heartbeat_after_a_lost_connection_is_ignored;
    devices_re_registered_while_their_node_is_reaped_stay_online;
    a_node_that_returns_while_it_is_reaped_keeps_all_its_users;
}

/// A sweep of one shard of the deadline index.
struct ManualSweep<'a> {
    fixture: &'a PresenceFixture,
    index: parlor_chat::keys::Key,
    claim_score: String,
}

impl<'a> ManualSweep<'a> {
    /// Claims the due users.
    async fn claim(fixture: &'a PresenceFixture, who: &str) -> Self {
        let look = Self {
            fixture,
            index: fixture
                .keys
                .presence_deadlines(DeadlineShard::for_user(&user(who))),
            claim_score: format!("{}.5", fixture.now().as_millis() + 5_000),
        };
        let now = fixture.now().as_millis().to_string();
        let due: Vec<String> = look
            .run(CLAIM_DUE_USERS, &[&now, &look.claim_score, "10"])
            .await;
        assert_eq!(due, [who]);
        look
    }

    /// Ends the claim with the deadline that the sweep has read.
    async fn mark_checked(self, who: &str, deadline: u64) {
        let args = [self.claim_score.as_str(), who, &deadline.to_string()];
        let left: u64 = self.run(MARK_CHECKED, &args).await;
        assert_eq!(left, 1, "the entry was changed meanwhile");
    }

    async fn run<T: FromRedisValue>(&self, script: &str, args: &[&str]) -> T {
        let script = Script::new(script);
        let mut call = script.key(&self.index);
        for arg in args {
            call.arg(*arg);
        }
        call.invoke_async(&mut self.fixture.store.clone())
            .await
            .unwrap()
    }
}

async fn a_deadline_shortened_during_a_sweep_is_kept(fixture: PresenceFixture) {
    shortened_during_a_sweep(fixture, Duration::ZERO).await;
}

/// The shorter deadline is later than the end of the claim.
async fn a_deadline_shortened_late_in_a_sweep_is_kept(fixture: PresenceFixture) {
    shortened_during_a_sweep(fixture, Duration::from_secs(1)).await;
}

async fn shortened_during_a_sweep(mut fixture: PresenceFixture, after: Duration) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(fixture.ttl()).await;
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.nodes[0].flush_heartbeats().await.unwrap();
    let look = ManualSweep::claim(&fixture, "alice").await;
    let seen = fixture.now().saturating_add(fixture.ttl()).as_millis();
    fixture.pass(after).await;
    fixture.nodes[0]
        .connection_lost(&socket_device("alice", "s1"))
        .await
        .unwrap();
    look.mark_checked("alice", seen).await;
    fixture.pass(GRACE).await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
}

async fn a_user_who_connects_during_a_sweep_is_kept(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .disconnect(&socket_device("alice", "s1"))
        .await
        .unwrap();
    let look = ManualSweep::claim(&fixture, "alice").await;
    fixture.nodes[1]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    look.mark_checked("alice", 0).await;
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 1);
    fixture.pass(fixture.ttl()).await;
    fixture.run_background_once().await;
    let news = [
        "online alice",
        "offline alice",
        "online alice",
        "offline alice",
    ];
    assert_eq!(fixture.drain_event_names().await, news);
}

/// Calls a presence script in the layout `devices`.
async fn step<T: FromRedisValue>(
    fixture: &PresenceFixture,
    script: &str,
    who: &str,
    args: &[&str],
) -> T {
    let (who, keys) = (user(who), &fixture.keys);
    let script = Script::new(script);
    let mut call = script.key(keys.presence_state(&who));
    call.key(keys.last_seen(&who))
        .key(keys.presence_devices(&who));
    let ttl = u64::try_from(fixture.ttl().as_millis()).unwrap();
    call.arg(&who)
        .arg(fixture.now().as_millis())
        .arg(fixture.now().to_iso8601());
    call.arg(ttl).arg(86_400_000);
    call.arg(keys.user_online_channel())
        .arg(keys.user_offline_channel());
    call.arg(keys.presence_changes_channel(WatchShard::for_user(&who)));
    call.arg("");
    call.arg(args);
    call.invoke_async(&mut fixture.store.clone()).await.unwrap()
}

/// Sends the heartbeat of a socket like its node.
async fn beat(fixture: &PresenceFixture, who: &str, device: &str, node: &str) -> u64 {
    let lease = fixture.keys.node_lease(&NodeId::new(node).unwrap());
    let mut store = fixture.store.clone();
    let epoch = redis::cmd("GET").arg(lease).query_async(&mut store).await;
    let epoch: String = epoch.unwrap();
    let now = fixture.now().as_millis().to_string();
    step(fixture, BEAT, who, &[device, node, &epoch, &now, device]).await
}

async fn a_heartbeat_after_a_lost_connection_is_ignored(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    assert_eq!(beat(&fixture, "alice", "s1", "n0").await, 1);
    fixture.nodes[0]
        .connection_lost(&socket_device("alice", "s1"))
        .await
        .unwrap();
    assert_eq!(beat(&fixture, "alice", "s1", "n0").await, 0);
    fixture.pass(GRACE).await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    assert_eq!(beat(&fixture, "alice", "s1", "n0").await, 0);
    fixture.run_background_once().await;
    assert_eq!(beat(&fixture, "alice", "s1", "n0").await, 0);
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
}

/// The reaper has found a node dead and calls the script late.
async fn devices_re_registered_while_their_node_is_reaped_stay_online(
    mut fixture: PresenceFixture,
) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    fixture.advance(LEASE + GRACE).await;
    let latest = fixture.now().saturating_add(fixture.ttl()).as_millis() - ms(GRACE);
    fixture.nodes[1].renew_lease().await.unwrap();
    let end = ["n0", "", &latest.to_string(), ""];
    let _: Vec<redis::Value> = step(&fixture, LAPSE, "bob", &end).await;
    fixture.nodes[0].renew_lease().await.unwrap();
    fixture.nodes[0].flush_heartbeats().await.unwrap();
    let _: Vec<redis::Value> = step(&fixture, LAPSE, "alice", &end).await;
    let _: Vec<redis::Value> = step(&fixture, LAPSE, "bob", &end).await;
    let news = ["online alice", "online bob", "offline bob", "online bob"];
    assert_eq!(fixture.drain_event_names().await, news);
}

async fn a_node_that_returns_while_it_is_reaped_keeps_all_its_users(mut fixture: PresenceFixture) {
    const USERS: usize = 60;
    let mut version = std::collections::HashMap::new();
    for round in 0..15 {
        let paused = fixture.nodes.remove(0);
        for at in 0..USERS {
            let device = socket_device(&format!("u{at}"), &format!("s{at}-{round}"));
            paused.connect(device).await.unwrap();
        }
        fixture.pass(LEASE + GRACE).await;
        let back = async {
            // A little later in each round.
            for _ in 0..round {
                tokio::task::yield_now().await;
                paused.status(&user("u0")).await.unwrap();
            }
            paused.renew_lease().await.unwrap();
            paused.flush_heartbeats().await.unwrap();
        };
        let (reaped, ()) = tokio::join!(fixture.nodes[0].reap_dead_nodes(), back);
        reaped.unwrap();
        let mut members = redis::cmd("SCARD");
        members.arg(
            fixture
                .keys
                .node_presence_users(&NodeId::new("n0").unwrap()),
        );
        let mut store = fixture.store.clone();
        let members: usize = members.query_async(&mut store).await.unwrap();
        assert_eq!(members, USERS, "round {round}");
        for (what, at) in fixture.drain_events().await {
            let (kind, who) = what.split_once(' ').unwrap();
            let before = version.insert(who.to_owned(), (kind == "online", at));
            let (online, before) = before.unwrap_or_default();
            assert!(online != (kind == "online") && at > before, "{what}");
        }
        assert!(version.values().all(|(online, _)| *online));
        for at in 0..USERS {
            fixture
                .assert_status(&format!("u{at}"), PresenceStatus::Online)
                .await;
            let device = socket_device(&format!("u{at}"), &format!("s{at}-{round}"));
            paused.disconnect(&device).await.unwrap();
        }
        fixture.run_background_once().await;
        fixture.nodes.insert(0, paused);
        fixture.pass(LEASE + GRACE).await;
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}
