//! The background task ends typing, in real time.

use std::sync::Arc;
use std::time::Duration;

use parlor_testkit::eventually;

use super::fixture::TypingWorld;
use super::on_every_layout;
use crate::capabilities::messages::fixture::c1;

on_every_layout! {
    the_background_task_ends_typing_until_it_is_dropped;
}

async fn the_background_task_ends_typing_until_it_is_dropped(mut world: TypingWorld) {
    let tasks = world.nodes[0].live().start_background_tasks();
    let heard = world.record(0, "c1").await;
    world.start_typing(1, "c1", "alice").await;
    heard.recorder.wait_for("alice", true).await;
    world.advance(world.ttl()).await;
    heard.recorder.wait_for("alice", false).await;
    // A typing user whose frame was lost ends as well.
    let until = world.now().saturating_add(Duration::from_secs(1));
    let mut add = redis::cmd("ZADD");
    add.arg(world.keys.typing_index(&c1()));
    world.run(add.arg(until.as_millis()).arg("bob")).await;
    world.publish("c1", &[2]).await;
    heard.recorder.wait_for("bob", true).await;
    world.advance(Duration::from_secs(1)).await;
    heard.recorder.wait_for("bob", false).await;

    drop(tasks);
    drop(heard);
    let live = Arc::downgrade(world.nodes[0].live());
    drop(world.nodes.remove(0));
    eventually("the tasks have ended", async || live.strong_count() == 0).await;
}
