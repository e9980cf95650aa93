//! Listening to conversations.

use std::time::Duration;

use parlor_chat::api::error::Error;
use parlor_chat::typing::{MAX_CONVERSATIONS_PER_LISTENER, TypingChange};
use parlor_testkit::eventually;
use serde_json::json;

use super::fixture::{World, conversation, listen, start, stop, user, with_timeout};
use super::on_every_layout;

on_every_layout! {
    a_listener_gets_the_state_and_then_each_change;
    each_renewal_is_told;
    the_end_is_told_once;
    a_renewal_puts_the_end_off;
    nobody_is_told_of_a_stop_without_a_start;
    a_slow_listener_gets_the_latest_of_each;
    many_may_type_at_once;
    one_subscription_serves_a_conversation_while_somebody_listens;
    listening_again_is_harmless;
    a_change_is_not_lost_when_waiting_is_given_up;
}

const NOTHING: [&str; 0] = [];

pub async fn a_listener_gets_the_state_and_then_each_change(mut world: World) {
    let conv = conversation("c1");
    start(&world.nodes[1], "c1", "bob").await;
    let alice = user("alice");
    let named = world.nodes[1].start(&conv, &alice, Some("Al"));
    named.await.unwrap();
    let mut listener = world.nodes[0].listener();
    let now = listener.subscribe(&conv).await.unwrap();
    let ids: Vec<_> = now
        .iter()
        .map(|it| (it.user_id.as_str(), it.username.as_deref()))
        .collect();
    assert_eq!(ids, [("alice", Some("Al")), ("bob", None)]);
    stop(&world.nodes[1], "c1", "alice").await;
    let change = with_timeout(listener.next()).await;
    let expected = TypingChange {
        conversation_id: conv.clone(),
        user_id: user("alice"),
        username: Some("Al".to_owned()),
        typing: false,
    };
    assert_eq!(change, expected, "her name is known though she stopped");
    let json = serde_json::to_value(&change).unwrap();
    let expected =
        json!({"conversationId": "c1", "userId": "alice", "username": "Al", "typing": false});
    assert_eq!(json, expected);

    start(&world.nodes[0], "c1", "carol").await;
    start(&world.nodes[0], "c2", "dave").await;
    stop(&world.nodes[0], "c1", "bob").await;
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["carol types", "bob stopped"]);
    let mut second = world.nodes[0].listener();
    let now = second.subscribe(&conv).await.unwrap();
    assert_eq!(now.len(), 1);
    assert_eq!(now[0].user_id, user("carol"));
}

async fn each_renewal_is_told(mut world: World) {
    let mut listener = listen(&world.nodes[0], "c1").await;
    for _ in 0..3 {
        start(&world.nodes[1], "c1", "alice").await;
        start(&world.nodes[1], "c1", "alice").await;
        let told = world.change_texts(&mut listener, "c1").await;
        assert_eq!(told, ["alice types"], "and a throttled one is not");
        world.advance(Duration::from_secs(2)).await;
        world.nodes[0].expire().await.unwrap();
    }
    stop(&world.nodes[1], "c1", "alice").await;
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["alice stopped"]);
}

pub async fn the_end_is_told_once(mut world: World) {
    let mut listener = listen(&world.nodes[0], "c1").await;
    start(&world.nodes[1], "c1", "alice").await;
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["alice types"]);
    world.advance(world.ttl() - Duration::from_millis(1)).await;
    world.nodes[0].expire().await.unwrap();
    assert_eq!(world.change_texts(&mut listener, "c1").await, NOTHING);
    world.advance(Duration::from_millis(1)).await;
    for _ in 0..3 {
        world.nodes[0].expire().await.unwrap();
    }
    // Now a stop says nothing new.
    stop(&world.nodes[1], "c1", "alice").await;
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["alice stopped"]);
    world.advance(world.ttl()).await;
    world.nodes[0].expire().await.unwrap();
    assert_eq!(world.change_texts(&mut listener, "c1").await, NOTHING);
    start(&world.nodes[1], "c1", "alice").await;
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["alice types"], "a new spell");
}

