//! The store is unavailable, and returns with or without its data.

use parlor_chat::keys::PresenceLayout;
use parlor_chat::presence::PresenceStatus;
use parlor_testkit::eventually;

use super::fixture::{GRACE, PresenceFixture, socket_device, user};
use super::on_every_engine;
use crate::support::Fixture;

on_every_engine! {
    after_data_loss_devices_are_registered_again_without_events;
    a_new_user_of_an_empty_store_is_announced;
}

async fn lose_everything(fixture: &PresenceFixture) {
    let flush = redis::cmd("FLUSHALL");
    flush.exec_async(&mut fixture.store.clone()).await.unwrap();
}

async fn after_data_loss_devices_are_registered_again_without_events(mut fixture: PresenceFixture) {
    let before = fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    lose_everything(&fixture).await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    fixture.advance(std::time::Duration::from_secs(1)).await;
    fixture.run_background_once().await;
    let after = fixture.status("alice").await;
    assert_eq!(after.status, PresenceStatus::Online);
    assert!(after.version > before.version, "versions do not restart");
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 1);
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    fixture.nodes[0]
        .disconnect(&socket_device("alice", "s1"))
        .await
        .unwrap();
    assert_eq!(fixture.drain_event_names().await, ["offline alice"]);
}

async fn a_new_user_of_an_empty_store_is_announced(mut fixture: PresenceFixture) {
    lose_everything(&fixture).await;
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
}

#[tokio::test]
async fn presence_is_restored_from_node_memory_after_a_stale_store_restart() {
    let mut fixture = PresenceFixture::redis(PresenceLayout::Devices).await;
    fixture.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    let save = redis::cmd("SAVE");
    save.exec_async(&mut fixture.store.clone()).await.unwrap();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let server = fixture.server.as_mut().unwrap();
    server.kill9();
    server.restart().await;
    // Without a heartbeat of Alice.
    eventually("alice is registered again", async || {
        fixture.nodes[0].renew_lease().await?;
        fixture.nodes[0].flush_heartbeats().await?;
        let seen = fixture.nodes[0].status(&user("alice")).await?;
        Ok::<_, parlor_chat::api::error::Error>(seen.status == PresenceStatus::Online)
    })
    .await;
    fixture.assert_status("bob", PresenceStatus::Online).await;
}

#[tokio::test]
async fn while_redis_is_down_reads_are_degraded_and_departures_are_retried() {
    let mut fixture = PresenceFixture::redis(PresenceLayout::Devices).await;
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "online bob"]
    );
    fixture.server.as_mut().unwrap().kill9();

    let seen = eventually("the store is known to be unavailable", async || {
        fixture.nodes[0]
            .status(&user("alice"))
            .await
            .map(|it| it.degraded.then_some(it))
    })
    .await;
    assert_eq!((seen.status, seen.version), (PresenceStatus::Offline, 0));
    let left = fixture.nodes[0]
        .disconnect(&socket_device("alice", "s1"))
        .await;
    assert!(left.is_err_and(
        |error| error.code() == parlor_chat::api::error_code::ErrorCode::StoreUnavailable
    ));
    let new = fixture.nodes[0].connect(socket_device("carol", "s3")).await;
    assert!(new.is_err_and(|error| error.is_store_unavailable()));
    fixture.nodes[0]
        .heartbeat(&socket_device("bob", "s2"))
        .unwrap();
    assert!(fixture.nodes[0].flush_heartbeats().await.is_err());

    fixture.server.as_mut().unwrap().restart_empty().await;
    eventually("the lease is acquired again", async || {
        fixture.nodes[0].renew_lease().await
    })
    .await;
    fixture.resubscribe().await;
    fixture.run_background_once().await;
    fixture.assert_status("bob", PresenceStatus::Online).await;
    fixture.assert_status("carol", PresenceStatus::Online).await;
    assert_eq!(fixture.drain_event_names().await, ["online carol"]);
    // Deferred departures are published after the other nodes had time to register their devices.
    fixture.pass(GRACE).await;
    fixture.run_background_once().await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    assert_eq!(fixture.drain_event_names().await, ["offline alice"]);
}
