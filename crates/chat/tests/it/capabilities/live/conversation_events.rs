//! Events of a conversation feed.

use futures_util::future::join_all;
use parlor_chat::keys::TtlName;
use parlor_testkit::eventually;

use super::fixture::{ReceivedEvent, World};
use super::on_every_engine;
use crate::capabilities::messages::fixture::{c1, user};

on_every_engine! {
    messages_are_told_in_order_and_once_on_every_node;
    a_message_is_told_as_it_was_sent_and_so_are_its_changes;
    an_older_change_is_not_told_after_a_newer_one;
    a_change_is_told_before_what_was_written_after_it;
    typing_begins_and_ends_by_a_message_a_stop_or_its_time;
    who_types_when_somebody_begins_to_follow_is_told_to_stop;
    receipt_events_distinguish_delivered_and_read;
    a_follower_dropped_during_delivery_receives_nothing_more;
    nothing_is_left_of_a_follower_that_was_dropped;
}

pub async fn messages_are_told_in_order_and_once_on_every_node(world: World) {
    world.send(0, "alice", "before").await;
    let (here, _follow_here) = world.subscribe(0, &[]).await;
    let (there, _follow_there) = world.subscribe(1, &[]).await;
    for _ in 0..5 {
        let sends = (0..10).map(|nth| world.send(nth % 2, ["alice", "bob", "carol"][nth % 3], "x"));
        join_all(sends).await;
    }
    for subscriber in [here, there] {
        subscriber.wait_for_seq(51).await;
        assert_eq!(subscriber.seqs(), (2..=51).collect::<Vec<_>>());
    }
}

async fn a_message_is_told_as_it_was_sent_and_so_are_its_changes(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let sent = world.send(0, "alice", "hello").await;
    let edited = world.edit(0, "alice", 1, "hi").await.unwrap();
    let deleted = world.delete(0, "alice", 1).await.unwrap();
    let json = |message| serde_json::to_value(message).unwrap();
    let expected = [
        ReceivedEvent::Message(1, json(sent)),
        ReceivedEvent::Changed(1, edited.rev, false, json(edited)),
        ReceivedEvent::Changed(1, deleted.rev, true, json(deleted)),
    ];
    assert_eq!(subscriber.wait_for_events(3).await, expected);
}

async fn an_older_change_is_not_told_after_a_newer_one(mut world: World) {
    world.send(0, "alice", "one").await;
    let first = world.edit(0, "alice", 1, "two").await.unwrap();
    // Wait until the frame of this edit was received.
    world.frames().await;
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let second = world.edit(0, "alice", 1, "three").await.unwrap();
    subscriber.wait_for_events(1).await;
    // Another node publishes the older change late.
    let mut frame = vec![2, 4];
    frame.extend(first.seq.to_be_bytes());
    frame.extend(first.rev.to_be_bytes());
    frame.extend(1_u64.to_be_bytes());
    frame.extend(serde_json::to_vec(&first).unwrap());
    let channel = world.keys.conversation_channel(&c1());
    let bus = world.store.bus();
    bus.publish_sharded(channel.as_str(), frame).await.unwrap();
    world.send(0, "alice", "last").await;
    subscriber.wait_for_seq(2).await;
    let events = subscriber.all();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(matches!(events[0], ReceivedEvent::Changed(1, rev, false, _) if rev == second.rev));
}

async fn a_change_is_told_before_what_was_written_after_it(world: World) {
    world.send(0, "alice", "one").await;
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    // A node has changed the message and not published the change yet.
    world.edit_rows_only(1, 1, "changed").await;
    world.send(0, "alice", "two").await;
    subscriber.wait_for_seq(2).await;
    let events = subscriber.all();
    assert!(
        matches!(events[0], ReceivedEvent::Changed(1, 2, false, _)),
        "{events:?}"
    );
    assert!(
        matches!(events[1], ReceivedEvent::Message(2, _)),
        "{events:?}"
    );
    assert_eq!(events.len(), 2, "{events:?}");
}

