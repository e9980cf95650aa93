//! Typing events of a conversation feed: renewals, deadlines, frames of other nodes.

use parlor_chat::keys::TtlName;

use super::fixture::{ReceivedEvent, RecordingSubscriber, World};
use super::on_every_engine;
use crate::capabilities::messages::fixture::{c1, user};

on_every_engine! {
    each_renewal_is_delivered_and_extends_the_typing_time;
    a_typing_user_whose_node_died_stops_once;
    another_node_can_report_the_stop;
    a_stop_without_a_start_is_not_delivered;
    malformed_frames_change_nothing;
    a_frame_with_a_far_end_is_limited_to_the_typing_ttl;
    a_frame_of_another_version_triggers_a_read_of_the_typing_users;
    thousands_of_users_can_type_at_once;
    typing_ends_while_the_store_is_unavailable;
}

/// Encodes a typing frame without the code under test.
fn typing_frame(until: u64, user: &str) -> Vec<u8> {
    let mut frame = vec![1, 1];
    frame.extend(until.to_be_bytes());
    frame.push(u8::try_from(user.len()).unwrap());
    frame.extend(user.as_bytes());
    frame
}

async fn publish(world: &World, frame: &[u8]) {
    let channel = world.keys.conversation_channel(&c1());
    let bus = world.store.bus();
    bus.publish_sharded(channel.as_str(), frame).await.unwrap();
}

fn started(user: &str) -> ReceivedEvent {
    ReceivedEvent::Typing(user.into(), true)
}

fn stopped(user: &str) -> ReceivedEvent {
    ReceivedEvent::Typing(user.into(), false)
}

/// Returns the typing events after everything that was published until now was received.
async fn typing_events(world: &World, subscriber: &RecordingSubscriber) -> Vec<ReceivedEvent> {
    let marker = world.send(0, "bob", "marker").await;
    subscriber.wait_for_seq(marker.seq).await;
    let mut events = subscriber.all();
    events.retain(|event| matches!(event, ReceivedEvent::Typing(..)));
    events
}

async fn each_renewal_is_delivered_and_extends_the_typing_time(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let typing = world.nodes[0].typing();
    let two_thirds = world.keys.ttl(TtlName::Typing) * 2 / 3;
    for starts in 1..=3 {
        typing.start(&c1(), &user("alice"), None).await.unwrap();
        // The throttle suppresses this one.
        typing.start(&c1(), &user("alice"), None).await.unwrap();
        subscriber.wait_for_events(starts).await;
        world.advance(two_thirds).await;
        world.nodes[1].live().run_background_once().await.unwrap();
    }
    assert_eq!(subscriber.all(), ["alice"; 3].map(started));
    world.advance(two_thirds).await;
    for _ in 0..2 {
        world.nodes[1].live().run_background_once().await.unwrap();
    }
    assert_eq!(subscriber.all()[3..], [stopped("alice")]);
    // A late stop repeats nothing, and the next start is delivered.
    typing.stop(&c1(), &user("alice")).await.unwrap();
    typing.start(&c1(), &user("alice"), None).await.unwrap();
    subscriber.wait_for_events(5).await;
    assert_eq!(subscriber.all()[4..], [started("alice")]);
}

async fn a_typing_user_whose_node_died_stops_once(mut world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let typing = world.nodes[0].typing();
    typing.start(&c1(), &user("alice"), None).await.unwrap();
    drop(world.nodes.remove(0));
    subscriber.wait_for_events(1).await;
    world.advance(world.keys.ttl(TtlName::Typing)).await;
    for _ in 0..3 {
        world.nodes[0].live().run_background_once().await.unwrap();
    }
    let expected = [started("alice"), stopped("alice")];
    assert_eq!(typing_events(&world, &subscriber).await, expected);
}

async fn another_node_can_report_the_stop(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let [one, other] = [0, 1].map(|node| world.nodes[node].typing());
    one.start(&c1(), &user("alice"), None).await.unwrap();
    other.stop(&c1(), &user("alice")).await.unwrap();
    one.stop(&c1(), &user("alice")).await.unwrap();
    let expected = [started("alice"), stopped("alice")];
    assert_eq!(typing_events(&world, &subscriber).await, expected);
    world.advance(world.keys.ttl(TtlName::Typing)).await;
    world.nodes[1].live().run_background_once().await.unwrap();
    assert_eq!(typing_events(&world, &subscriber).await, expected);
}

