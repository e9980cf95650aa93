//! The store is unavailable, and returns with or without its data.

use parlor_chat::keys::PresenceLayout;
use parlor_chat::presence::PresenceStatus;
use parlor_testkit::eventually;

use super::fixture::{GRACE, World, socket_device, user};
use super::on_every_engine;

on_every_engine! {
    after_data_loss_devices_are_registered_again_without_events;
    a_new_user_of_an_empty_store_is_announced;
}

async fn lose_everything(world: &World) {
    let flush = redis::cmd("FLUSHALL");
    flush.exec_async(&mut world.store.clone()).await.unwrap();
}

async fn after_data_loss_devices_are_registered_again_without_events(mut world: World) {
    let before = world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    lose_everything(&world).await;
    world.assert_status("alice", PresenceStatus::Offline).await;
    world.advance(std::time::Duration::from_secs(1)).await;
    world.run_background_once().await;
    let after = world.status("alice").await;
    assert_eq!(after.status, PresenceStatus::Online);
    assert!(after.version > before.version, "versions do not restart");
    assert_eq!(world.nodes[0].count().await.unwrap(), 1);
    assert_eq!(world.drain_event_names().await, ["online alice"]);
    world.nodes[0]
        .leave(&socket_device("alice", "s1"))
        .await
        .unwrap();
    assert_eq!(world.drain_event_names().await, ["offline alice"]);
}

async fn a_new_user_of_an_empty_store_is_announced(mut world: World) {
    lose_everything(&world).await;
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    assert_eq!(world.drain_event_names().await, ["online alice"]);
}

#[tokio::test]
async fn presence_is_restored_from_node_memory_after_a_stale_store_restart() {
    let mut world = World::redis(PresenceLayout::Devices).await;
    world.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    let save = redis::cmd("SAVE");
    save.exec_async(&mut world.store.clone()).await.unwrap();
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let server = world.server.as_mut().unwrap();
    server.kill9();
    server.restart().await;
    // Without a heartbeat of Alice.
    eventually("alice is registered again", async || {
        world.nodes[0].renew().await?;
        world.nodes[0].flush_heartbeats().await?;
        let seen = world.nodes[0].status(&user("alice")).await?;
        Ok::<_, parlor_chat::api::error::Error>(seen.status == PresenceStatus::Online)
    })
    .await;
    world.assert_status("bob", PresenceStatus::Online).await;
}

#[tokio::test]
async fn while_redis_is_down_reads_are_degraded_and_departures_are_retried() {
    let mut world = World::redis(PresenceLayout::Devices).await;
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "online bob"]
    );
    world.server.as_mut().unwrap().kill9();

    let seen = eventually("the store is known to be unavailable", async || {
        world.nodes[0]
            .status(&user("alice"))
            .await
            .map(|it| it.degraded.then_some(it))
    })
    .await;
    assert_eq!((seen.status, seen.version), (PresenceStatus::Offline, 0));
    let left = world.nodes[0].leave(&socket_device("alice", "s1")).await;
    assert!(
        left.is_err_and(
            |error| error.code() == parlor_chat::api::error_code::Code::StoreUnavailable
        )
    );
    let new = world.nodes[0].connect(socket_device("carol", "s3")).await;
    assert!(new.is_err_and(|error| error.is_store_unavailable()));
    world.nodes[0].beat(&socket_device("bob", "s2")).unwrap();
    assert!(world.nodes[0].flush_heartbeats().await.is_err());

    world.server.as_mut().unwrap().restart_empty().await;
    eventually("the lease is acquired again", async || {
        world.nodes[0].renew().await
    })
    .await;
    world.resubscribe().await;
    world.run_background_once().await;
    world.assert_status("bob", PresenceStatus::Online).await;
    world.assert_status("carol", PresenceStatus::Online).await;
    assert_eq!(world.drain_event_names().await, ["online carol"]);
    // Deferred departures are published after the other nodes had time to register their devices.
    world.pass(GRACE).await;
    world.run_background_once().await;
    world.assert_status("alice", PresenceStatus::Offline).await;
    assert_eq!(world.drain_event_names().await, ["offline alice"]);
}
