//! Which messages count as unread, and the keys after each update.

use std::time::Duration;

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::database::PerBackend;
use serde_json::json;

use super::fixture::{World, apply_messages, conversation, map, next, user};
use super::on_both;

on_both! {
    a_message_counts_for_everybody_but_its_sender;
    of_messages_that_were_committed_together_a_sender_has_not_read_the_later_ones;
    reading_clears_what_was_read_and_no_more;
    sending_moves_the_senders_own_position;
    marking_unread_counts_others_messages_only;
    a_new_member_starts_at_the_end;
    a_former_member_has_no_unread_count_even_for_late_messages;
    a_rejoining_member_starts_with_zero_unread_and_a_late_leave_is_ignored;
    a_mute_keeps_a_conversation_out_of_the_total_until_it_ends;
    a_mute_that_ended_is_swept_once;
    mentions_are_counted_apart;
    large_rooms_have_the_same_answers_and_their_keys_follow;
    positions_are_for_members;
    frames_tell_count_and_total;
    a_state_lives_for_thirty_days;
    counters_of_a_foreign_type_stay;
}

const C1: &[&str] = &["c1"];
const BOTH: &[&str] = &["c1", "c2"];

pub async fn a_message_counts_for_everybody_but_its_sender(world: World) {
    world.group("c1", &["alice", "bob", "carol"]).await;
    world.group("c2", &["alice", "bob"]).await;
    world.send("c1", "alice").await;
    world.send("c1", "alice").await;
    world.send("c2", "alice").await;
    let expected = map(&[("c1", 2), ("c2", 1), ("total", 3)]);
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    assert_eq!(world.api_counts("bob").await, expected);
    assert_eq!(
        world.stored_counts("carol", BOTH).await,
        map(&[("c1", 2), ("total", 2)])
    );
    assert_eq!(world.stored_counts("alice", BOTH).await, map(&[]));
    assert_eq!(world.api_counts("alice").await, map(&[]));
}

pub async fn of_messages_that_were_committed_together_a_sender_has_not_read_the_later_ones(
    world: World,
) {
    world.group("c1", &["alice", "bob", "carol"]).await;
    // From here on the state of every user is verified, and updates read no rows.
    world.send("c1", "carol").await;
    let mut together = Vec::new();
    for sender in ["bob", "alice", "bob", "carol"] {
        together.push(world.insert_message("c1", sender, &[]).await);
    }
    apply_messages(world.node(), &together).await;
    for (who, unread) in [("alice", 2), ("bob", 1)] {
        let expected = map(&[("c1", unread), ("total", unread)]);
        assert_eq!(world.stored_counts(who, C1).await, expected, "{who}");
        assert_eq!(world.api_counts(who).await, expected, "{who}");
    }
    assert_eq!(world.stored_counts("carol", C1).await, map(&[]));
}

pub async fn reading_clears_what_was_read_and_no_more(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    world.group("c2", &["alice", "bob"]).await;
    for _ in 0..4 {
        world.send("c1", "alice").await;
    }
    world.send("c2", "alice").await;
    let (bob, c1) = (user("bob"), conversation("c1"));
    let badge = world.node().read(&bob, &c1, Some(3)).await.unwrap();
    assert_eq!((badge.unread, badge.total), (1, 2));
    let expected = map(&[("c1", 1), ("c2", 1), ("total", 2)]);
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    let back = world.node().read(&bob, &c1, Some(1)).await.unwrap();
    assert_eq!(
        back, badge,
        "marking as read never increases the unread count"
    );
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    let badge = world.node().read(&bob, &c1, Some(99)).await.unwrap();
    assert_eq!((badge.unread, badge.total), (0, 1));
    world.send("c1", "alice").await;
    assert_eq!(
        world.stored_counts("bob", C1).await,
        map(&[("c1", 1), ("total", 2)])
    );
    world.node().read(&bob, &c1, None).await.unwrap();
    world
        .node()
        .read(&bob, &conversation("c2"), None)
        .await
        .unwrap();
    assert_eq!(world.stored_counts("bob", BOTH).await, map(&[]));
    assert_eq!(world.api_counts("bob").await, map(&[]));
}

pub async fn sending_moves_the_senders_own_position(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    world.send("c1", "alice").await;
    world.send("c1", "alice").await;
    world.send("c1", "bob").await;
    assert_eq!(world.stored_counts("bob", C1).await, map(&[]));
    assert_eq!(
        world.stored_counts("alice", C1).await,
        map(&[("c1", 1), ("total", 1)])
    );
    assert_eq!(world.api_counts("bob").await, map(&[]));
}

