//! The background work, in real time.

use std::sync::Arc;
use std::time::Duration;

use parlor_testkit::eventually;

use super::fixture::{World, conversation, start, user, with_timeout};
use super::on_every_layout;

on_every_layout! {
    ticking_tells_the_end_and_what_was_missed;
}

async fn ticking_tells_the_end_and_what_was_missed(mut world: World) {
    let node = Arc::new(world.nodes.remove(0));
    let ticking = node.tick();
    let mut listener = node.listener();
    listener.subscribe(&conversation("c1")).await.unwrap();
    start(&world.nodes[0], "c1", "alice").await;
    let change = with_timeout(listener.next()).await;
    assert_eq!((&change.user_id, change.typing), (&user("alice"), true));
    world.advance(world.ttl()).await;
    let change = with_timeout(listener.next()).await;
    assert_eq!((&change.user_id, change.typing), (&user("alice"), false));

    let mut add = redis::cmd("ZADD");
    add.arg(world.keys.typers(&conversation("c1")));
    add.arg(
        world
            .now()
            .saturating_add(Duration::from_secs(1))
            .as_millis(),
    )
    .arg("bob");
    add.exec_async(&mut world.store.clone()).await.unwrap();
    world.publish("c1", &[2]).await;
    let change = with_timeout(listener.next()).await;
    assert_eq!((&change.user_id, change.typing), (&user("bob"), true));

    drop(ticking);
    drop(listener);
    let nodes = Arc::downgrade(&node);
    drop(node);
    eventually("the work has ended", async || nodes.strong_count() == 0).await;
}
