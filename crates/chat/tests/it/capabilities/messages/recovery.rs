//! Messages and edits whose node died after the commit.

use std::time::Duration;

use parlor_testkit::eventually;

use super::fixture::{PublishedFrame, World, c1, user};
use super::test_on_all_backends;

test_on_all_backends! {
    the_next_message_applies_those_before_it;
    without_a_recent_top_the_last_minute_of_rows_is_applied;
    a_recent_top_of_another_epoch_is_ignored;
    a_node_that_starts_applies_the_last_message_of_one_that_died;
    the_node_that_claims_a_dead_node_applies_its_messages;
    a_message_that_a_dead_node_applied_and_did_not_count_is_counted;
    edits_of_a_dead_node_are_published_by_another_node;
    a_starting_node_repairs_a_recent_list_with_an_old_text;
    a_long_gap_is_closed_in_order;
    a_recent_list_without_top_is_rebuilt_from_rows;
}

pub async fn the_next_message_applies_those_before_it(mut world: World) {
    world.send(0, "alice", "one").await;
    world.commit_without_applying("bob", "two").await;
    world.commit_without_applying("carol", "three").await;
    assert_eq!(world.published_seqs().await, [1]);
    world.send(1, "alice", "four").await;
    assert_eq!(world.published_seqs().await, [2, 3, 4]);
    assert_eq!(world.events(4).await.len(), 4);
    assert_eq!(world.newest(0).await, ["one", "two", "three", "four"]);
    assert_eq!(world.recent_list().await.len(), 4);
    let unread = world.unread("bob").await;
    eventually("bob's counter is updated", async || {
        world.unread("bob").await == "2"
    })
    .await;
    assert!(unread == "2" || unread == "1", "{unread}");
}

async fn without_a_recent_top_the_last_minute_of_rows_is_applied(mut world: World) {
    world.send(0, "alice", "old").await;
    world.advance(Duration::from_secs(120)).await;
    world.send(0, "alice", "new").await;
    world.commit_without_applying("bob", "newer").await;
    world.delete_applied_state().await;
    assert_eq!(world.published_seqs().await, [1, 2]);
    world.send(1, "carol", "newest").await;
    assert_eq!(
        world.published_seqs().await,
        [2, 3, 4],
        "older messages are assumed to be applied"
    );
    assert_eq!(world.newest(1).await, ["old", "new", "newer", "newest"]);
}

async fn a_recent_top_of_another_epoch_is_ignored(mut world: World) {
    for nth in 1..=3 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    world.published_seqs().await;
    // Like a server that was restored from an old snapshot: the list ends before the last acknowledged message.
    world.restore_old_snapshot(1, 2).await;
    assert_eq!(world.newest(0).await, ["1", "2", "3"]);
    world.restore_old_snapshot(1, 2).await;
    world.send(1, "bob", "4").await;
    assert_eq!(world.newest(1).await, ["1", "2", "3", "4"]);
    let created = world.published_seqs().await;
    assert_eq!(
        created,
        [3, 3, 4],
        "messages up to the old watermark are not published again"
    );
}

async fn a_node_that_starts_applies_the_last_message_of_one_that_died(mut world: World) {
    world.send(0, "alice", "one").await;
    world.commit_without_applying("bob", "two").await;
    world.advance(Duration::from_secs(20 * 60)).await;
    assert_eq!(
        world.newest(0).await,
        ["one"],
        "no node has run recovery yet"
    );
    let node = world.start("n2").await;
    assert_eq!(node.messages().recover_if_needed().await.unwrap(), 1);
    assert_eq!(world.published_seqs().await, [1, 2]);
    assert_eq!(world.newest(0).await, ["one", "two"]);
    assert_eq!(node.messages().recover_if_needed().await.unwrap(), 0);
    assert_eq!(
        world.nodes[0].messages().recover_if_needed().await.unwrap(),
        0
    );
}

async fn the_node_that_claims_a_dead_node_applies_its_messages(mut world: World) {
    for node in &world.nodes {
        node.messages().recover_if_needed().await.unwrap();
    }
    world.send(0, "alice", "one").await;
    world.commit_without_applying("bob", "two").await;
    let second = world.nodes.pop().unwrap();
    drop(second);
    for _ in 0..16 {
        world.advance(Duration::from_secs(1)).await;
        world.nodes[0].presence().renew_lease().await.unwrap();
    }
    world.nodes[0].presence().reap_dead_nodes().await.unwrap();
    assert_eq!(
        world.nodes[0].messages().recover_if_needed().await.unwrap(),
        1
    );
    assert_eq!(world.published_seqs().await, [1, 2]);
    assert_eq!(
        world.nodes[0].messages().recover_if_needed().await.unwrap(),
        0
    );
}

