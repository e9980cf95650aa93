//! Several nodes, of which one may die.

use super::fixture::{NOTHING, TypingWorld};
use super::on_every_layout;

on_every_layout! {
    a_typing_user_whose_node_died_stops_once;
    another_node_can_report_the_stop;
    each_node_ends_typing_for_its_own_subscribers;
}

pub async fn a_typing_user_whose_node_died_stops_once(mut world: TypingWorld) {
    let heard = world.record(1, "c1").await;
    world.start_typing(0, "c1", "alice").await;
    drop(world.nodes.remove(0));
    assert_eq!(heard.events(&world).await, ["alice types"]);
    world.advance(world.ttl()).await;
    for _ in 0..3 {
        world.expire(0).await;
    }
    assert_eq!(heard.events(&world).await, ["alice stopped"]);
    assert_eq!(world.typing_users(0, "c1").await, NOTHING);
    let frames = world.typing_frames().await;
    assert_eq!(frames, ["alice types"], "no node published the end");
}

pub async fn another_node_can_report_the_stop(mut world: TypingWorld) {
    let heard = world.record(1, "c1").await;
    world.start_typing(0, "c1", "alice").await;
    world.stop_typing(1, "c1", "alice").await;
    world.stop_typing(0, "c1", "alice").await;
    let expected = ["alice types", "alice stopped"];
    assert_eq!(world.typing_frames().await, expected);
    assert_eq!(heard.events(&world).await, expected);
    world.advance(world.ttl()).await;
    world.expire(1).await;
    assert_eq!(heard.events(&world).await, NOTHING);
    assert_eq!(world.typing_frames().await, NOTHING);
}

async fn each_node_ends_typing_for_its_own_subscribers(mut world: TypingWorld) {
    let third = world.start("n2").await;
    world.nodes.push(third);
    let mut subscriptions = Vec::new();
    for node in 0..3 {
        subscriptions.push(world.record(node, "c1").await);
    }
    world.start_typing(0, "c1", "alice").await;
    for heard in &subscriptions {
        assert_eq!(heard.events(&world).await, ["alice types"]);
    }
    world.advance(world.ttl()).await;
    for expiring in [1, 2, 0] {
        world.expire(expiring).await;
        for (node, heard) in subscriptions.iter().enumerate() {
            let stopped: &[&str] = if node == expiring {
                &["alice stopped"]
            } else {
                &[]
            };
            assert_eq!(heard.events(&world).await, stopped, "{expiring} {node}");
        }
    }
}
