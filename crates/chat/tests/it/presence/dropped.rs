//! Futures that nobody waits for any more, and what follows from the half that was done.

use std::future::Future;

use parlor_chat::ids::{UserId, WatchShard};
use parlor_chat::presence::Status;

use super::on_every_engine;
use super::world::{GRACE, World, api, socket, user};

on_every_engine! {
    a_connect_that_nobody_waits_for_is_a_lost_connection;
    a_goodbye_that_nobody_waits_for_is_said_all_the_same;
    a_loss_that_nobody_waits_for_leaves_the_grace_time;
    beats_of_a_flush_that_nobody_waits_for_are_written_with_the_next;
    users_whose_state_nobody_waited_for_are_told_as_changes;
}

/// Lets a future begin, no more; whether that was enough, as on the embedded engine.
async fn begin(future: impl Future) -> bool {
    tokio::select! {
        biased;
        _ = future => true,
        () = std::future::ready(()) => false,
    }
}

async fn a_connect_that_nobody_waits_for_is_a_lost_connection(mut world: World) {
    if begin(world.nodes[0].connect(socket("alice", "s1"))).await {
        begin(world.nodes[0].lose(&socket("alice", "s1"))).await;
    }
    world.tick().await;
    world.tick().await;
    world.pass(GRACE).await;
    world.nodes[0].beat(&socket("alice", "s1")).unwrap();
    world.tick().await;
    world.is("alice", Status::Offline).await;
    // The node does not bring it back from its memory.
    world.advance(GRACE * 3).await;
    world.tick().await;
    world.is("alice", Status::Offline).await;
    let news = world.news().await;
    assert!(
        news.is_empty() || news == ["online alice", "offline alice"],
        "{news:?}"
    );
    assert_eq!(world.nodes[0].count().await.unwrap(), 0);
}

async fn a_goodbye_that_nobody_waits_for_is_said_all_the_same(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    begin(world.nodes[0].leave(&socket("alice", "s1"))).await;
    world.tick().await;
    world.is("alice", Status::Offline).await;
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
    world.tick().await;
    assert_eq!(world.nodes[0].count().await.unwrap(), 0);
}

async fn a_loss_that_nobody_waits_for_leaves_the_grace_time(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    begin(world.nodes[0].lose(&socket("alice", "s1"))).await;
    world.tick().await;
    world.is("alice", Status::Online).await;
    world.pass(GRACE).await;
    world.tick().await;
    world.is("alice", Status::Offline).await;
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
}

async fn beats_of_a_flush_that_nobody_waits_for_are_written_with_the_next(mut world: World) {
    world.nodes[0].beat(&api("alice", "api")).unwrap();
    begin(world.nodes[0].flush_beats()).await;
    world.tick().await;
    world.is("alice", Status::Online).await;
    assert_eq!(world.news().await, ["online alice"]);
}

async fn users_whose_state_nobody_waited_for_are_told_as_changes(world: World) {
    let node = &world.nodes[0];
    let bob = user("bob");
    let same_shard = |it: &UserId| WatchShard::of(it).number() == WatchShard::of(&bob).number();
    let mut users = (0..).map(|at| user(&format!("u{at}"))).filter(same_shard);
    let alice = users.next().unwrap();
    let online = node.connect(socket(alice.as_str(), "s1")).await.unwrap();
    let mut watcher = node.watcher();
    // The channel is open, so that only the answer is left to be given up.
    watcher.watch(std::slice::from_ref(&bob)).await.unwrap();
    let mut told = Vec::new();
    tokio::select! {
        biased;
        now = watcher.watch(std::slice::from_ref(&alice)) => told = now.unwrap(),
        () = std::future::ready(()) => {}
    }
    node.flush_watchers().await.unwrap();
    told.extend(watcher.try_next());
    assert_eq!(told, [online]);
}
