//! The store is unavailable, and returns.

use std::sync::Arc;

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::keys::TypingLayout;
use parlor_testkit::eventually;

use super::fixture::{TypingRecorder, TypingWorld};
use crate::support::{Fixture, conversation, user};

#[tokio::test]
async fn typing_ends_during_an_outage_of_redis_and_is_delivered_after_it() {
    let layout = TypingLayout::Document;
    let mut world = <TypingWorld as Fixture<_>>::redis_with_short_timeout(layout).await;
    world.create_conversation("c2").await;
    let (c1, c2) = (conversation("c1"), conversation("c2"));
    let (alice, bob) = (user("alice"), user("bob"));
    let heard = world.record(0, "c1").await;
    world.start_typing(0, "c1", "alice").await;
    heard.recorder.wait_for("alice", true).await;
    world.server.as_mut().unwrap().kill9();

    let typing = world.nodes[0].typing();
    let rejected = typing.start(&c1, &bob, None).await.unwrap_err();
    assert_eq!(rejected.code(), ErrorCode::StoreUnavailable);
    let subscriber = Arc::new(TypingRecorder::default());
    let subscribe = || world.nodes[0].live().conversation(&c2, subscriber.clone());
    let rejected = subscribe().await.unwrap_err();
    assert!(rejected.is_store_unavailable(), "{rejected}");
    // The end needs no store.
    world.store.clock().advance(world.ttl());
    world.expire(0).await;
    heard.recorder.wait_for("alice", false).await;

    world.server.as_mut().unwrap().restart_empty().await;
    let typing = world.nodes[0].typing();
    eventually("bob types", async || typing.start(&c1, &bob, None).await).await;
    heard.recorder.wait_for("bob", true).await;
    let subscribe = || world.nodes[0].live().conversation(&c2, subscriber.clone());
    let _subscription =
        eventually("c2 has a subscriber", async || subscribe().await.map(Some)).await;
    typing.start(&c2, &alice, None).await.unwrap();
    subscriber.wait_for("alice", true).await;
    let received = heard.recorder.take();
    let received = received.iter().map(|it| (it.user_id.as_str(), it.typing));
    let expected = [("alice", true), ("alice", false), ("bob", true)];
    assert_eq!(received.collect::<Vec<_>>(), expected);
}
