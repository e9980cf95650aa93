//! Calls that are dropped at any of their awaits.

use std::sync::Arc;

use parlor_chat::keys::TypingLayout;
use parlor_testkit::eventually;

use super::fixture::{NOTHING, TypingRecorder, TypingWorld};
use crate::support::{Fixture, MAX_POLLS, conversation, poll_times_then_drop};

async fn cancelled_subscriptions_and_background_runs_leave_nothing_behind(world: TypingWorld) {
    world.create_conversation("c2").await;
    let c2 = conversation("c2");
    for after in 0..MAX_POLLS {
        let recorder = Arc::new(TypingRecorder::default());
        let live = world.nodes[0].live();
        poll_times_then_drop(after, live.conversation(&c2, recorder.clone())).await;
        eventually("the recorder is released", async || {
            Arc::strong_count(&recorder) == 1
        })
        .await;
    }
    eventually("no bus subscription is left", async || {
        world.bus_subscriptions("c2").await == 0
    })
    .await;
    // A background run that was dropped delays no typing user that a resync finds.
    let heard = world.record(0, "c1").await;
    let index = world.keys.typing_index(&conversation("c1"));
    for after in 0..MAX_POLLS {
        let who = format!("u{after:02}");
        let until = world.now().saturating_add(world.ttl()).as_millis();
        let mut add = redis::cmd("ZADD");
        world.run(add.arg(&index).arg(until).arg(&who)).await;
        world.publish("c1", &[2]).await;
        poll_times_then_drop(after, world.nodes[0].live().run_background_once()).await;
        assert_eq!(heard.events(&world).await, [format!("{who} types")]);
    }
    assert_eq!(heard.events(&world).await, NOTHING);
}

#[tokio::test]
async fn nothing_is_left_of_cancelled_subscriptions_embedded() {
    let world = <TypingWorld as Fixture<_>>::embedded(TypingLayout::Document).await;
    cancelled_subscriptions_and_background_runs_leave_nothing_behind(world).await;
}

#[tokio::test]
async fn nothing_is_left_of_cancelled_subscriptions_redis() {
    let world = <TypingWorld as Fixture<_>>::redis(TypingLayout::Document).await;
    cancelled_subscriptions_and_background_runs_leave_nothing_behind(world).await;
}
