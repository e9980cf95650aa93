//! A restart of the embedded store, which does not keep beats.

use std::time::Duration;

use parlor_chat::keys::{Key, PresenceLayout};
use parlor_chat::presence::Status;
use parlor_store::ManualClock;

use super::world::{World, api, socket, user};

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
    let (phone, tab) = (api("alice", "phone"), socket("bob", "s1"));
    let hidden = api("carol", "web");
    world.nodes[0].appear(phone.clone()).await.unwrap();
    world.nodes[0].connect(tab.clone()).await.unwrap();
    world.nodes[0].appear(hidden.clone()).await.unwrap();
    world.nodes[0]
        .set(&user("carol"), Status::Offline)
        .await
        .unwrap();
    // Two lifetimes, so that the deadlines on disk are long over.
    for _ in 0..6 {
        world.pass(world.ttl() / 3).await;
        for device in [&phone, &tab, &hidden] {
            world.nodes[0].beat(device).unwrap();
        }
        world.tick().await;
    }
    world.announced().await;
    let version = world.status("alice").await.version;
    world.store.close().await;
    drop(world);

    let mut world = World::on_disk(folder.path(), clock, layout).await;
    world.is("alice", Status::Online).await;
    world.is("bob", Status::Online).await;
    world.is("carol", Status::Offline).await;
    assert!(world.status("alice").await.version >= version);
    assert!(is_shown(&world).await, "other services see alice, too");
    // Whom the process held has had the grace time to come back.
    world.tick().await;
    assert_eq!(world.news().await, ["offline bob"]);
    world.nodes[0].beat(&phone).unwrap();
    world.pass(world.ttl() / 2).await;
    world.tick().await;
    world.is("alice", Status::Online).await;
    assert!(world.news().await.is_empty());

    world.nodes[0]
        .set(&user("carol"), Status::Online)
        .await
        .unwrap();
    assert_eq!(
        world.news().await,
        ["online carol"],
        "she was there, unseen"
    );
    world.pass(world.ttl() * 2).await;
    world.tick().await;
    let mut gone = world.news().await;
    gone.sort();
    assert_eq!(gone, ["offline alice", "offline carol"]);
}

/// A beat brings one back who was seen as gone, and watchers are told a version. What else is written meanwhile is kept.
#[tokio::test]
async fn a_version_that_was_told_is_not_taken_back_by_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let world = World::on_disk(folder.path(), clock.clone(), PresenceLayout::Devices).await;
    let phone = api("alice", "phone");
    let before = world.nodes[0].appear(phone.clone()).await.unwrap();
    world.pass(world.ttl()).await;
    world.nodes[0].beat(&phone).unwrap();
    world.nodes[0].flush_beats().await.unwrap();
    let told = world.status("alice").await;
    assert!(told.version > before.version);
    world.pass(Duration::from_secs(1)).await;
    world.nodes[0].connect(api("alice", "tab")).await.unwrap();
    world.store.close().await;
    drop(world);
    let world = World::on_disk(folder.path(), clock, PresenceLayout::Devices).await;
    assert!(world.status("alice").await.version >= told.version);
}

/// A beat of one of many devices writes the whole state, and nothing of it to disk.
#[tokio::test]
async fn a_state_on_disk_lives_as_long_as_its_devices_beat() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let world = World::on_disk(folder.path(), clock.clone(), PresenceLayout::Devices).await;
    let devices = [api("alice", "phone"), api("alice", "tab")];
    for device in &devices {
        world.nodes[0].connect(device.clone()).await.unwrap();
    }
    let alice = user("alice");
    world.nodes[0].set(&alice, Status::Away).await.unwrap();
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
        world.tick().await;
    }
    world.store.close().await;
    drop(world);
    clock.advance(24 * hour);
    let world = World::on_disk(folder.path(), clock, PresenceLayout::Devices).await;
    world.is("alice", Status::Away).await;
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
