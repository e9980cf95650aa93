//! Messages whose steps after the commit did not happen.

use std::time::Duration;

use parlor_testkit::eventually;

use super::on_every_ground;
use super::world::{Told, World, c1, user};

on_every_ground! {
    the_next_message_applies_those_before_it;
    where_nothing_is_known_the_last_minute_is_applied;
    a_top_of_another_epoch_is_not_believed;
    a_node_that_starts_applies_the_last_message_of_one_that_died;
    a_dead_node_is_caught_up_with_by_the_one_that_claims_it;
    a_message_that_a_dead_node_applied_and_did_not_count_is_counted;
    edits_of_a_dead_node_are_shown_by_the_one_that_claims_it;
    a_node_that_starts_sets_a_list_right_that_shows_an_old_text;
    a_long_gap_is_closed_in_order;
    a_list_that_lost_its_top_is_not_served;
}

pub async fn the_next_message_applies_those_before_it(mut world: World) {
    world.send(0, "alice", "one").await;
    world.write_only("bob", "two").await;
    world.write_only("carol", "three").await;
    assert_eq!(world.created().await, [1]);
    world.send(1, "alice", "four").await;
    assert_eq!(world.created().await, [2, 3, 4]);
    assert_eq!(world.events(4).await.len(), 4);
    assert_eq!(world.newest(0).await, ["one", "two", "three", "four"]);
    assert_eq!(world.list().await.len(), 4);
    let unread = world.unread("bob").await;
    eventually("bob's counter follows", async || {
        world.unread("bob").await == "2"
    })
    .await;
    assert!(unread == "2" || unread == "1", "{unread}");
}

async fn where_nothing_is_known_the_last_minute_is_applied(mut world: World) {
    world.send(0, "alice", "old").await;
    world.advance(Duration::from_secs(120)).await;
    world.send(0, "alice", "new").await;
    world.write_only("bob", "newer").await;
    world.forget().await;
    assert_eq!(world.created().await, [1, 2]);
    world.send(1, "carol", "newest").await;
    assert_eq!(
        world.created().await,
        [2, 3, 4],
        "what is older was applied"
    );
    assert_eq!(world.newest(1).await, ["old", "new", "newer", "newest"]);
}

async fn a_top_of_another_epoch_is_not_believed(mut world: World) {
    for nth in 1..=3 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    world.created().await;
    // As a server that came back with an older copy: the list ends before what was acknowledged.
    world.age(1, 2).await;
    assert_eq!(world.newest(0).await, ["1", "2", "3"]);
    world.age(1, 2).await;
    world.send(1, "bob", "4").await;
    assert_eq!(world.newest(1).await, ["1", "2", "3", "4"]);
    let created = world.created().await;
    assert_eq!(
        created,
        [3, 3, 4],
        "what the older copy knows is not told again"
    );
}

async fn a_node_that_starts_applies_the_last_message_of_one_that_died(mut world: World) {
    world.send(0, "alice", "one").await;
    world.write_only("bob", "two").await;
    world.advance(Duration::from_secs(20 * 60)).await;
    assert_eq!(world.newest(0).await, ["one"], "nobody has looked yet");
    let node = world.start("n2").await;
    assert_eq!(node.messages().follow().await.unwrap(), 1);
    assert_eq!(world.created().await, [1, 2]);
    assert_eq!(world.newest(0).await, ["one", "two"]);
    assert_eq!(node.messages().follow().await.unwrap(), 0);
    assert_eq!(world.nodes[0].messages().follow().await.unwrap(), 0);
}

async fn a_dead_node_is_caught_up_with_by_the_one_that_claims_it(mut world: World) {
    for node in &world.nodes {
        node.messages().follow().await.unwrap();
    }
    world.send(0, "alice", "one").await;
    world.write_only("bob", "two").await;
    let second = world.nodes.pop().unwrap();
    drop(second);
    for _ in 0..16 {
        world.advance(Duration::from_secs(1)).await;
        world.nodes[0].presence().renew().await.unwrap();
    }
    world.nodes[0].presence().reap().await.unwrap();
    assert_eq!(world.nodes[0].messages().follow().await.unwrap(), 1);
    assert_eq!(world.created().await, [1, 2]);
    assert_eq!(world.nodes[0].messages().follow().await.unwrap(), 0);
}