pub async fn marking_unread_counts_others_messages_only(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    for sender in ["alice", "bob", "alice", "bob", "alice"] {
        world.send("c1", sender).await;
    }
    let (bob, c1) = (user("bob"), conversation("c1"));
    world.node().read(&bob, &c1, None).await.unwrap();
    // Senders: 1 alice, 2 bob, 3 alice, 4 bob, 5 alice.
    for (from, count) in [(5, 1), (4, 1), (3, 2), (2, 2), (1, 3), (3, 3)] {
        let badge = world.node().mark_unread(&bob, &c1, from).await.unwrap();
        assert_eq!((badge.unread, badge.total), (count, count), "from {from}");
        let expected = map(&[("c1", count), ("total", count)]);
        assert_eq!(
            world.stored_counts("bob", C1).await,
            expected,
            "from {from}"
        );
    }
    let badge = world.node().read(&bob, &c1, Some(2)).await.unwrap();
    assert_eq!(badge.unread, 2);
    world.send("c1", "alice").await;
    assert_eq!(
        world.stored_counts("bob", C1).await,
        map(&[("c1", 3), ("total", 3)])
    );
    assert_eq!(
        world.api_counts("bob").await,
        map(&[("c1", 3), ("total", 3)])
    );
    world.send("c1", "bob").await;
    assert_eq!(world.stored_counts("bob", C1).await, map(&[]));
    let receipts = world.node().receipts(&c1, None, 10).await.unwrap().receipts;
    assert_eq!(receipts[1].read_seq, 7);
}

pub async fn a_new_member_starts_at_the_end(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    world.send("c1", "alice").await;
    world.join("c1", "carol").await;
    assert_eq!(world.api_counts("carol").await, map(&[]));
    world.send("c1", "alice").await;
    assert_eq!(
        world.stored_counts("carol", C1).await,
        map(&[("c1", 1), ("total", 1)])
    );
    let carol = user("carol");
    let c1 = conversation("c1");
    let badge = world.node().mark_unread(&carol, &c1, 1).await.unwrap();
    assert_eq!(badge.unread, 1, "messages from before the join never count");
}

pub async fn a_former_member_has_no_unread_count_even_for_late_messages(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    world.group("c2", &["alice", "bob"]).await;
    world.send("c1", "alice").await;
    world.send("c2", "alice").await;
    let late = world.insert_message("c1", "alice", &[]).await;
    world.leave("c1", "bob").await;
    let expected = map(&[("c2", 1), ("total", 1)]);
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    for node in [0, 1] {
        world.count_message(node, &late).await;
        assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    }
    assert_eq!(world.api_counts("bob").await, expected);
    world.count_message(0, &late).await;
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    // After the marker of the former membership has expired.
    world.advance(Duration::from_secs(3_600)).await;
    assert_eq!(world.api_counts("bob").await, expected);
    world.count_message(0, &late).await;
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
}

pub async fn a_rejoining_member_starts_with_zero_unread_and_a_late_leave_is_ignored(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    world.send("c1", "alice").await;
    let first = world.delete_member("c1", "bob").await;
    let (bob, c1) = ([user("bob")], conversation("c1"));
    world.send("c1", "alice").await;
    world.join("c1", "bob").await;
    let removed = world
        .node()
        .remove_members(&c1, &bob, first.members_version);
    removed.await.unwrap();
    assert_eq!(
        world.stored_counts("bob", C1).await,
        map(&[]),
        "a late leave update of the former membership is ignored"
    );
    world.send("c1", "alice").await;
    assert_eq!(
        world.stored_counts("bob", C1).await,
        map(&[("c1", 1), ("total", 1)])
    );
    assert_eq!(
        world.api_counts("bob").await,
        map(&[("c1", 1), ("total", 1)])
    );
}

pub async fn a_mute_keeps_a_conversation_out_of_the_total_until_it_ends(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    world.group("c2", &["alice", "bob"]).await;
    world.send("c1", "alice").await;
    let (bob, c1) = (user("bob"), conversation("c1"));
    let until = world.now().saturating_add(Duration::from_secs(600));
    let badge = world.node().mute(&bob, &c1, Some(until)).await.unwrap();
    assert_eq!((badge.unread, badge.total), (1, 0));
    assert_eq!(world.stored_counts("bob", C1).await, map(&[("c1", 1)]));
    world.send("c1", "alice").await;
    world.send("c2", "alice").await;
    assert_eq!(
        world.stored_counts("bob", BOTH).await,
        map(&[("c1", 2), ("c2", 1), ("total", 1)])
    );
    let counts = world.node().get_summary(&bob).await.unwrap();
    assert_eq!(counts.total, 1);
    let muted: Vec<_> = counts.conversations.iter().map(|it| it.muted).collect();
    assert_eq!(muted.iter().filter(|it| **it).count(), 1);
    // The mute expires, and the next update of any kind adds the conversation to the total.
    world.advance(Duration::from_secs(601)).await;
    world.send("c1", "alice").await;
    let expected = map(&[("c1", 3), ("c2", 1), ("total", 4)]);
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    let until = world.now().saturating_add(Duration::from_secs(600));
    world.node().mute(&bob, &c1, Some(until)).await.unwrap();
    let badge = world.node().mute(&bob, &c1, None).await.unwrap();
    assert_eq!(badge.total, 4);
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
}

