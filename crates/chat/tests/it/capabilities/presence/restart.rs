//! Restart of the embedded store, which does not write heartbeats to disk.

use std::time::Duration;

use parlor_chat::keys::{Key, PresenceLayout};
use parlor_chat::presence::PresenceStatus;
use parlor_store::ManualClock;

use super::fixture::{PresenceFixture, api_device, socket_device, user};

#[tokio::test]
async fn devices() {
    a_restart_makes_no_user_offline(PresenceLayout::Devices).await;
}

#[tokio::test]
async fn document() {
    a_restart_makes_no_user_offline(PresenceLayout::Document).await;
}

#[tokio::test]
async fn sockets() {
    a_restart_makes_no_user_offline(PresenceLayout::Sockets).await;
}

#[tokio::test]
async fn status() {
    a_restart_makes_no_user_offline(PresenceLayout::Status).await;
}

async fn a_restart_makes_no_user_offline(layout: PresenceLayout) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let mut fixture = PresenceFixture::on_disk(folder.path(), clock.clone(), layout).await;
    let (phone, tab) = (api_device("alice", "phone"), socket_device("bob", "s1"));
    let hidden = api_device("carol", "web");
    fixture.nodes[0]
        .connect_visible(phone.clone())
        .await
        .unwrap();
    fixture.nodes[0].connect(tab.clone()).await.unwrap();
    fixture.nodes[0]
        .connect_visible(hidden.clone())
        .await
        .unwrap();
    fixture.nodes[0]
        .set_status(&user("carol"), PresenceStatus::Offline)
        .await
        .unwrap();
    // Two lifetimes, so that the deadlines on disk have passed long ago.
    for _ in 0..6 {
        fixture.pass(fixture.ttl() / 3).await;
        for device in [&phone, &tab, &hidden] {
            fixture.nodes[0].heartbeat(device).unwrap();
        }
        fixture.run_background_once().await;
    }
    fixture.drain_events().await;
    let version = fixture.status("alice").await.version;
    fixture.store.close().await;
    drop(fixture);

    let mut fixture = PresenceFixture::on_disk(folder.path(), clock, layout).await;
    fixture.assert_status("alice", PresenceStatus::Online).await;
    fixture.assert_status("bob", PresenceStatus::Online).await;
    fixture
        .assert_status("carol", PresenceStatus::Offline)
        .await;
    assert!(fixture.status("alice").await.version >= version);
    assert!(is_shown(&fixture).await, "other services see alice online");
    // The devices of the ended process had the grace period to reconnect.
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["offline bob"]);
    fixture.nodes[0].heartbeat(&phone).unwrap();
    fixture.pass(fixture.ttl() / 2).await;
    fixture.run_background_once().await;
    fixture.assert_status("alice", PresenceStatus::Online).await;
    assert!(fixture.drain_event_names().await.is_empty());

    fixture.nodes[0]
        .set_status(&user("carol"), PresenceStatus::Online)
        .await
        .unwrap();
    assert_eq!(
        fixture.drain_event_names().await,
        ["online carol"],
        "she was connected, but invisible"
    );
    fixture.pass(fixture.ttl() * 2).await;
    fixture.run_background_once().await;
    let mut gone = fixture.drain_event_names().await;
    gone.sort();
    assert_eq!(gone, ["offline alice", "offline carol"]);
}

/// A heartbeat brings back a user who was read as offline, and watchers receive a version. Later writes stay on disk.
#[tokio::test]
async fn a_published_presence_version_never_decreases_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let fixture =
        PresenceFixture::on_disk(folder.path(), clock.clone(), PresenceLayout::Devices).await;
    let phone = api_device("alice", "phone");
    let before = fixture.nodes[0]
        .connect_visible(phone.clone())
        .await
        .unwrap();
    fixture.pass(fixture.ttl()).await;
    fixture.nodes[0].heartbeat(&phone).unwrap();
    fixture.nodes[0].flush_heartbeats().await.unwrap();
    let reported = fixture.status("alice").await;
    assert!(reported.version > before.version);
    fixture.pass(Duration::from_secs(1)).await;
    fixture.nodes[0]
        .connect(api_device("alice", "tab"))
        .await
        .unwrap();
    fixture.store.close().await;
    drop(fixture);
    let fixture = PresenceFixture::on_disk(folder.path(), clock, PresenceLayout::Devices).await;
    assert!(fixture.status("alice").await.version >= reported.version);
}

