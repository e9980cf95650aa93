//! Restart of the embedded store, which does not write heartbeats to disk.

use std::time::Duration;

use parlor_chat::keys::{Key, PresenceLayout};
use parlor_chat::presence::PresenceStatus;
use parlor_store::ManualClock;

use super::fixture::{World, api_device, socket_device, user};

#[tokio::test]
async fn devices() {
    nobody_goes_by_a_restart(PresenceLayout::Devices).await;
}

#[tokio::test]
async fn document() {
    nobody_goes_by_a_restart(PresenceLayout::Document).await;
}

#[tokio::test]
async fn sockets() {
    nobody_goes_by_a_restart(PresenceLayout::Sockets).await;
}

#[tokio::test]
async fn status() {
    nobody_goes_by_a_restart(PresenceLayout::Status).await;
}

async fn nobody_goes_by_a_restart(layout: PresenceLayout) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let mut world = World::on_disk(folder.path(), clock.clone(), layout).await;
    let (phone, tab) = (api_device("alice", "phone"), socket_device("bob", "s1"));
    let hidden = api_device("carol", "web");
    world.nodes[0].connect_visible(phone.clone()).await.unwrap();
    world.nodes[0].connect(tab.clone()).await.unwrap();
    world.nodes[0]
        .connect_visible(hidden.clone())
        .await
        .unwrap();
    world.nodes[0]
        .set(&user("carol"), PresenceStatus::Offline)
        .await
        .unwrap();
    // Two lifetimes, so that the deadlines on disk have passed long ago.
    for _ in 0..6 {
        world.pass(world.ttl() / 3).await;
        for device in [&phone, &tab, &hidden] {
            world.nodes[0].beat(device).unwrap();
        }
        world.run_background_once().await;
    }
    world.drain_events().await;
    let version = world.status("alice").await.version;
    world.store.close().await;
    drop(world);

    let mut world = World::on_disk(folder.path(), clock, layout).await;
    world.assert_status("alice", PresenceStatus::Online).await;
    world.assert_status("bob", PresenceStatus::Online).await;
    world.assert_status("carol", PresenceStatus::Offline).await;
    assert!(world.status("alice").await.version >= version);
    assert!(is_shown(&world).await, "other services see alice online");
    // The devices of the ended process had the grace period to reconnect.
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["offline bob"]);
    world.nodes[0].beat(&phone).unwrap();
    world.pass(world.ttl() / 2).await;
    world.run_background_once().await;
    world.assert_status("alice", PresenceStatus::Online).await;
    assert!(world.drain_event_names().await.is_empty());

    world.nodes[0]
        .set(&user("carol"), PresenceStatus::Online)
        .await
        .unwrap();
    assert_eq!(
        world.drain_event_names().await,
        ["online carol"],
        "she was connected, but invisible"
    );
    world.pass(world.ttl() * 2).await;
    world.run_background_once().await;
    let mut gone = world.drain_event_names().await;
    gone.sort();
    assert_eq!(gone, ["offline alice", "offline carol"]);
}

/// A heartbeat brings back a user who was read as offline, and watchers receive a version. Later writes stay on disk.
#[tokio::test]
async fn a_published_presence_version_never_decreases_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let world = World::on_disk(folder.path(), clock.clone(), PresenceLayout::Devices).await;
    let phone = api_device("alice", "phone");
    let before = world.nodes[0].connect_visible(phone.clone()).await.unwrap();
    world.pass(world.ttl()).await;
    world.nodes[0].beat(&phone).unwrap();
    world.nodes[0].flush_heartbeats().await.unwrap();
    let told = world.status("alice").await;
    assert!(told.version > before.version);
    world.pass(Duration::from_secs(1)).await;
    world.nodes[0]
        .connect(api_device("alice", "tab"))
        .await
        .unwrap();
    world.store.close().await;
    drop(world);
    let world = World::on_disk(folder.path(), clock, PresenceLayout::Devices).await;
    assert!(world.status("alice").await.version >= told.version);
}

/// The heartbeat of one of several devices writes the whole state, but not to disk.
#[tokio::test]
async fn a_state_on_disk_lives_as_long_as_its_devices_beat() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let world = World::on_disk(folder.path(), clock.clone(), PresenceLayout::Devices).await;
    let devices = [api_device("alice", "phone"), api_device("alice", "tab")];
    for device in &devices {
        world.nodes[0].connect(device.clone()).await.unwrap();
    }
    let alice = user("alice");
    world.nodes[0]
        .set(&alice, PresenceStatus::Away)
        .await
        .unwrap();
    let hour = Duration::from_secs(3_600);
    let mut expire = redis::cmd("EXPIRE");
    expire.arg(world.keys.presence_state(&alice));
    let expire = expire.arg((23 * hour).as_secs());
    expire.exec_async(&mut world.store.clone()).await.unwrap();
    for _ in 0..3 {
        world.pass(world.ttl() / 2).await;
        for device in &devices {
            world.nodes[0].beat(device).unwrap();
        }
        world.run_background_once().await;
    }
    world.store.close().await;
    drop(world);
    clock.advance(24 * hour);
    let world = World::on_disk(folder.path(), clock, PresenceLayout::Devices).await;
    world.assert_status("alice", PresenceStatus::Away).await;
}

async fn is_shown(world: &World) -> bool {
    let alice = user("alice");
    let key: Key = match world.layout {
        PresenceLayout::Devices => world.keys.presence_devices(&alice),
        PresenceLayout::Document => world.keys.presence_document(&alice),
        PresenceLayout::Sockets => world.keys.presence_sockets(&alice),
        PresenceLayout::Status => world.keys.presence_status(&alice),
    };
    let mut exists = redis::cmd("EXISTS");
    exists.arg(key);
    exists.query_async(&mut world.store.clone()).await.unwrap()
}
