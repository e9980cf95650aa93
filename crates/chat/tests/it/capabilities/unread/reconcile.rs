//! Stores that are empty, out of date or unavailable: their state is compared with the database rows before it is used.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use parlor_testkit::eventually;

use super::fixture::{World, conversation, map, user};
use super::on_both;

on_both! {
    an_emptied_store_is_filled_by_the_next_touch;
    a_stale_unread_state_is_corrected_from_the_rows;
    a_lost_field_is_counted_anew;
    a_message_whose_step_was_lost_is_answered_and_shown_by_the_next_one;
    reading_the_counts_repairs_a_lost_leave;
    a_lost_total_is_shown_again_by_an_answer;
    a_user_of_many_conversations_is_counted_in_parts;
}

const BOTH: &[&str] = &["c1", "c2"];

async fn two_rooms(world: &World) {
    for conv in BOTH {
        world.group(conv, &["alice", "bob"]).await;
        world.send(conv, "alice").await;
    }
}

pub async fn an_emptied_store_is_filled_by_the_next_touch(world: World) {
    two_rooms(&world).await;
    let expected = map(&[("c1", 1), ("c2", 1), ("total", 2)]);
    world.flush_store().await;
    assert_eq!(world.api_counts("bob").await, expected);
    assert_eq!(
        world.stored_counts("bob", BOTH).await,
        expected,
        "after reading the counts"
    );
    world.flush_store().await;
    world.send("c1", "alice").await;
    let expected = map(&[("c1", 2), ("c2", 1), ("total", 3)]);
    assert_eq!(
        world.stored_counts("bob", BOTH).await,
        expected,
        "after a message"
    );
    world.flush_store().await;
    let (bob, c1) = (user("bob"), conversation("c1"));
    world.node().read(&bob, &c1, Some(1)).await.unwrap();
    let expected = map(&[("c1", 1), ("c2", 1), ("total", 2)]);
    assert_eq!(
        world.stored_counts("bob", BOTH).await,
        expected,
        "after marking as read"
    );
    world.flush_store().await;
    world.leave("c1", "bob").await;
    let expected = map(&[("c2", 1), ("total", 1)]);
    assert_eq!(
        world.stored_counts("bob", BOTH).await,
        expected,
        "after leaving"
    );
    world.flush_store().await;
    world.node().get_summary(&bob).await.unwrap();
    assert_eq!(
        world.stored_counts("bob", BOTH).await,
        expected,
        "after a reconcile"
    );
}

/// Reads the stored state of a user.
async fn state(world: &World, who: &str) -> HashMap<String, String> {
    let get = redis::cmd("HGETALL")
        .arg(world.keys.unread_state(&user(who)))
        .take();
    get.query_async(&mut world.store.clone()).await.unwrap()
}

/// Restores an old state, as if it was verified in a former epoch.
async fn restore_old_state(
    world: &World,
    who: &str,
    fields: &HashMap<String, String>,
    counters: &[(&str, u64)],
) {
    let (who, mut pipe) = (user(who), redis::pipe());
    let key = world.keys.unread_state(&who);
    pipe.del(&key).ignore();
    for (field, value) in fields {
        let value = if field == ":epoch" {
            "1"
        } else {
            value.as_str()
        };
        pipe.hset(&key, field, value).ignore();
    }
    for (name, number) in counters {
        let key = match *name {
            "total" => world.keys.unread_total(&who),
            conv => world.keys.unread(&who, &conversation(conv)),
        };
        pipe.set(key, *number).ignore();
    }
    pipe.exec_async(&mut world.store.clone()).await.unwrap();
}

pub async fn a_stale_unread_state_is_corrected_from_the_rows(world: World) {
    two_rooms(&world).await;
    let (old, bob) = (state(&world, "bob").await, user("bob"));
    let stored = [("c1", 1), ("c2", 1), ("total", 2)];
    for _ in 0..3 {
        world.send("c1", "alice").await;
    }
    world
        .node()
        .read(&bob, &conversation("c2"), None)
        .await
        .unwrap();
    let expected = map(&[("c1", 4), ("total", 4)]);
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    restore_old_state(&world, "bob", &old, &stored).await;
    assert_eq!(world.api_counts("bob").await, expected);
    assert_eq!(
        world.stored_counts("bob", BOTH).await,
        expected,
        "after reading the counts"
    );
    restore_old_state(&world, "bob", &old, &stored).await;
    world.send("c1", "alice").await;
    let expected = map(&[("c1", 5), ("total", 5)]);
    assert_eq!(
        world.stored_counts("bob", BOTH).await,
        expected,
        "after a message"
    );
    world.delete_member("c1", "bob").await;
    restore_old_state(&world, "bob", &old, &stored).await;
    world.send("c2", "alice").await;
    let expected = map(&[("c2", 1), ("total", 1)]);
    assert_eq!(
        world.stored_counts("bob", BOTH).await,
        expected,
        "without the conversation that bob left"
    );
}

pub async fn a_lost_field_is_counted_anew(world: World) {
    two_rooms(&world).await;
    for lost in ["c1", ":total", ":epoch"] {
        let key = world.keys.unread_state(&user("bob"));
        let lose = redis::cmd("HDEL").arg(key).arg(lost).take();
        lose.exec_async(&mut world.store.clone()).await.unwrap();
        let seq = world.send("c1", "alice").await;
        let expected = map(&[("c1", seq), ("c2", 1), ("total", seq + 1)]);
        assert_eq!(world.stored_counts("bob", BOTH).await, expected, "{lost}");
    }
}

