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
    counters_of_other_services_stay_and_count_in_the_total;
    keys_of_a_user_without_rows_stay;
}

const BOTH: &[&str] = &["c1", "c2"];

async fn set(world: &World, key: impl redis::ToSingleRedisArg, value: &str) {
    let set = redis::cmd("SET").arg(key).arg(value).take();
    set.exec_async(&mut world.store.clone()).await.unwrap();
}

async fn repair(world: &World, dry_run: bool) -> RepairReport {
    world.node().repair(dry_run, |_, _| {}).await.unwrap()
}

/// Three users in two conversations with four kinds of damage: a counter, a total, a position, and the counter of a user
/// who is not a member. The keys of `nobody`, who has no rows, belong to another service.
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
    for who in ["alice", "bob", "carol"] {
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
    assert_eq!(found, (1, 1, 1, 1), "{report:?}");
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
    assert_eq!(first.found(), 4, "{first:?}");
    let second = repair(&world, true).await;
    assert_eq!(second.found(), 4, "{second:?}");
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

async fn shown_total(world: &World, who: &str) -> Option<i64> {
    let get = redis::cmd("GET")
        .arg(world.keys.unread_total(&user(who)))
        .take();
    get.query_async(&mut world.store.clone()).await.unwrap()
}

async fn add(world: &World, key: impl redis::ToSingleRedisArg, number: i64) {
    let add = redis::cmd("INCRBY").arg(key).arg(number).take();
    add.exec_async(&mut world.store.clone()).await.unwrap();
}

/// Another service counts unread messages in a conversation of its own, and in the total, before and after Parlor does.
pub async fn counters_of_other_services_stay_and_count_in_the_total(world: World) {
    let bob = user("bob");
    let (own, total) = (
        world.keys.unread(&bob, &conversation("elsewhere")),
        world.keys.unread_total(&bob),
    );
    add(&world, &own, 2).await;
    add(&world, &total, 2).await;
    // The service has also counted a conversation that has rows from now on.
    let c1 = conversation("c1");
    add(&world, world.keys.unread(&bob, &c1), 5).await;
    add(&world, &total, 5).await;
    world.group("c1", &["alice", "bob"]).await;
    for seq in 1..=3 {
        world.send("c1", "alice").await;
        assert_eq!(shown_total(&world, "bob").await, Some(2 + seq));
    }
    add(&world, &own, 1).await;
    add(&world, &total, 1).await;
    world.node().read(&bob, &c1, Some(2)).await.unwrap();
    assert_eq!(shown_total(&world, "bob").await, Some(4));
    assert_eq!(
        world.api_counts("bob").await,
        map(&[("c1", 1), ("total", 1)])
    );
    // The positions are lost; the repair counts them again from the rows.
    let lose = redis::cmd("DEL").arg(world.keys.unread_state(&bob)).take();
    lose.exec_async(&mut world.store.clone()).await.unwrap();
    world.node().get_summary(&bob).await.unwrap();
    assert_eq!(shown_total(&world, "bob").await, Some(4));
    assert_eq!(repair(&world, false).await.found(), 0);
    // A wrong total is corrected, with the counts of the other service.
    add(&world, &total, 70).await;
    let report = repair(&world, false).await;
    assert_eq!((report.totals, report.found()), (1, 1), "{report:?}");
    assert_eq!(shown_total(&world, "bob").await, Some(4));
    world.leave("c1", "bob").await;
    assert_eq!(shown_total(&world, "bob").await, Some(3));
    let get = redis::cmd("GET").arg(&own).take();
    let count: Option<u64> = get.query_async(&mut world.store.clone()).await.unwrap();
    assert_eq!(count, Some(3));
}

pub async fn keys_of_a_user_without_rows_stay(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    let carol = user("carol");
    set(&world, world.keys.unread(&carol, &conversation("c1")), "3").await;
    set(&world, world.keys.unread_total(&carol), "3").await;
    assert_eq!(world.api_counts("carol").await, map(&[]));
    world.node().get_summary(&carol).await.unwrap();
    assert_eq!(repair(&world, false).await.found(), 0);
    assert_eq!(
        world.stored_counts("carol", &["c1"]).await,
        map(&[("c1", 3), ("total", 3)])
    );
}

/// Lets clients use only the keys that match these patterns.
async fn allow_keys(world: &World, patterns: &[&str]) {
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER")
        .arg("default")
        .arg("resetkeys")
        .arg(patterns);
    acl.exec_async(&mut world.store.clone()).await.unwrap();
}

#[tokio::test]
async fn a_user_whose_keys_cannot_be_written_does_not_stop_the_repair() {
    let world = World::redis().await;
    damaged(&world).await;
    allow_keys(&world, &["~*bob*", "~*carol*", "~*nobody*"]).await;
    let report = repair(&world, false).await;
    assert_eq!((report.users, report.failed_users), (3, 1), "{report:?}");
    for (who, counts) in [
        ("bob", &[("c1", 1), ("c2", 1), ("total", 2)][..]),
        ("carol", &[("c2", 1), ("total", 1)]),
    ] {
        assert_eq!(world.stored_counts(who, BOTH).await, map(counts), "{who}");
    }
    allow_keys(&world, &["~*"]).await;
    assert_eq!(repair(&world, false).await.failed_users, 0);
    is_right(&world).await;
}
