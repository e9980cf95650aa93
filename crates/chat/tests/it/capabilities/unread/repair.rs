//! Repair of the unread keys of all users.

use std::sync::Mutex;

use parlor_chat::unread::{DifferenceKind, RepairReport};

use super::fixture::{World, conversation, map, user};
use super::on_both;

on_both! {
    a_repair_finds_and_mends_what_differs;
    a_dry_run_changes_nothing;
    a_repair_of_a_store_that_is_right_finds_nothing;
    a_repair_beside_senders_loses_nothing;
}

const BOTH: &[&str] = &["c1", "c2"];

async fn set(world: &World, key: impl redis::ToSingleRedisArg, value: &str) {
    let set = redis::cmd("SET").arg(key).arg(value).take();
    set.exec_async(&mut world.store.clone()).await.unwrap();
}

async fn repair(world: &World, dry_run: bool) -> RepairReport {
    world.node().repair(dry_run, |_, _| {}).await.unwrap()
}

/// Three users in two conversations with four kinds of damage: a counter, a total, a position, and keys of non-members.
async fn damaged(world: &World) {
    world.group("c1", &["alice", "bob"]).await;
    world.group("c2", &["alice", "bob", "carol"]).await;
    world.send("c1", "alice").await;
    world.send("c2", "alice").await;
    let (alice, bob, carol) = (user("alice"), user("bob"), user("carol"));
    let (c1, c2) = (conversation("c1"), conversation("c2"));
    set(world, world.keys.unread(&bob, &c1), "7").await;
    set(world, world.keys.unread_total(&alice), "9").await;
    let position = redis::cmd("HSET")
        .arg(world.keys.unread_state(&carol))
        .arg("c2")
        .arg("1|3|0|9|9|0|0|0|1")
        .take();
    position.exec_async(&mut world.store.clone()).await.unwrap();
    set(world, world.keys.unread(&carol, &c1), "3").await;
    set(world, world.keys.unread(&user("nobody"), &c2), "3").await;
    set(world, world.keys.unread_total(&user("nobody")), "3").await;
}

async fn is_right(world: &World) {
    for who in ["alice", "bob", "carol", "nobody"] {
        let stored = world.stored_counts(who, BOTH).await;
        assert_eq!(stored, world.api_counts(who).await, "{who}");
    }
}

pub async fn a_repair_finds_and_mends_what_differs(world: World) {
    damaged(&world).await;
    let frames = Mutex::new(Vec::new());
    let report = world.node().repair(false, |done, all| {
        frames.lock().unwrap().push((done, all));
    });
    let report = report.await.unwrap();
    let found = (
        report.counters,
        report.totals,
        report.positions,
        report.orphans,
    );
    assert_eq!(found, (1, 1, 1, 3), "{report:?}");
    assert_eq!(
        (report.users, report.users_with_differences),
        (3, 3),
        "{report:?}"
    );
    let counter = report
        .differences
        .iter()
        .find(|it| it.what == DifferenceKind::Counter);
    let counter = counter.unwrap();
    assert_eq!(counter.user_id, user("bob"));
    assert_eq!((counter.found.as_deref(), counter.expected), (Some("7"), 1));
    assert_eq!(frames.into_inner().unwrap(), [(0, 3), (3, 3)]);
    assert_eq!(
        world.stored_counts("carol", BOTH).await,
        map(&[("c2", 1), ("total", 1)])
    );
    is_right(&world).await;
    assert_eq!(repair(&world, false).await.found(), 0);
}

pub async fn a_dry_run_changes_nothing(world: World) {
    damaged(&world).await;
    let first = repair(&world, true).await;
    assert_eq!(first.found(), 6, "{first:?}");
    let second = repair(&world, true).await;
    assert_eq!(second.found(), 6, "{second:?}");
    assert_eq!(
        world.stored_counts("nobody", BOTH).await,
        map(&[("c2", 3), ("total", 3)])
    );
}

pub async fn a_repair_of_a_store_that_is_right_finds_nothing(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    world.group("c2", &["alice", "bob", "carol", "dave"]).await;
    for conv in ["c1", "c2", "c1"] {
        world.send(conv, "alice").await;
    }
    let bob = user("bob");
    world
        .node()
        .read(&bob, &conversation("c1"), Some(2))
        .await
        .unwrap();
    world.leave("c1", "bob").await;
    // In the large conversation only the sender's keys were updated. A user without any state has no difference.
    world.api_counts("bob").await;
    world.send("c2", "alice").await;
    let report = repair(&world, true).await;
    let differences = report.differences.iter();
    let of_bob: Vec<_> = differences.filter(|it| it.user_id == bob).collect();
    assert!(of_bob.is_empty(), "{of_bob:?}");
    assert_eq!(report.large_lagging, 1, "{report:?}");
    repair(&world, false).await;
    let report = repair(&world, true).await;
    assert_eq!((report.found(), report.large_lagging), (0, 0), "{report:?}");
    assert_eq!(
        world.stored_counts("dave", BOTH).await,
        map(&[("c2", 2), ("total", 2)])
    );
    is_right(&world).await;
}

pub async fn a_repair_beside_senders_loses_nothing(world: World) {
    damaged(&world).await;
    let sending = async {
        for nth in 0..30 {
            let (conv, sender) = [("c1", "alice"), ("c2", "carol"), ("c2", "bob")][nth % 3];
            world.send(conv, sender).await;
            if nth % 5 == 0 {
                let (bob, c2) = (user("bob"), conversation("c2"));
                world.node().read(&bob, &c2, None).await.unwrap();
            }
        }
    };
    let repairing = async {
        for _ in 0..3 {
            world.nodes[1].repair(false, |_, _| {}).await.unwrap();
        }
    };
    tokio::join!(sending, repairing);
    for who in ["alice", "bob", "carol"] {
        let stored = world.stored_counts(who, BOTH).await;
        assert_eq!(stored, world.api_counts(who).await, "{who}");
    }
}
