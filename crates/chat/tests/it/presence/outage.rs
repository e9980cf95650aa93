//! The store is away, and comes back with or without its data.

use parlor_chat::keys::PresenceLayout;
use parlor_chat::presence::Status;
use parlor_testkit::eventually;

use super::on_every_engine;
use super::world::{GRACE, World, socket, user};

on_every_engine! {
    a_store_that_lost_everything_is_filled_again_in_silence;
    a_new_user_of_an_empty_store_is_announced;
}

async fn lose_everything(world: &World) {
    let flush = redis::cmd("FLUSHALL");
    flush.exec_async(&mut world.store.clone()).await.unwrap();
}

async fn a_store_that_lost_everything_is_filled_again_in_silence(mut world: World) {
    let before = world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    lose_everything(&world).await;
    world.is("alice", Status::Offline).await;
    world.advance(std::time::Duration::from_secs(1)).await;
    world.tick().await;
    let after = world.status("alice").await;
    assert_eq!(after.status, Status::Online);
    assert!(after.version > before.version, "versions do not start anew");
    assert_eq!(world.nodes[0].count().await.unwrap(), 1);
    assert_eq!(world.news().await, ["online alice"]);
    world.nodes[0].leave(&socket("alice", "s1")).await.unwrap();
    assert_eq!(world.news().await, ["offline alice"]);
}

async fn a_new_user_of_an_empty_store_is_announced(mut world: World) {
    lose_everything(&world).await;
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    assert_eq!(world.news().await, ["online alice"]);
}

#[tokio::test]
async fn a_store_that_comes_back_with_old_data_is_not_believed() {
    let mut world = World::redis(PresenceLayout::Devices).await;
    world.nodes[0].connect(socket("bob", "s2")).await.unwrap();
    let save = redis::cmd("SAVE");
    save.exec_async(&mut world.store.clone()).await.unwrap();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    let server = world.server.as_mut().unwrap();
    server.kill9();
    server.restart().await;
    // Without a beat of hers.
    eventually("alice is known again", async || {
        world.nodes[0].renew().await?;
        world.nodes[0].flush_beats().await?;
        let seen = world.nodes[0].status(&user("alice")).await?;
        Ok::<_, parlor_chat::error::Error>(seen.status == Status::Online)
    })
    .await;
    world.is("bob", Status::Online).await;
}

#[tokio::test]
async fn while_redis_is_away_reads_are_degraded_and_goodbyes_are_kept() {
    let mut world = World::redis(PresenceLayout::Devices).await;
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].connect(socket("bob", "s2")).await.unwrap();
    assert_eq!(world.news().await, ["online alice", "online bob"]);
    world.server.as_mut().unwrap().kill9();

    let seen = eventually("the store is seen to be away", async || {
        world.nodes[0]
            .status(&user("alice"))
            .await
            .map(|it| it.degraded.then_some(it))
    })
    .await;
    assert_eq!((seen.status, seen.version), (Status::Offline, 0));
    let left = world.nodes[0].leave(&socket("alice", "s1")).await;
    assert!(left.is_err_and(|error| error.code() == parlor_chat::code::Code::StoreUnavailable));
    let new = world.nodes[0].connect(socket("carol", "s3")).await;
    assert!(new.is_err_and(|error| error.is_away()));
    world.nodes[0].beat(&socket("bob", "s2")).unwrap();
    assert!(world.nodes[0].flush_beats().await.is_err());

    world.server.as_mut().unwrap().restart_empty().await;
    eventually("the lease is taken again", async || {
        world.nodes[0].renew().await
    })
    .await;
    world.listen_anew().await;
    world.tick().await;
    world.is("bob", Status::Online).await;
    world.is("carol", Status::Online).await;
    assert_eq!(world.news().await, ["online carol"]);
    // What was missed is told when the other nodes had their time, too.
    world.pass(GRACE).await;
    world.tick().await;
    world.is("alice", Status::Offline).await;
    assert_eq!(world.news().await, ["offline alice"]);
}