async fn typing_begins_and_ends_by_a_message_a_stop_or_its_time(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let typing = world.nodes[0].typing();
    typing.start(&c1(), &user("alice"), None).await.unwrap();
    typing.start(&c1(), &user("bob"), None).await.unwrap();
    typing.start(&c1(), &user("carol"), None).await.unwrap();
    world.send(0, "alice", "done").await;
    typing.stop(&c1(), &user("bob")).await.unwrap();
    let events = subscriber.wait_for_events(6).await;
    let typed = |who: &str, it| ReceivedEvent::Typing(who.into(), it);
    assert_eq!(
        events[..3],
        ["alice", "bob", "carol"].map(|it| typed(it, true))
    );
    assert_eq!(events[3], typed("alice", false));
    assert!(matches!(events[4], ReceivedEvent::Message(1, _)));
    assert_eq!(events[5], typed("bob", false));
    let most = world.keys.ttl(TtlName::Typing) * 2 / 3;
    world.advance(most).await;
    world.nodes[1].live().run_background_once().await.unwrap();
    assert_eq!(subscriber.all().len(), 6);
    world.advance(most).await;
    for _ in 0..2 {
        world.nodes[1].live().run_background_once().await.unwrap();
    }
    assert_eq!(subscriber.all()[6..], [typed("carol", false)]);
}

async fn who_types_when_somebody_begins_to_follow_is_told_to_stop(world: World) {
    let typing = world.nodes[0].typing();
    typing.start(&c1(), &user("alice"), None).await.unwrap();
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    typing.stop(&c1(), &user("alice")).await.unwrap();
    let expected = [ReceivedEvent::Typing("alice".into(), false)];
    assert_eq!(subscriber.wait_for_events(1).await, expected);
}

async fn receipt_events_distinguish_delivered_and_read(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    world.send(0, "alice", "one").await;
    world.send(0, "alice", "two").await;
    let unread = world.nodes[0].unread();
    unread
        .delivered(&user("bob"), &c1(), Some(2))
        .await
        .unwrap();
    unread.read(&user("bob"), &c1(), Some(1)).await.unwrap();
    let events = subscriber.wait_for_events(4).await;
    let expected = [
        ReceivedEvent::Delivered("bob".into(), 2),
        ReceivedEvent::Read("bob".into(), 1),
    ];
    assert_eq!(events[2..], expected);
}

async fn a_follower_dropped_during_delivery_receives_nothing_more(world: World) {
    let (subscriber, subscription) = world.subscribe(1, &[]).await;
    *subscriber.drop_on_first_event.lock() = Some(subscription);
    let (other, _subscription) = world.subscribe(1, &[]).await;
    for text in ["one", "two", "three"] {
        world.send(0, "alice", text).await;
    }
    other.wait_for_seq(3).await;
    assert_eq!(subscriber.seqs(), [1]);
}

async fn nothing_is_left_of_a_follower_that_was_dropped(world: World) {
    use parlor_chat::conversations::HistoryVisibility;
    world.create("c2", HistoryVisibility::All).await;
    let c2 = parlor_chat::ids::ConversationId::new("c2").unwrap();
    let (subscriber, subscription) = world.subscribe_to(1, &c2, &[]).await;
    let (_, user_follow) = world.subscribe_to_user(1, "alice").await;
    let channels = [
        world.keys.conversation_channel(&c2),
        world.keys.user_channel(&user("alice")),
    ];
    let listeners = async || {
        let mut count = redis::cmd("PUBSUB");
        count.arg("NUMSUB").arg(channels[0].as_str());
        count.arg(channels[1].as_str());
        let mut store = world.store.clone();
        let counts: Vec<(String, u64)> = count.query_async(&mut store).await.unwrap();
        counts.into_iter().map(|(_, count)| count).sum::<u64>()
    };
    assert_eq!(listeners().await, 2);
    // A resync may be running now.
    world.drop_bus_messages().await;
    drop((subscription, user_follow));
    let nobody = async || listeners().await == 0;
    eventually("no bus subscription is left", nobody).await;
    let weak = std::sync::Arc::downgrade(&subscriber);
    drop(subscriber);
    eventually("the subscriber is released", async || {
        weak.upgrade().is_none()
    })
    .await;
}