pub async fn a_message_whose_step_was_lost_is_answered_and_shown_by_the_next_one(world: World) {
    two_rooms(&world).await;
    world.insert_message("c1", "alice", &[]).await;
    let expected = map(&[("c1", 2), ("c2", 1), ("total", 3)]);
    assert_eq!(world.api_counts("bob").await, expected);
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    world.insert_message("c1", "alice", &[]).await;
    world.send("c1", "alice").await;
    let expected = map(&[("c1", 4), ("c2", 1), ("total", 5)]);
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
}

pub async fn reading_the_counts_repairs_a_lost_leave(world: World) {
    two_rooms(&world).await;
    let late = world.insert_message("c1", "alice", &[]).await;
    world.delete_member("c1", "bob").await;
    let expected = map(&[("c2", 1), ("total", 1)]);
    assert_eq!(world.api_counts("bob").await, expected);
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    world.count_message(0, &late).await;
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
}

pub async fn a_lost_total_is_shown_again_by_an_answer(world: World) {
    two_rooms(&world).await;
    let key = world.keys.unread_total(&user("bob"));
    let lose = redis::cmd("DEL").arg(key).take();
    lose.exec_async(&mut world.store.clone()).await.unwrap();
    let expected = world.api_counts("bob").await;
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
}

pub async fn a_user_of_many_conversations_is_counted_in_parts(world: World) {
    let convs: Vec<String> = (0..300).map(|it| format!("r{it}")).collect();
    for conv in &convs {
        world.insert_conversation(conv).await;
        world.insert_member(conv, "alice").await;
        world.insert_member(conv, "bob").await;
        world.insert_message(conv, "alice", &[]).await;
    }
    let names: Vec<&str> = convs.iter().map(String::as_str).collect();
    let expected = world.api_counts("bob").await;
    assert_eq!(expected["total"], 300);
    assert_eq!(world.stored_counts("bob", &names).await, expected);
    world.send("r7", "alice").await;
    assert_eq!(
        world.stored_counts("bob", &["r7"]).await,
        map(&[("r7", 2), ("total", 301)])
    );
}

#[tokio::test]
async fn redis_from_an_older_snapshot_is_not_believed() {
    let mut world = World::redis().await;
    two_rooms(&world).await;
    let save = redis::cmd("SAVE");
    save.exec_async(&mut world.store.clone()).await.unwrap();
    let bob = user("bob");
    world.send("c1", "alice").await;
    world
        .node()
        .read(&bob, &conversation("c2"), None)
        .await
        .unwrap();
    let server = world.server.as_mut().unwrap();
    server.kill9();
    server.restart().await;
    let old = map(&[("c1", 1), ("c2", 1), ("total", 2)]);
    let back = eventually("the old data is back", async || {
        let total = world.keys.unread_total(&bob);
        let get = redis::cmd("GET").arg(total).take();
        get.query_async::<u64>(&mut world.store.clone())
            .await
            .is_ok()
    });
    back.await;
    assert_eq!(world.stored_counts("bob", BOTH).await, old);
    world.send("c1", "alice").await;
    let expected = map(&[("c1", 3), ("total", 3)]);
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
    assert_eq!(world.api_counts("bob").await, expected);
}

#[tokio::test]
async fn what_happens_while_the_store_is_away_is_answered_and_shown_later() {
    let mut world = World::impatient().await;
    two_rooms(&world).await;
    world.server.as_mut().unwrap().kill9();
    let (bob, c1) = (user("bob"), conversation("c1"));
    let badge = world.node().read(&bob, &c1, None).await.unwrap();
    assert_eq!((badge.unread, badge.total), (0, 1));
    let expected = map(&[("c2", 1), ("total", 1)]);
    assert_eq!(world.api_counts("bob").await, expected);
    world.server.as_mut().unwrap().restart().await;
    eventually("the retry succeeds", async || {
        world.drain_outbox().await.map(drop)
    })
    .await;
    assert_eq!(world.stored_counts("bob", BOTH).await, expected);
}

/// Polls a future this many times, then drops it; `None` if it did not complete.
async fn poll_at_most<F: Future>(times: usize, work: F) -> Option<F::Output> {
    let (mut work, mut left) = (pin!(work), times);
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

#[tokio::test]
async fn a_cancelled_read_is_completed_by_the_outbox() {
    let world = World::embedded().await;
    two_rooms(&world).await;
    let (bob, c1) = (user("bob"), conversation("c1"));
    for times in 0..40 {
        let seq = world.send("c1", "alice").await;
        let read = poll_at_most(times, world.node().read(&bob, &c1, Some(seq)));
        let done = read.await.is_some();
        // A write that was dropped goes on until it releases the write lock.
        drop(world.database.begin().await.unwrap());
        world.drain_outbox().await.unwrap();
        let stored = world.stored_counts("bob", BOTH).await;
        assert_eq!(stored, world.api_counts("bob").await, "after {times} polls");
        if done {
            return;
        }
    }
    panic!("40 polls were not enough");
}
