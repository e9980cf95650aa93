//! Typing events of a conversation feed: changes, renewals, deadlines, frames of other nodes.

use std::time::Duration;

use parlor_chat::typing::TypingChange;
use serde_json::json;

use super::fixture::{NOTHING, TypingWorld, describe, describe_all, typing_frame};
use super::on_every_layout;
use crate::capabilities::messages::fixture::{c1, user};

on_every_layout! {
    a_subscriber_receives_each_change_with_the_name_of_the_user;
    each_renewal_is_delivered_and_extends_the_typing_time;
    typing_ends_at_the_ttl_and_once;
    a_renewal_postpones_the_end;
    starts_and_stops_in_quick_succession_are_delivered_in_order;
    a_stop_without_a_start_is_not_delivered;
    malformed_frames_change_nothing;
    a_frame_with_a_far_end_is_limited_to_the_typing_ttl;
    a_frame_of_another_version_triggers_a_read_of_the_typing_users;
    thousands_of_users_can_type_at_once;
    typing_ends_while_the_store_is_unavailable;
}

fn change(who: &str, username: Option<&str>, typing: bool) -> TypingChange {
    TypingChange {
        conversation_id: c1(),
        user_id: user(who),
        username: username.map(str::to_owned),
        typing,
    }
}

pub async fn a_subscriber_receives_each_change_with_the_name_of_the_user(world: TypingWorld) {
    world.create_conversation("c2").await;
    world.start_typing(1, "c1", "bob").await;
    let typing = world.nodes[1].typing();
    typing
        .start(&c1(), &user("alice"), Some("Al"))
        .await
        .unwrap();
    let heard = world.record(0, "c1").await;
    // Clients load the current typing users after the subscription has begun.
    let listed = world.nodes[0].typing().typing_users(&c1()).await.unwrap();
    let names = listed
        .iter()
        .map(|it| (it.user_id.as_str(), it.username.as_deref()));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [("alice", Some("Al")), ("bob", None)]
    );
    world.stop_typing(1, "c1", "alice").await;
    let changes = heard.changes(&world).await;
    assert_eq!(changes, [change("alice", Some("Al"), false)]);
    let expected =
        json!({"conversationId": "c1", "userId": "alice", "username": "Al", "typing": false});
    assert_eq!(serde_json::to_value(&changes[0]).unwrap(), expected);

    world.start_typing(0, "c1", "carol").await;
    world.start_typing(0, "c2", "dave").await;
    world.stop_typing(0, "c1", "bob").await;
    let expected = [change("carol", None, true), change("bob", None, false)];
    assert_eq!(heard.changes(&world).await, expected);
    let typing = world.nodes[1].typing();
    typing
        .start(&c1(), &user("erin"), Some("Er"))
        .await
        .unwrap();
    assert_eq!(
        heard.changes(&world).await,
        [change("erin", Some("Er"), true)]
    );
    let second = world.record(0, "c1").await;
    assert_eq!(world.typing_users(0, "c1").await, ["carol", "erin"]);
    assert_eq!(second.changes(&world).await, []);
}

async fn each_renewal_is_delivered_and_extends_the_typing_time(world: TypingWorld) {
    let heard = world.record(1, "c1").await;
    let two_thirds = world.ttl() * 2 / 3;
    for _ in 0..3 {
        world.start_typing(0, "c1", "alice").await;
        // The throttle suppresses this one.
        world.start_typing(0, "c1", "alice").await;
        assert_eq!(heard.events(&world).await, ["alice types"]);
        world.advance(two_thirds).await;
        world.expire(1).await;
    }
    assert_eq!(heard.events(&world).await, NOTHING);
    world.advance(two_thirds).await;
    for _ in 0..2 {
        world.expire(1).await;
    }
    assert_eq!(heard.events(&world).await, ["alice stopped"]);
    // A late stop repeats nothing, and the next start is delivered.
    world.stop_typing(0, "c1", "alice").await;
    world.start_typing(0, "c1", "alice").await;
    assert_eq!(heard.events(&world).await, ["alice types"]);
}