async fn a_message_that_a_dead_node_applied_and_did_not_count_is_counted(mut world: World) {
    world.send(0, "alice", "one").await;
    eventually("bob's counter follows", async || {
        world.unread("bob").await == "1"
    })
    .await;
    let state = world.keys.unread_state(&user("bob"));
    let read = redis::cmd("HGETALL").arg(&state).take();
    let read = read.query_async(&mut world.store.clone()).await;
    let before: Vec<String> = read.unwrap();
    world.send(0, "alice", "two").await;
    assert_eq!(world.unread("bob").await, "2");
    let total = world.keys.unread_total(&user("bob"));
    let mut back = redis::pipe();
    back.cmd("HSET").arg(&state).arg(&before);
    back.set(world.keys.unread(&user("bob"), &c1()), 1)
        .set(total, 1);
    back.exec_async(&mut world.store.clone()).await.unwrap();
    assert_eq!(world.unread("bob").await, "1");
    let node = world.start("n2").await;
    let behind = node.messages().follow().await.unwrap();
    assert_eq!(behind, 0, "it was applied");
    assert_eq!(world.unread("bob").await, "2");
    assert_eq!(world.created().await, [1, 2]);
}

async fn edits_of_a_dead_node_are_shown_by_the_one_that_claims_it(mut world: World) {
    for nth in 1..=120 {
        world.write_only("alice", &nth.to_string()).await;
    }
    world.send(0, "alice", "121").await;
    for node in &world.nodes {
        node.messages().follow().await.unwrap();
    }
    world.frames().await;
    // More than a page, and some of them no longer in the list.
    world.edit_only(3, 121, "edited").await;
    drop(world.nodes.pop());
    for _ in 0..16 {
        world.advance(Duration::from_secs(1)).await;
        world.nodes[0].presence().renew().await.unwrap();
    }
    world.nodes[0].presence().reap().await.unwrap();
    assert_eq!(world.list().await[0]["content"], "121", "nobody has looked");
    world.nodes[0].messages().follow().await.unwrap();
    let told = world.frames().await.into_iter();
    let told = told.filter_map(|told| match told {
        Told::Changed(seq, rev, message) => Some((seq, rev, message["content"] == "edited")),
        _ => None,
    });
    let mut told: Vec<_> = told.collect();
    told.sort_unstable();
    let expected = (3..=121).map(|seq| (seq, seq + 119, true));
    assert_eq!(told, expected.collect::<Vec<_>>());
    let shown = world.list().await.into_iter();
    assert_eq!(shown.filter(|it| it["content"] == "edited").count(), 100);
    world.nodes[0].messages().follow().await.unwrap();
    assert_eq!(world.frames().await, [], "it is done");
}

async fn a_node_that_starts_sets_a_list_right_that_shows_an_old_text(mut world: World) {
    for nth in 1..=3 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    world.edit_only(2, 2, "two").await;
    world.advance(Duration::from_secs(20 * 60)).await;
    assert_eq!(world.newest(0).await, ["1", "2", "3"], "nobody has looked");
    world.frames().await;
    let node = world.start("n2").await;
    assert_eq!(node.messages().follow().await.unwrap(), 0);
    assert_eq!(world.newest(0).await, ["1", "two", "3"]);
    let told = world.frames().await;
    assert!(
        matches!(&told[..], [Told::Changed(2, 4, _)]),
        "whoever shows the list is told, too: {told:?}"
    );
    let node = world.start("n3").await;
    node.messages().follow().await.unwrap();
    assert_eq!(world.frames().await, [], "the list shows it");
}

async fn a_long_gap_is_closed_in_order(mut world: World) {
    world.send(0, "alice", "1").await;
    for nth in 2..=230 {
        world.write_only("bob", &nth.to_string()).await;
    }
    world.send(0, "alice", "231").await;
    assert_eq!(world.created().await, (1..=231).collect::<Vec<_>>());
    world.forget().await;
    world.nodes[1].messages().catch_up(&c1()).await.unwrap();
    assert_eq!(
        world.created().await,
        (1..=231).collect::<Vec<_>>(),
        "all of the last minute"
    );
    assert_eq!(world.newest(1).await.len(), 100);
}

async fn a_list_that_lost_its_top_is_not_served(world: World) {
    for nth in 1..=3 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    let mut del = redis::cmd("DEL");
    world.run(del.arg(world.keys.top(&c1()))).await;
    let mut trim = redis::cmd("LPOP");
    world.run(trim.arg(world.keys.recent(&c1()))).await;
    assert_eq!(world.newest(0).await, ["1", "2", "3"]);
    assert_eq!(world.list().await.len(), 3, "and is installed anew");
    // Somebody else's hand in the list.
    world.run(trim.arg(2)).await;
    assert_eq!(world.newest(0).await, ["1", "2", "3"]);
}
