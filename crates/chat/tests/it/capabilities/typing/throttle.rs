//! The throttle writes one start in two seconds, and suppresses no start that is needed.

use std::time::Duration;

use parlor_chat::context::ChatContext;
use parlor_chat::keys::{Keyspace, TtlName, TypingLayout};
use parlor_chat::typing::Typing;

use super::fixture::{TypingFixture, conversation, settings, start, stop, typers, user};
use super::on_every_layout;
use crate::support::Fixture;

on_every_layout! {
    a_start_is_written_once_in_two_seconds;
    stop_lets_the_next_start_through;
    users_conversations_and_nodes_do_not_hold_each_other_back;
}

const NOTHING: [&str; 0] = [];

pub async fn a_start_is_written_once_in_two_seconds(mut fixture: TypingFixture) {
    for _ in 0..5 {
        start(&fixture.nodes[0], "c1", "alice").await;
    }
    assert_eq!(fixture.drain_frames().await, ["alice types"]);
    fixture.advance(Duration::from_millis(1_999)).await;
    start(&fixture.nodes[0], "c1", "alice").await;
    assert_eq!(fixture.drain_frames().await, NOTHING);
    fixture.advance(Duration::from_millis(1)).await;
    for _ in 0..5 {
        start(&fixture.nodes[0], "c1", "alice").await;
    }
    assert_eq!(fixture.drain_frames().await, ["alice types"]);
}

pub async fn stop_lets_the_next_start_through(mut fixture: TypingFixture) {
    let (conv, alice) = (conversation("c1"), user("alice"));
    for _ in 0..3 {
        start(&fixture.nodes[0], "c1", "alice").await;
        stop(&fixture.nodes[0], "c1", "alice").await;
        stop(&fixture.nodes[0], "c1", "alice").await;
        assert_eq!(
            fixture.drain_frames().await,
            ["alice types", "alice stopped"]
        );
    }
    start(&fixture.nodes[0], "c1", "alice").await;
    assert_eq!(typers(&fixture.nodes[0], "c1").await, ["alice"]);
    assert_eq!(fixture.drain_frames().await, ["alice types"]);
    fixture.nodes[0].reset_throttle_after_message(&conv, &alice);
    start(&fixture.nodes[0], "c1", "alice").await;
    assert_eq!(fixture.drain_frames().await, ["alice types"]);
    stop(&fixture.nodes[0], "c1", "bob").await;
    assert_eq!(fixture.drain_frames().await, NOTHING, "bob was not typing");
}

async fn users_conversations_and_nodes_do_not_hold_each_other_back(mut fixture: TypingFixture) {
    start(&fixture.nodes[0], "c2", "alice").await;
    start(&fixture.nodes[0], "c1", "alice").await;
    start(&fixture.nodes[0], "c1", "bob").await;
    start(&fixture.nodes[1], "c1", "alice").await;
    let expected = ["alice types", "bob types", "alice types"];
    assert_eq!(fixture.drain_frames().await, expected);
    stop(&fixture.nodes[0], "c1", "bob").await;
    start(&fixture.nodes[0], "c1", "alice").await;
    assert_eq!(fixture.drain_frames().await, ["bob stopped"]);
    assert_eq!(typers(&fixture.nodes[0], "c2").await, ["alice"]);
}

#[tokio::test]
async fn a_shorter_time_to_live_shortens_the_throttle() {
    let mut fixture = TypingFixture::embedded(TypingLayout::Document).await;
    let mut settings = settings(TypingLayout::Document);
    settings
        .ttls
        .set(TtlName::Typing, Duration::from_millis(900));
    fixture.keys = Keyspace::new(settings, true).unwrap();
    let node = Typing::new(ChatContext::new(
        fixture.store.clone(),
        fixture.keys.clone(),
    ));
    start(&node, "c1", "alice").await;
    assert_eq!(fixture.drain_frames().await, ["alice types"]);
    fixture.advance(Duration::from_millis(599)).await;
    start(&node, "c1", "alice").await;
    assert_eq!(fixture.drain_frames().await, NOTHING);
    fixture.advance(Duration::from_millis(1)).await;
    start(&node, "c1", "alice").await;
    assert_eq!(fixture.drain_frames().await, ["alice types"]);
}