async fn a_renewal_puts_the_end_off(mut world: World) {
    let mut listener = listen(&world.nodes[0], "c1").await;
    start(&world.nodes[0], "c1", "alice").await;
    world.advance(world.ttl() * 4 / 5).await;
    start(&world.nodes[0], "c1", "alice").await;
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["alice types"], "the latest of two");
    world.advance(world.ttl() * 4 / 5).await;
    world.nodes[0].expire().await.unwrap();
    assert_eq!(world.change_texts(&mut listener, "c1").await, NOTHING);
    world.advance(world.ttl() / 5).await;
    world.nodes[0].expire().await.unwrap();
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["alice stopped"]);
}

async fn nobody_is_told_of_a_stop_without_a_start(mut world: World) {
    let mut listener = listen(&world.nodes[0], "c1").await;
    stop(&world.nodes[0], "c1", "alice").await;
    stop(&world.nodes[1], "c1", "alice").await;
    world.publish("c1", &super::fixture::frame(0, "bob")).await;
    assert_eq!(world.change_texts(&mut listener, "c1").await, NOTHING);
    // One who sits down after the end is not told of it, though the node was not yet.
    start(&world.nodes[0], "c1", "carol").await;
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["carol types"]);
    world.advance(world.ttl()).await;
    let mut late = world.nodes[0].listener();
    let now = late.subscribe(&conversation("c1")).await.unwrap();
    assert_eq!(now, []);
    world.nodes[0].expire().await.unwrap();
    assert_eq!(world.change_texts(&mut late, "c1").await, NOTHING);
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["carol stopped"]);
}

async fn a_slow_listener_gets_the_latest_of_each(mut world: World) {
    let mut slow = listen(&world.nodes[0], "c1").await;
    start(&world.nodes[0], "c1", "alice").await;
    assert_eq!(world.change_texts(&mut slow, "c1").await, ["alice types"]);
    let mut quick = listen(&world.nodes[0], "c1").await;
    for _ in 0..20 {
        stop(&world.nodes[1], "c1", "alice").await;
        start(&world.nodes[1], "c1", "alice").await;
        start(&world.nodes[1], "c1", "bob").await;
        stop(&world.nodes[1], "c1", "bob").await;
        // Until everything of this round has come to the node.
        world.change_texts(&mut quick, "c1").await;
    }
    let told = world.change_texts(&mut slow, "c1").await;
    assert_eq!(
        told,
        ["alice types"],
        "of bob it knows nothing, then as now"
    );
    start(&world.nodes[1], "c1", "alice").await;
    stop(&world.nodes[1], "c1", "alice").await;
    world.change_texts(&mut quick, "c1").await;
    let told = world.change_texts(&mut slow, "c1").await;
    assert_eq!(told, ["alice stopped"], "the last is never lost");
}

async fn many_may_type_at_once(mut world: World) {
    const MANY: usize = 2_100;
    let conv = conversation("c1");
    let mut listener = listen(&world.nodes[0], "c1").await;
    let ids: Vec<String> = (0..MANY).map(|it| format!("u{it:04}")).collect();
    for id in &ids {
        let node = &world.nodes[1];
        node.start(&conv, &user(id), Some(id)).await.unwrap();
    }
    let typers = world.nodes[0].typers(&conv).await.unwrap();
    assert_eq!(typers.len(), MANY);
    for (typer, id) in typers.iter().zip(&ids) {
        assert_eq!(typer.user_id.as_str(), id);
        assert_eq!(typer.username.as_ref(), Some(id));
    }
    // More than the bus keeps for a reader, so that what was missed may have to be read.
    let mut told = Vec::new();
    eventually("all are told", async || {
        world.nodes[0].expire().await.unwrap();
        told.extend(std::iter::from_fn(|| listener.try_next()));
        told.len() >= MANY
    })
    .await;
    told.sort_by(|a, b| a.user_id.cmp(&b.user_id));
    let known: Vec<_> = told.iter().map(|it| it.user_id.as_str()).collect();
    assert_eq!(known, ids);
    assert!(told.iter().all(|it| it.typing));
    world.advance(world.ttl()).await;
    world.nodes[0].expire().await.unwrap();
    let told = world.change_texts(&mut listener, "c1").await;
    let expected: Vec<_> = ids.iter().map(|id| format!("{id} stopped")).collect();
    assert_eq!(told, expected);
}