pub async fn a_mute_that_ended_is_swept_once(world: World) {
    world.group("c1", &["alice", "bob", "carol"]).await;
    world.send("c1", "alice").await;
    let c1 = conversation("c1");
    for (who, seconds) in [("bob", 60), ("carol", 6_000)] {
        let until = world.now().saturating_add(Duration::from_secs(seconds));
        world
            .node()
            .mute(&user(who), &c1, Some(until))
            .await
            .unwrap();
    }
    assert_eq!(world.node().expire_mutes().await.unwrap(), 0);
    world.advance(Duration::from_secs(61)).await;
    let (one, other) = tokio::join!(world.nodes[0].expire_mutes(), world.nodes[1].expire_mutes());
    assert!(one.unwrap() + other.unwrap() >= 1);
    assert_eq!(
        world.stored_counts("bob", C1).await,
        map(&[("c1", 1), ("total", 1)])
    );
    assert_eq!(world.stored_counts("carol", C1).await, map(&[("c1", 1)]));
    assert_eq!(world.node().expire_mutes().await.unwrap(), 0);
    assert_eq!(
        world.api_counts("bob").await,
        map(&[("c1", 1), ("total", 1)])
    );
}

pub async fn mentions_are_counted_apart(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    world.group("c2", &["alice", "bob"]).await;
    for (conv, mentions) in [("c1", &["bob"][..]), ("c1", &[]), ("c2", &["bob"])] {
        let written = world.insert_message(conv, "alice", mentions).await;
        world.count_message(0, &written).await;
    }
    let bob = user("bob");
    let counts = world.node().get_summary(&bob).await.unwrap();
    assert_eq!((counts.total, counts.mentions), (3, 2));
    let until = world.now().saturating_add(Duration::from_secs(60));
    let c2 = conversation("c2");
    world.node().mute(&bob, &c2, Some(until)).await.unwrap();
    let counts = world.node().get_summary(&bob).await.unwrap();
    assert_eq!((counts.total, counts.mentions), (2, 1));
    world
        .node()
        .read(&bob, &conversation("c1"), Some(1))
        .await
        .unwrap();
    let counts = world.node().get_summary(&bob).await.unwrap();
    assert_eq!((counts.total, counts.mentions), (1, 0));
}

pub async fn large_rooms_have_the_same_answers_and_their_keys_follow(world: World) {
    world.group("c1", &["alice", "bob", "carol", "dave"]).await;
    world.send("c1", "alice").await;
    world.send("c1", "alice").await;
    assert_eq!(
        world.stored_counts("bob", C1).await,
        map(&[]),
        "only the sender's keys are updated"
    );
    let expected = map(&[("c1", 2), ("total", 2)]);
    assert_eq!(world.api_counts("bob").await, expected);
    assert_eq!(world.stored_counts("bob", C1).await, expected);
    let (carol, c1) = (user("carol"), conversation("c1"));
    let badge = world.node().read(&carol, &c1, Some(1)).await.unwrap();
    assert_eq!((badge.unread, badge.total), (1, 1));
    assert_eq!(
        world.stored_counts("carol", C1).await,
        map(&[("c1", 1), ("total", 1)])
    );
    // The conversation shrinks below the limit: the next message updates all keys.
    world.send("c1", "alice").await;
    world.leave("c1", "dave").await;
    world.send("c1", "carol").await;
    assert_eq!(
        world.stored_counts("bob", C1).await,
        map(&[("c1", 4), ("total", 4)])
    );
    assert_eq!(world.stored_counts("carol", C1).await, map(&[]));
}

pub async fn positions_are_for_members(world: World) {
    world.group("c1", &["alice"]).await;
    let (bob, c1) = (user("bob"), conversation("c1"));
    let node = world.node();
    let codes = [
        node.read(&bob, &c1, None).await.unwrap_err().code(),
        node.mark_unread(&bob, &c1, 1).await.unwrap_err().code(),
        node.delivered(&bob, &c1, None).await.unwrap_err().code(),
        node.mute(&bob, &c1, None).await.unwrap_err().code(),
        node.read(&user("alice"), &conversation("c9"), None)
            .await
            .unwrap_err()
            .code(),
    ];
    assert_eq!(codes, [ErrorCode::NotAMember; 5]);
    world.drain_outbox().await.unwrap();
    assert_eq!(world.stored_counts("bob", C1).await, map(&[]));
}