pub async fn typing_ends_at_the_ttl_and_once(world: TypingWorld) {
    let heard = world.record(0, "c1").await;
    world.start_typing(1, "c1", "alice").await;
    assert_eq!(heard.events(&world).await, ["alice types"]);
    world.advance(world.ttl() - Duration::from_millis(1)).await;
    world.expire(0).await;
    assert_eq!(heard.events(&world).await, NOTHING);
    world.advance(Duration::from_millis(1)).await;
    for _ in 0..3 {
        world.expire(0).await;
    }
    // A late stop repeats nothing.
    world.stop_typing(1, "c1", "alice").await;
    assert_eq!(heard.events(&world).await, ["alice stopped"]);
    world.advance(world.ttl()).await;
    world.expire(0).await;
    assert_eq!(heard.events(&world).await, NOTHING);
    world.start_typing(1, "c1", "alice").await;
    assert_eq!(heard.events(&world).await, ["alice types"]);
}

async fn a_renewal_postpones_the_end(world: TypingWorld) {
    let heard = world.record(0, "c1").await;
    world.start_typing(0, "c1", "alice").await;
    world.advance(world.ttl() * 4 / 5).await;
    world.start_typing(0, "c1", "alice").await;
    assert_eq!(heard.events(&world).await, ["alice types", "alice types"]);
    world.advance(world.ttl() * 4 / 5).await;
    world.expire(0).await;
    assert_eq!(heard.events(&world).await, NOTHING);
    world.advance(world.ttl() / 5).await;
    world.expire(0).await;
    assert_eq!(heard.events(&world).await, ["alice stopped"]);
}

async fn starts_and_stops_in_quick_succession_are_delivered_in_order(mut world: TypingWorld) {
    let subscriptions = [world.record(0, "c1").await, world.record(1, "c1").await];
    let mut expected = Vec::new();
    for round in 0..20 {
        let (starts, stops) = (round % 2, 1 - round % 2);
        for who in ["alice", "bob"] {
            world.start_typing(starts, "c1", who).await;
            expected.push(describe(who, true));
        }
        // The throttle of one node does not suppress a start through the other one.
        world.start_typing(stops, "c1", "alice").await;
        expected.push(describe("alice", true));
        for who in ["bob", "alice"] {
            world.stop_typing(stops, "c1", who).await;
            world.stop_typing(starts, "c1", who).await;
            expected.push(describe(who, false));
        }
    }
    assert_eq!(world.typing_frames().await, expected);
    // The time stands still, so the second start of a round does not extend the typing time.
    let repeated = |nth: &usize| nth % 5 == 2;
    let nth = (0..expected.len()).filter(|nth| !repeated(nth));
    let delivered: Vec<_> = nth.map(|nth| expected[nth].clone()).collect();
    for heard in subscriptions {
        assert_eq!(heard.events(&world).await, delivered);
    }
}

async fn a_stop_without_a_start_is_not_delivered(mut world: TypingWorld) {
    let heard = world.record(1, "c1").await;
    for node in [0, 1] {
        world.stop_typing(node, "c1", "alice").await;
    }
    assert_eq!(world.typing_frames().await, NOTHING);
    for (until, who) in [(0, "alice"), (0, "bob"), (world.now().as_millis(), "carol")] {
        world.publish("c1", &typing_frame(until, who)).await;
    }
    assert_eq!(heard.events(&world).await, NOTHING);
}

async fn malformed_frames_change_nothing(world: TypingWorld) {
    let heard = world.record(1, "c1").await;
    world.start_typing(0, "c1", "alice").await;
    assert_eq!(heard.events(&world).await, ["alice types"]);
    let now = world.now().as_millis();
    let malformed: [&[u8]; 8] = [
        b"",
        b"\x01",
        b"\x01\xfean unknown kind",
        b"\x02\x01an unknown version",
        b"text of another service",
        b"\x01\x01\x00",
        &typing_frame(now + 1, "no id: a blank"),
        &typing_frame(now, "late"),
    ];
    for frame in malformed {
        world.publish("c1", frame).await;
    }
    assert_eq!(heard.events(&world).await, NOTHING);
    // The end of alice is as due as before.
    world.advance(world.ttl()).await;
    world.expire(1).await;
    assert_eq!(heard.events(&world).await, ["alice stopped"]);
}

