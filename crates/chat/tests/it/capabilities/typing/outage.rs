//! The store is unavailable, and returns.

use parlor_chat::api::error_code::Code;
use parlor_chat::keys::TypingLayout;
use parlor_testkit::eventually;

use super::fixture::{TypingFixture, conversation, listen, start, typers, user};
use crate::support::Fixture;

#[tokio::test]
async fn while_redis_is_away_starts_fail_and_ends_are_told() {
    let mut fixture = TypingFixture::redis_with_short_timeout(TypingLayout::Document).await;
    let (conv, bob) = (conversation("c1"), user("bob"));
    let mut listener = listen(&fixture.nodes[0], "c1").await;
    start(&fixture.nodes[0], "c1", "alice").await;
    assert_eq!(
        fixture.change_texts(&mut listener, "c1").await,
        ["alice types"]
    );
    fixture.server.as_mut().unwrap().kill9();

    let node = &fixture.nodes[0];
    let refused = node.start(&conv, &bob, None).await.unwrap_err();
    assert_eq!(refused.code(), Code::StoreUnavailable);
    let refused = node.stop(&conv, &bob).await.unwrap_err();
    assert!(refused.is_store_unavailable());
    assert!(
        node.typers(&conv)
            .await
            .is_err_and(|error| error.is_store_unavailable())
    );
    let mut other = node.listener();
    let elsewhere = conversation("c2");
    let refused = other.subscribe(&elsewhere).await.unwrap_err();
    assert!(refused.is_store_unavailable());
    // Time goes on without the store.
    fixture.store.clock().advance(fixture.ttl());
    let change = eventually("alice is told to have stopped", async || {
        // It may want to read what it missed, and cannot.
        let _ = node.expire().await;
        listener.try_next()
    })
    .await;
    assert_eq!((change.user_id.as_str(), change.typing), ("alice", false));

    fixture.server.as_mut().unwrap().restart_empty().await;
    let node = &fixture.nodes[0];
    // The throttle does not suppress a start that failed, although no time has passed.
    eventually("bob types", async || node.start(&conv, &bob, None).await).await;
    assert_eq!(typers(node, "c1").await, ["bob"]);
    let change = eventually("bob is told", async || {
        let _ = node.expire().await;
        listener.try_next()
    });
    assert_eq!(change.await.user_id, bob);
    assert_eq!(other.try_next(), None);
    eventually("c2 can be listened to", async || {
        other.subscribe(&elsewhere).await.map(drop)
    })
    .await;
}