pub async fn frames_tell_count_and_total(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    world.group("c2", &["alice", "bob"]).await;
    let mut frames = world.frames("bob").await;
    let frame = |conv: &str, count: u64, total: u64| {
        let body = json!({"conversationId": conv, "count": count, "total": total});
        (7, body)
    };
    world.send("c1", "alice").await;
    assert_eq!(
        next(&mut frames).await,
        frame("c1", 1, 1),
        "the first update publishes a frame too"
    );
    let again = world.insert_message("c2", "alice", &[]).await;
    for _ in 0..3 {
        world.count_message(0, &again).await;
    }
    assert_eq!(next(&mut frames).await, frame("c2", 1, 2));
    let bob = user("bob");
    let c1 = conversation("c1");
    world.node().read(&bob, &c1, None).await.unwrap();
    assert_eq!(
        next(&mut frames).await,
        frame("c1", 0, 1),
        "a repeated update publishes no frame"
    );
    world.leave("c2", "bob").await;
    assert_eq!(next(&mut frames).await, frame("c2", 0, 0));
}

pub async fn a_state_lives_for_thirty_days(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    world.send("c1", "alice").await;
    let bob = user("bob");
    let key = world.keys.unread_state(&bob);
    let asked = redis::cmd("PTTL").arg(&key).take();
    let left: u64 = asked.query_async(&mut world.store.clone()).await.unwrap();
    assert!((2_591_000_000..=2_592_000_000).contains(&left), "{left}");
    world.advance(Duration::from_secs(31 * 86_400)).await;
    assert_eq!(
        world.stored_counts("bob", C1).await,
        map(&[("c1", 1), ("total", 1)])
    );
    world.send("c1", "alice").await;
    assert_eq!(
        world.stored_counts("bob", C1).await,
        map(&[("c1", 2), ("total", 2)])
    );
}

pub async fn counters_of_a_foreign_type_stay(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    let (bob, c1) = (user("bob"), conversation("c1"));
    let documented = [
        world.keys.unread(&bob, &c1),
        world.keys.unread_total(&bob),
        world.keys.delivered_seq(&c1, &bob),
    ];
    // The internal state is of no use to other services: it is replaced.
    for key in documented.iter().chain([&world.keys.unread_state(&bob)]) {
        let mut pipe = redis::pipe();
        pipe.cmd("DEL").arg(key).cmd("RPUSH").arg(key).arg("x");
        pipe.exec_async(&mut world.store.clone()).await.unwrap();
    }
    for count in 1..=2 {
        world.send("c1", "alice").await;
        let expected = map(&[("c1", count), ("total", count)]);
        assert_eq!(world.api_counts("bob").await, expected);
    }
    world.node().read(&bob, &c1, None).await.unwrap();
    assert_eq!(world.api_counts("bob").await, map(&[]));
    world.leave("c1", "bob").await;
    for key in &documented {
        let list = redis::cmd("LRANGE").arg(key).arg(0).arg(-1).take();
        let list: Vec<String> = list.query_async(&mut world.store.clone()).await.unwrap();
        assert_eq!(list, ["x"], "{key}");
    }
}

/// A locked row of one member does not delay the other members.
#[tokio::test]
async fn a_sweep_of_mutes_holds_one_row_at_a_time() {
    let world = World::redis().await;
    world.group("c1", &["alice", "bob", "carol"]).await;
    let c1 = conversation("c1");
    for who in ["bob", "carol"] {
        let until = world.now().saturating_add(Duration::from_secs(60));
        let muted = world.node().mute(&user(who), &c1, Some(until)).await;
        muted.unwrap();
    }
    world.advance(Duration::from_secs(61)).await;
    let holder = world.database().await;
    let mut held = holder.begin().await.unwrap();
    let PerBackend::Postgres(connection) = held.connection() else {
        panic!("the Redis fixture uses PostgreSQL");
    };
    let hold = "SELECT 1 FROM members WHERE user_id = 'carol' FOR UPDATE";
    sqlx::query(hold).execute(connection).await.unwrap();
    let swept = world.node().expire_mutes();
    let done = parlor_testkit::eventually("bob's mute is cleared", async || {
        let PerBackend::Postgres(pool) = holder.reader() else {
            return false;
        };
        let asked = "SELECT muted_until FROM members WHERE user_id = 'bob'";
        let until: i64 = sqlx::query_scalar(asked).fetch_one(pool).await.unwrap();
        until == 0
    });
    tokio::select! {
        () = done => {}
        swept = swept => panic!("the expiry did not wait for the locked row: {swept:?}"),
    }
}
