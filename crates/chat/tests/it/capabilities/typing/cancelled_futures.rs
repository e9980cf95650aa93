//! Calls that are dropped at any of their awaits.

use parlor_chat::keys::TypingLayout;
use parlor_testkit::eventually;

use super::fixture::{TypingFixture, conversation, typers, user};
use crate::support::{Fixture, MAX_POLLS, poll_times_then_drop};

async fn cancelled_typing_calls_leave_no_keys(fixture: TypingFixture) {
    let (conv, alice) = (conversation("c1"), user("alice"));
    let node = &fixture.nodes[0];
    for after in 0..MAX_POLLS {
        let started = poll_times_then_drop(after, node.start(&conv, &alice, None)).await;
        // Whether or not the dropped call has written the start, the user is typing after the next call.
        node.start(&conv, &alice, None).await.unwrap();
        assert_eq!(typers(node, "c1").await, ["alice"], "{after} {started}");
        poll_times_then_drop(after, node.stop(&conv, &alice)).await;
        node.start(&conv, &alice, None).await.unwrap();
        eventually("she types", async || typers(node, "c1").await == ["alice"]).await;
        node.stop(&conv, &alice).await.unwrap();
        assert_eq!(typers(node, "c1").await, [] as [&str; 0]);
    }
}

#[tokio::test]
async fn nothing_is_left_of_calls_that_were_given_up_embedded() {
    let fixture = TypingFixture::embedded(TypingLayout::Document).await;
    cancelled_typing_calls_leave_no_keys(fixture).await;
}

#[tokio::test]
async fn nothing_is_left_of_calls_that_were_given_up_redis() {
    let fixture = TypingFixture::redis(TypingLayout::Document).await;
    cancelled_typing_calls_leave_no_keys(fixture).await;
}
