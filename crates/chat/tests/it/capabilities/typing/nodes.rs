//! Two nodes, of which one may die.

use super::fixture::{World, listen, start, stop, typers};
use super::on_every_layout;

on_every_layout! {
    a_typer_whose_node_died_is_told_to_have_stopped_once;
    another_node_can_say_that_somebody_stopped;
    every_node_tells_its_own_listeners;
}

pub async fn a_typer_whose_node_died_is_told_to_have_stopped_once(mut world: World) {
    let mut listener = listen(&world.nodes[1], "c1").await;
    start(&world.nodes[0], "c1", "alice").await;
    drop(world.nodes.remove(0));
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["alice types"]);
    world.advance(world.ttl()).await;
    for _ in 0..3 {
        world.nodes[0].expire().await.unwrap();
    }
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["alice stopped"]);
    assert_eq!(typers(&world.nodes[0], "c1").await, [] as [&str; 0]);
    assert_eq!(
        world.drain_frames().await,
        ["alice types"],
        "nobody had to publish it"
    );
}

pub async fn another_node_can_say_that_somebody_stopped(mut world: World) {
    let mut listener = listen(&world.nodes[1], "c1").await;
    start(&world.nodes[0], "c1", "alice").await;
    stop(&world.nodes[1], "c1", "alice").await;
    stop(&world.nodes[0], "c1", "alice").await;
    assert_eq!(world.drain_frames().await, ["alice types", "alice stopped"]);
    world.advance(world.ttl()).await;
    world.nodes[1].expire().await.unwrap();
    let told = world.change_texts(&mut listener, "c1").await;
    // If both came before it looked, there is nothing to tell.
    let whole = told == ["alice types", "alice stopped"];
    assert!(whole || told.is_empty(), "{told:?}");
}

async fn every_node_tells_its_own_listeners(mut world: World) {
    world.nodes.push(world.start());
    let mut listeners = Vec::new();
    for node in &world.nodes {
        listeners.push(listen(node, "c1").await);
    }
    start(&world.nodes[0], "c1", "alice").await;
    for listener in &mut listeners {
        let told = world.change_texts(listener, "c1").await;
        assert_eq!(told, ["alice types"]);
    }
    world.advance(world.ttl()).await;
    // Only one node looks at the clock, and tells its own only.
    world.nodes[1].expire().await.unwrap();
    let told = world.change_texts(&mut listeners[1], "c1").await;
    assert_eq!(told, ["alice stopped"]);
    let told = world.change_texts(&mut listeners[2], "c1").await;
    assert_eq!(told, [] as [&str; 0]);
}