async fn one_subscription_serves_a_conversation_while_somebody_listens(mut world: World) {
    assert_eq!(world.subscribers("c2").await, 0);
    let mut one = listen(&world.nodes[0], "c2").await;
    let mut two = listen(&world.nodes[0], "c2").await;
    assert_eq!(world.subscribers("c2").await, 1);
    one.unsubscribe(&conversation("c2"));
    one.unsubscribe(&conversation("c2"));
    start(&world.nodes[0], "c2", "alice").await;
    assert_eq!(world.change_texts(&mut two, "c2").await, ["alice types"]);
    assert_eq!(one.try_next(), None);
    assert_eq!(world.subscribers("c2").await, 1);
    drop(two);
    let nobody = async || world.subscribers("c2").await == 0;
    eventually("nobody listens any more", nobody).await;
    let now = one.subscribe(&conversation("c2")).await.unwrap();
    assert_eq!(now.len(), 1, "and a new listener knows what went on");
    stop(&world.nodes[1], "c2", "alice").await;
    assert_eq!(world.change_texts(&mut one, "c2").await, ["alice stopped"]);
}

async fn listening_again_is_harmless(mut world: World) {
    let conv = conversation("c1");
    let mut listener = listen(&world.nodes[0], "c1").await;
    let mut other = listen(&world.nodes[0], "c1").await;
    start(&world.nodes[0], "c1", "alice").await;
    assert_eq!(world.change_texts(&mut other, "c1").await, ["alice types"]);
    let now = listener.subscribe(&conv).await.unwrap();
    assert_eq!(now.len(), 1);
    // What waited is in the answer.
    assert_eq!(world.change_texts(&mut listener, "c1").await, NOTHING);
    stop(&world.nodes[0], "c1", "alice").await;
    assert_eq!(
        world.change_texts(&mut listener, "c1").await,
        ["alice stopped"]
    );
    listener.unsubscribe(&conv);
    start(&world.nodes[0], "c1", "bob").await;
    let told = world.change_texts(&mut other, "c1").await;
    assert_eq!(told, ["alice stopped", "bob types"]);
    assert_eq!(listener.try_next(), None);
}

async fn a_change_is_not_lost_when_waiting_is_given_up(world: World) {
    let mut listener = listen(&world.nodes[0], "c1").await;
    for who in ["alice", "bob", "carol"] {
        tokio::select! {
            biased;
            change = listener.next() => panic!("{change:?} before anything happened"),
            () = tokio::task::yield_now() => {}
        }
        start(&world.nodes[0], "c1", who).await;
        let change = eventually("the change comes", async || {
            tokio::select! {
                biased;
                change = listener.next() => Some(change),
                () = tokio::task::yield_now() => None,
            }
        });
        assert_eq!(change.await.user_id, user(who));
    }
}

#[tokio::test]
async fn a_listener_has_a_bounded_number_of_conversations() {
    let world = World::embedded(parlor_chat::keys::TypingLayout::Document).await;
    let mut listener = world.nodes[0].listener();
    for nth in 0..MAX_CONVERSATIONS_PER_LISTENER {
        let conv = conversation(&format!("c{nth}"));
        listener.subscribe(&conv).await.unwrap();
    }
    let refused = listener.subscribe(&conversation("more")).await.unwrap_err();
    assert!(
        matches!(refused, Error::TooMany { given: 1_001, .. }),
        "{refused}"
    );
    listener.subscribe(&conversation("c7")).await.unwrap();
    listener.unsubscribe(&conversation("c7"));
    listener.subscribe(&conversation("more")).await.unwrap();
}