async fn a_stop_without_a_start_is_not_delivered(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    for node in &world.nodes {
        node.typing().stop(&c1(), &user("alice")).await.unwrap();
    }
    publish(&world, &typing_frame(0, "alice")).await;
    publish(&world, &typing_frame(world.now().as_millis(), "carol")).await;
    assert_eq!(typing_events(&world, &subscriber).await, []);
}

async fn malformed_frames_change_nothing(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let typing = world.nodes[0].typing();
    typing.start(&c1(), &user("alice"), None).await.unwrap();
    let until = world.now().as_millis() + 1;
    let malformed: [&[u8]; 7] = [
        b"",
        b"\x01",
        b"\x01\xfean unknown kind",
        b"\x02\x01an unknown version",
        b"text of another service",
        b"\x01\x01\x00",
        &typing_frame(until, "no id: a blank"),
    ];
    for frame in malformed {
        publish(&world, frame).await;
    }
    assert_eq!(typing_events(&world, &subscriber).await, [started("alice")]);
}

async fn a_frame_with_a_far_end_is_limited_to_the_typing_ttl(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    publish(&world, &typing_frame(u64::MAX, "mallory")).await;
    assert_eq!(subscriber.wait_for_events(1).await, [started("mallory")]);
    world.advance(world.keys.ttl(TtlName::Typing)).await;
    world.nodes[1].live().run_background_once().await.unwrap();
    assert_eq!(subscriber.all()[1..], [stopped("mallory")]);
}

async fn a_frame_of_another_version_triggers_a_read_of_the_typing_users(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let typing = world.nodes[0].typing();
    typing.start(&c1(), &user("alice"), None).await.unwrap();
    subscriber.wait_for_events(1).await;
    // Changes the typing users without a frame.
    let ttl = world.keys.ttl(TtlName::Typing);
    let until = world.now().saturating_add(ttl).as_millis();
    let index = world.keys.typing_index(&c1());
    let mut change = redis::pipe();
    change.cmd("ZREM").arg(&index).arg("alice");
    change.cmd("ZADD").arg(&index).arg(until).arg("bob");
    change.exec_async(&mut world.store.clone()).await.unwrap();
    publish(&world, &[2, 1, 7, 7]).await;
    let expected = [started("alice"), stopped("alice"), started("bob")];
    assert_eq!(subscriber.wait_for_events(3).await, expected);
    world.advance(ttl).await;
    world.nodes[1].live().run_background_once().await.unwrap();
    assert_eq!(subscriber.all()[3..], [stopped("bob")]);
}

async fn thousands_of_users_can_type_at_once(world: World) {
    // More than the embedded bus buffers for a slow subscriber.
    const USERS: usize = 2_100;
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let typing = world.nodes[0].typing();
    let ids: Vec<String> = (0..USERS).map(|nth| format!("u{nth:04}")).collect();
    for id in &ids {
        typing.start(&c1(), &user(id), Some(id)).await.unwrap();
    }
    let listed = typing.typing_users(&c1()).await.unwrap();
    assert_eq!(listed.len(), USERS);
    for (listed, id) in listed.iter().zip(&ids) {
        assert_eq!(listed.user_id.as_str(), id);
        assert_eq!(listed.username.as_ref(), Some(id));
    }
    let by_name = |event: &ReceivedEvent| format!("{event:?}");
    let mut events = subscriber.wait_for_events(USERS).await;
    events.sort_by_key(by_name);
    assert_eq!(events, ids.iter().map(|id| started(id)).collect::<Vec<_>>());
    world.advance(world.keys.ttl(TtlName::Typing)).await;
    world.nodes[1].live().run_background_once().await.unwrap();
    let mut events = subscriber.all().split_off(USERS);
    events.sort_by_key(by_name);
    assert_eq!(events, ids.iter().map(|id| stopped(id)).collect::<Vec<_>>());
}

async fn typing_ends_while_the_store_is_unavailable(mut world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let typing = world.nodes[0].typing();
    typing.start(&c1(), &user("alice"), None).await.unwrap();
    subscriber.wait_for_events(1).await;
    // The embedded store cannot be stopped.
    if let Some(server) = &mut world.server {
        server.kill9();
    }
    world.store.clock().advance(world.keys.ttl(TtlName::Typing));
    world.nodes[1].live().run_background_once().await.unwrap();
    assert_eq!(subscriber.all()[1..], [stopped("alice")]);
}