async fn a_message_that_a_dead_node_applied_and_did_not_count_is_counted(mut world: World) {
    world.send(0, "alice", "one").await;
    eventually("bob's counter is updated", async || {
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
    let behind = node.messages().recover_if_needed().await.unwrap();
    assert_eq!(behind, 0, "the message was applied");
    assert_eq!(world.unread("bob").await, "2");
    assert_eq!(world.published_seqs().await, [1, 2]);
}

async fn edits_of_a_dead_node_are_published_by_another_node(mut world: World) {
    for nth in 1..=120 {
        world
            .commit_without_applying("alice", &nth.to_string())
            .await;
    }
    world.send(0, "alice", "121").await;
    world.nodes[0].outbox().drain().await.unwrap();
    world.frames().await;
    // More than one page. Some of the messages are not in the list any more.
    world.edit_without_publishing(3, 121, "edited").await;
    assert_eq!(world.nodes[0].outbox().apply_due().await.unwrap(), 0);
    assert_eq!(
        world.recent_list().await[0]["content"],
        "121",
        "the entries still belong to the node that has inserted them"
    );
    world.advance(Duration::from_secs(1)).await;
    assert_eq!(world.nodes[0].outbox().apply_due().await.unwrap(), 119);
    let frames = world.frames().await.into_iter();
    let frames = frames.filter_map(|frame| match frame {
        PublishedFrame::Changed(seq, rev, message) => {
            Some((seq, rev, message["content"] == "edited"))
        }
        _ => None,
    });
    let expected = (3..=121).map(|seq| (seq, seq + 119, true));
    assert_eq!(frames.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let listed = world.recent_list().await.into_iter();
    assert_eq!(listed.filter(|it| it["content"] == "edited").count(), 100);
    assert_eq!(world.nodes[1].outbox().drain().await.unwrap(), 0);
    assert_eq!(world.frames().await, [], "the outbox is empty");
}

async fn a_starting_node_repairs_a_recent_list_with_an_old_text(mut world: World) {
    for nth in 1..=3 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    world.edit_without_publishing(2, 2, "two").await;
    world.advance(Duration::from_secs(20 * 60)).await;
    assert_eq!(
        world.newest(0).await,
        ["1", "2", "3"],
        "no node has applied the outbox yet"
    );
    world.frames().await;
    let node = world.start("n2").await;
    assert_eq!(node.messages().recover_if_needed().await.unwrap(), 0);
    node.outbox().apply_due().await.unwrap();
    assert_eq!(world.newest(0).await, ["1", "two", "3"]);
    let frames = world.frames().await;
    assert!(
        matches!(&frames[..], [PublishedFrame::Changed(2, 4, _)]),
        "the change is also published: {frames:?}"
    );
    let node = world.start("n3").await;
    node.messages().recover_if_needed().await.unwrap();
    node.outbox().apply_due().await.unwrap();
    assert_eq!(world.frames().await, [], "the change is published once");
}

async fn a_long_gap_is_closed_in_order(mut world: World) {
    world.send(0, "alice", "1").await;
    for nth in 2..=230 {
        world.commit_without_applying("bob", &nth.to_string()).await;
    }
    world.send(0, "alice", "231").await;
    assert_eq!(world.published_seqs().await, (1..=231).collect::<Vec<_>>());
    world.delete_applied_state().await;
    world.nodes[1]
        .messages()
        .apply_unapplied(&c1())
        .await
        .unwrap();
    assert_eq!(
        world.published_seqs().await,
        (1..=231).collect::<Vec<_>>(),
        "all messages of the last minute are applied again"
    );
    assert_eq!(world.newest(1).await.len(), 100);
}

async fn a_recent_list_without_top_is_rebuilt_from_rows(world: World) {
    for nth in 1..=3 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    let mut del = redis::cmd("DEL");
    world.run(del.arg(world.keys.apply_watermark(&c1()))).await;
    let mut trim = redis::cmd("LPOP");
    world.run(trim.arg(world.keys.recent_list(&c1()))).await;
    assert_eq!(world.newest(0).await, ["1", "2", "3"]);
    assert_eq!(
        world.recent_list().await.len(),
        3,
        "the list is installed again"
    );
    // Another program removes entries from the list.
    world.run(trim.arg(2)).await;
    assert_eq!(world.newest(0).await, ["1", "2", "3"]);
}