async fn a_frame_with_a_far_end_is_limited_to_the_typing_ttl(world: TypingWorld) {
    let heard = world.record(1, "c1").await;
    world.start_typing(0, "c1", "alice").await;
    world
        .publish("c1", &typing_frame(u64::MAX, "mallory"))
        .await;
    assert_eq!(heard.events(&world).await, ["alice types", "mallory types"]);
    world.advance(world.ttl()).await;
    world.expire(1).await;
    assert_eq!(
        heard.events(&world).await,
        ["alice stopped", "mallory stopped"]
    );
}

async fn a_frame_of_another_version_triggers_a_read_of_the_typing_users(world: TypingWorld) {
    let heard = world.record(1, "c1").await;
    world.start_typing(0, "c1", "alice").await;
    assert_eq!(heard.events(&world).await, ["alice types"]);
    // Changes the typing users without a frame.
    let until = world.now().saturating_add(world.ttl()).as_millis();
    let index = world.keys.typing_index(&c1());
    let names = world.keys.typing_names(&c1());
    let mut change_users = redis::pipe();
    change_users.cmd("ZREM").arg(&index).arg("alice");
    change_users.cmd("ZADD").arg(&index).arg(until).arg("bob");
    change_users.cmd("HSET").arg(&names).arg("bob").arg("Bob");
    let mut store = world.store.clone();
    change_users.exec_async(&mut store).await.unwrap();
    world.publish("c1", &[2, 1, 7, 7]).await;
    let expected = [
        change("alice", None, false),
        change("bob", Some("Bob"), true),
    ];
    assert_eq!(heard.changes(&world).await, expected);
    world.advance(world.ttl()).await;
    world.expire(1).await;
    assert_eq!(
        heard.changes(&world).await,
        [change("bob", Some("Bob"), false)]
    );
}

async fn thousands_of_users_can_type_at_once(world: TypingWorld) {
    // More than the embedded bus buffers for a slow subscriber.
    const USERS: usize = 2_100;
    let heard = world.record(1, "c1").await;
    let typing = world.nodes[0].typing();
    let ids: Vec<String> = (0..USERS).map(|nth| format!("u{nth:04}")).collect();
    for id in &ids {
        typing.start(&c1(), &user(id), Some(id)).await.unwrap();
    }
    let listed = typing.typing_users(&c1()).await.unwrap();
    assert_eq!(listed.len(), USERS);
    for (listed, id) in listed.iter().zip(&ids) {
        assert_eq!(listed.user_id.as_str(), id);
        assert_eq!(listed.username.as_ref(), Some(id));
    }
    for typing in [true, false] {
        let mut changes = heard.changes(&world).await;
        changes.sort_by(|a, b| a.user_id.cmp(&b.user_id));
        let expected: Vec<_> = ids.iter().map(|id| change(id, Some(id), typing)).collect();
        assert_eq!(changes, expected);
        world.advance(world.ttl()).await;
        world.expire(1).await;
    }
    assert_eq!(heard.changes(&world).await, []);
}

async fn typing_ends_while_the_store_is_unavailable(mut world: TypingWorld) {
    let heard = world.record(1, "c1").await;
    world.start_typing(0, "c1", "alice").await;
    assert_eq!(heard.events(&world).await, ["alice types"]);
    // The embedded store cannot be stopped.
    if let Some(server) = &mut world.server {
        server.kill9();
    }
    world.store.clock().advance(world.ttl());
    world.expire(1).await;
    assert_eq!(describe_all(&heard.recorder.take()), ["alice stopped"]);
}
