//! Subscriptions that begin and end while users type.

use parlor_testkit::eventually;

use super::fixture::{NOTHING, TypingWorld};
use super::on_every_layout;

on_every_layout! {
    a_late_subscriber_is_not_told_of_an_earlier_end;
    a_new_subscription_continues_after_a_dropped_one;
    subscribers_of_a_node_share_a_bus_subscription;
}

async fn a_late_subscriber_is_not_told_of_an_earlier_end(world: TypingWorld) {
    let heard = world.record(0, "c1").await;
    world.start_typing(0, "c1", "carol").await;
    assert_eq!(heard.events(&world).await, ["carol types"]);
    world.advance(world.ttl()).await;
    // The typing is over, although the node has not expired it yet.
    let late = world.record(0, "c1").await;
    assert_eq!(world.typing_users(0, "c1").await, NOTHING);
    world.expire(0).await;
    assert_eq!(late.events(&world).await, NOTHING);
    assert_eq!(heard.events(&world).await, ["carol stopped"]);
}

async fn a_new_subscription_continues_after_a_dropped_one(world: TypingWorld) {
    let dropped = world.record(0, "c1").await;
    let other = world.record(0, "c1").await;
    world.start_typing(0, "c1", "alice").await;
    for heard in [&dropped, &other] {
        assert_eq!(heard.events(&world).await, ["alice types"]);
    }
    let recorder = dropped.recorder.clone();
    drop(dropped);
    let new = world.record(0, "c1").await;
    assert_eq!(world.typing_users(0, "c1").await, ["alice"]);
    assert_eq!(new.events(&world).await, NOTHING, "the list contains alice");
    world.stop_typing(1, "c1", "alice").await;
    world.start_typing(0, "c1", "bob").await;
    for heard in [&new, &other] {
        assert_eq!(heard.events(&world).await, ["alice stopped", "bob types"]);
    }
    assert_eq!(recorder.take(), []);
}

async fn subscribers_of_a_node_share_a_bus_subscription(world: TypingWorld) {
    world.create_conversation("c2").await;
    assert_eq!(world.bus_subscriptions("c2").await, 0);
    let one = world.record(0, "c2").await;
    let two = world.record(0, "c2").await;
    assert_eq!(world.bus_subscriptions("c2").await, 1);
    let recorder = one.recorder.clone();
    drop(one);
    world.start_typing(0, "c2", "alice").await;
    assert_eq!(two.events(&world).await, ["alice types"]);
    assert_eq!(recorder.take(), []);
    assert_eq!(world.bus_subscriptions("c2").await, 1);
    drop(two);
    eventually("no bus subscription is left", async || {
        world.bus_subscriptions("c2").await == 0
    })
    .await;
    let new = world.record(0, "c2").await;
    assert_eq!(world.typing_users(0, "c2").await, ["alice"]);
    world.stop_typing(1, "c2", "alice").await;
    assert_eq!(new.events(&world).await, ["alice stopped"]);
}