/// The heartbeat of one of several devices writes the whole state, but not to disk.
#[tokio::test]
async fn a_state_on_disk_lives_as_long_as_its_devices_send_heartbeats() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let fixture =
        PresenceFixture::on_disk(folder.path(), clock.clone(), PresenceLayout::Devices).await;
    let devices = [api_device("alice", "phone"), api_device("alice", "tab")];
    for device in &devices {
        fixture.nodes[0].connect(device.clone()).await.unwrap();
    }
    let alice = user("alice");
    fixture.nodes[0]
        .set_status(&alice, PresenceStatus::Away)
        .await
        .unwrap();
    let hour = Duration::from_secs(3_600);
    let mut expire = redis::cmd("EXPIRE");
    expire.arg(fixture.keys.presence_state(&alice));
    let expire = expire.arg((23 * hour).as_secs());
    expire.exec_async(&mut fixture.store.clone()).await.unwrap();
    for _ in 0..3 {
        fixture.pass(fixture.ttl() / 2).await;
        for device in &devices {
            fixture.nodes[0].heartbeat(device).unwrap();
        }
        fixture.run_background_once().await;
    }
    fixture.store.close().await;
    drop(fixture);
    clock.advance(24 * hour);
    let fixture = PresenceFixture::on_disk(folder.path(), clock, PresenceLayout::Devices).await;
    fixture.assert_status("alice", PresenceStatus::Away).await;
}

async fn is_shown(fixture: &PresenceFixture) -> bool {
    let alice = user("alice");
    let key: Key = match fixture.layout {
        PresenceLayout::Devices => fixture.keys.presence_devices(&alice),
        PresenceLayout::Document => fixture.keys.presence_document(&alice),
        PresenceLayout::Sockets => fixture.keys.presence_sockets(&alice),
        PresenceLayout::Status => fixture.keys.presence_status(&alice),
    };
    let mut exists = redis::cmd("EXISTS");
    exists.arg(key);
    exists
        .query_async(&mut fixture.store.clone())
        .await
        .unwrap()
}

/// The process is killed: the folder is copied as it is on disk, without a flush.
async fn killed(fixture: &PresenceFixture, folder: &std::path::Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
    }
    fixture.store.close().await;
    copy
}

#[tokio::test]
async fn an_acknowledged_status_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let layout = PresenceLayout::Devices;
    let fixture = PresenceFixture::on_disk(folder.path(), clock.clone(), layout).await;
    let phone = api_device("alice", "phone");
    fixture.nodes[0].connect_visible(phone).await.unwrap();
    let busy = fixture.nodes[0]
        .set_status(&user("alice"), PresenceStatus::Busy)
        .await
        .unwrap();
    let copy = killed(&fixture, folder.path()).await;
    let fixture = PresenceFixture::on_disk(copy.path(), clock, layout).await;
    let after = fixture.status("alice").await;
    assert_eq!(after.status, PresenceStatus::Busy);
    assert!(after.version >= busy.version);
}

/// The change of one user and the whole state of another are not on disk yet when the process is killed.
#[tokio::test]
async fn no_version_falls_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let layout = PresenceLayout::Devices;
    let fixture = PresenceFixture::on_disk(folder.path(), clock.clone(), layout).await;
    let phone = api_device("alice", "phone");
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    fixture.store.wait_until_durable().await.unwrap();
    let copy = killed(&fixture, folder.path()).await;
    // The kill has lost all changes after this time.
    let lost = fixture.now().as_millis() + 400;
    clock.advance(Duration::from_millis(500));
    for _ in 0..2 {
        let fixture = PresenceFixture::on_disk(copy.path(), clock.clone(), layout).await;
        for who in ["alice", "a-user-whose-state-was-lost"] {
            let version = fixture.status(who).await.version;
            assert!(version > lost, "{who}: {version}");
        }
        // A clean restart keeps the minimum.
        fixture.store.close().await;
    }
}
