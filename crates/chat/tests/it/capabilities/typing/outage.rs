//! The store is unavailable, and returns.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::keys::TypingLayout;
use parlor_testkit::eventually;

use super::fixture::{TypingFixture, conversation, start, typers, user};
use crate::support::Fixture;

#[tokio::test]
async fn while_redis_is_unavailable_calls_fail_and_later_starts_are_written() {
    let mut fixture = TypingFixture::redis_with_short_timeout(TypingLayout::Document).await;
    let (conv, bob) = (conversation("c1"), user("bob"));
    start(&fixture.nodes[0], "c1", "alice").await;
    fixture.server.as_mut().unwrap().kill9();

    let node = &fixture.nodes[0];
    let rejected = node.start(&conv, &bob, None).await.unwrap_err();
    assert_eq!(rejected.code(), ErrorCode::StoreUnavailable);
    let rejected = node.stop(&conv, &bob).await.unwrap_err();
    assert!(rejected.is_store_unavailable());
    let rejected = node.typing_users(&conv).await.unwrap_err();
    assert!(rejected.is_store_unavailable());

    fixture.server.as_mut().unwrap().restart_empty().await;
    let node = &fixture.nodes[0];
    // The throttle does not suppress a start that failed, although no time has passed.
    eventually("bob types", async || node.start(&conv, &bob, None).await).await;
    assert_eq!(typers(node, "c1").await, ["bob"]);
}
