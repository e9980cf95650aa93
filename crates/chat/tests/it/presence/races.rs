//! Steps of two nodes that meet in the middle: one node's half of the work is done by hand.

use std::time::Duration;

use parlor_chat::ids::{DeadlineShard, NodeId, WatchShard};
use parlor_chat::presence::Status;
use redis::{FromRedisValue, Script};

use super::on_every_engine;
use super::world::{GRACE, World, api, socket, user};

const DUE: &str = include_str!("../../../src/presence/due.lua");
const LOOKED: &str = include_str!("../../../src/presence/looked.lua");
const BEAT: &str = concat!(
    include_str!("../../../src/presence/state.lua"),
    include_str!("../../../src/presence/layouts/devices.lua"),
    include_str!("../../../src/presence/beat.lua"),
);

on_every_engine! {
    a_deadline_shortened_during_a_look_is_kept;
    a_user_who_comes_during_a_look_is_kept;
    a_beat_that_arrives_after_the_loss_of_its_connection_is_nothing;
    a_beat_of_one_who_lost_the_device_to_another_node_is_nothing;
}

/// One index of deadlines, as a sweeper sees it.
struct Look<'a> {
    world: &'a World,
    index: parlor_chat::keys::Key,
    taken: u64,
}

impl<'a> Look<'a> {
    /// Takes who is due.
    async fn begin(world: &'a World, who: &str) -> Self {
        let look = Self {
            world,
            index: world.keys.deadlines(DeadlineShard::of(&user(who))),
            taken: world.now().ms() + 5_000,
        };
        let now = world.now().ms().to_string();
        let due: Vec<String> = look.run(DUE, &[&now, &look.taken.to_string(), "10"]).await;
        assert_eq!(due, [who]);
        look
    }

    /// Says what was seen.
    async fn end(self, who: &str, deadline: u64) {
        let args = [&self.taken.to_string(), who, &deadline.to_string()];
        let left: u64 = self.run(LOOKED, &args).await;
        assert_eq!(left, 1, "the entry was changed by somebody else");
    }

    async fn run<T: FromRedisValue>(&self, script: &str, args: &[&str]) -> T {
        let script = Script::new(script);
        let mut call = script.key(&self.index);
        for arg in args {
            call.arg(*arg);
        }
        call.invoke_async(&mut self.world.store.clone())
            .await
            .unwrap()
    }
}

async fn a_deadline_shortened_during_a_look_is_kept(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.pass(world.ttl()).await;
    world.nodes[0].beat(&socket("alice", "s1"));
    world.nodes[0].flush_beats().await.unwrap();
    let look = Look::begin(&world, "alice").await;
    let seen = world.now().plus(world.ttl()).ms();
    world.nodes[0].lose(&socket("alice", "s1")).await.unwrap();
    look.end("alice", seen).await;
    world.pass(GRACE).await;
    world.tick().await;
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
}

async fn a_user_who_comes_during_a_look_is_kept(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].leave(&socket("alice", "s1")).await.unwrap();
    let look = Look::begin(&world, "alice").await;
    world.nodes[1].connect(socket("alice", "s2")).await.unwrap();
    look.end("alice", 0).await;
    assert_eq!(world.nodes[0].count().await.unwrap(), 1);
    world.pass(world.ttl()).await;
    world.tick().await;
    let news = [
        "online alice",
        "offline alice",
        "online alice",
        "offline alice",
    ];
    assert_eq!(world.news().await, news);
}

/// The beat of a socket as its node sends it.
async fn beat(world: &World, who: &str, device: &str, node: &str) -> u64 {
    let (who, keys) = (user(who), &world.keys);
    let lease = keys.node(&NodeId::new(node).unwrap());
    let mut store = world.store.clone();
    let epoch = redis::cmd("GET").arg(lease).query_async(&mut store).await;
    let epoch: String = epoch.unwrap();
    let script = Script::new(BEAT);
    let mut call = script.key(keys.presence_state(&who));
    call.key(keys.last_seen(&who))
        .key(keys.presence_devices(&who));
    let ttl = u64::try_from(world.ttl().as_millis()).unwrap();
    call.arg(&who).arg(world.now().ms()).arg(world.now().iso());
    call.arg(ttl).arg(86_400_000);
    call.arg(keys.user_online_events())
        .arg(keys.user_offline_events());
    call.arg(keys.watch(WatchShard::of(&who)));
    call.arg(device).arg(node).arg(epoch);
    call.invoke_async(&mut store).await.unwrap()
}

async fn a_beat_that_arrives_after_the_loss_of_its_connection_is_nothing(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    assert_eq!(beat(&world, "alice", "s1", "n0").await, 1);
    world.nodes[0].lose(&socket("alice", "s1")).await.unwrap();
    assert_eq!(beat(&world, "alice", "s1", "n0").await, 0);
    world.pass(GRACE).await;
    world.is("alice", Status::Offline).await;
    assert_eq!(beat(&world, "alice", "s1", "n0").await, 0);
    world.tick().await;
    assert_eq!(beat(&world, "alice", "s1", "n0").await, 0);
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
}

async fn a_beat_of_one_who_lost_the_device_to_another_node_is_nothing(mut world: World) {
    let on = |socket: &str| parlor_chat::presence::Device {
        socket: Some(parlor_chat::ids::SocketId::new(socket).unwrap()),
        ..api("alice", "phone")
    };
    world.nodes[0].connect(on("s1")).await.unwrap();
    world.pass(Duration::from_secs(1)).await;
    world.nodes[1].connect(on("s2")).await.unwrap();
    world.nodes[0].beat(&on("s1"));
    world.tick().await;
    // Nor does its end mean anything.
    world.nodes[0].lose(&on("s1")).await.unwrap();
    world.nodes[0].leave(&on("s1")).await.unwrap();
    world.pass(GRACE * 2).await;
    world.tick().await;
    let devices = world.nodes[0].devices(&user("alice")).await.unwrap();
    assert_eq!(devices[0].server_id.as_str(), "n1");
    assert_eq!(world.news().await, ["online alice"]);
}
