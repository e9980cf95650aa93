//! The bus, on every backend.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use parlor_store::{BusEvent, BusListener, BusListenerGuard, BusSubscription, LuaScript};
use parlor_testkit::eventually;

use crate::fixture::{Fixture, TEST_TIMEOUT, cluster_contract, contract};

contract! {
    messages_published_after_subscribing_arrive_in_order on embedded redis valkey;
    subscriptions_of_one_channel_share_it_and_the_last_one_ends_it on embedded redis valkey;
    a_pattern_subscription_receives_all_matching_channels on embedded redis valkey;
    sharded_channels_deliver_messages_of_scripts on embedded redis valkey;
    a_slow_subscriber_gets_maybe_missed_and_delays_no_other on embedded redis;
    a_listener_gets_events_in_order_and_may_remove_itself on embedded redis;
    many_channels_are_subscribed_at_once on embedded redis;
}

cluster_contract! { the_bus_is_the_same_on_a_cluster:
    messages_published_after_subscribing_arrive_in_order;
    a_pattern_subscription_receives_all_matching_channels;
    sharded_channels_deliver_messages_of_scripts;
    a_slow_subscriber_gets_maybe_missed_and_delays_no_other;
    many_channels_are_subscribed_at_once;
}

/// Records payloads, and removes itself after the payload `end`.
#[derive(Default)]
struct RecordingListener {
    payloads: Mutex<Vec<Bytes>>,
    listening: Mutex<Option<BusListenerGuard>>,
}

impl BusListener for RecordingListener {
    fn on_event(&self, event: &BusEvent) {
        if let BusEvent::Message { payload, .. } = event {
            self.payloads.lock().unwrap().push(payload.clone());
            if payload == "end" {
                drop(self.listening.lock().unwrap().take());
            }
        }
    }
}

async fn a_listener_gets_events_in_order_and_may_remove_itself(f: &Fixture) {
    let bus = f.store.bus();
    let channel = f.key_in_own_slot(1);
    let (ending, other) = (
        Arc::new(RecordingListener::default()),
        Arc::new(RecordingListener::default()),
    );
    for sink in [&ending, &other] {
        let there = Arc::clone(sink) as Arc<dyn BusListener>;
        let listening = bus.add_listener(&channel, there).await.unwrap();
        *sink.listening.lock().unwrap() = Some(listening);
    }
    let mut queue = bus.subscribe(&channel).await.unwrap();
    for text in ["one", "two", "end", "three"] {
        bus.publish(&channel, text).await.unwrap();
    }
    for text in ["one", "two", "end", "three"] {
        assert_eq!(payload(&mut queue).await, text);
    }
    assert_eq!(*ending.payloads.lock().unwrap(), ["one", "two", "end"]);
    drop(queue);
    let mut left = bus.subscribe(&channel).await.unwrap();
    bus.publish(&channel, "four").await.unwrap();
    assert_eq!(payload(&mut left).await, "four");
    assert_eq!(
        Arc::strong_count(&ending),
        1,
        "the bus keeps no reference to a removed listener"
    );
}

/// Payload of the next message.
pub async fn payload(subscription: &mut BusSubscription) -> String {
    match next(subscription).await {
        BusEvent::Message { payload, .. } => String::from_utf8(payload.to_vec()).unwrap(),
        BusEvent::MaybeMissed => panic!("unexpected MaybeMissed"),
    }
}

/// The next event, which must arrive in time.
pub async fn next(subscription: &mut BusSubscription) -> BusEvent {
    tokio::time::timeout(TEST_TIMEOUT, subscription.next())
        .await
        .expect("an event in time")
        .expect("an open bus")
}

async fn messages_published_after_subscribing_arrive_in_order(f: &Fixture) {
    let bus = f.store.bus();
    for round in 0..20 {
        let channel = f.key_in_own_slot(round);
        let mut subscription = bus.subscribe(&channel).await.unwrap();
        for number in 0..50 {
            bus.publish(&channel, number.to_string()).await.unwrap();
        }
        for number in 0..50 {
            let BusEvent::Message {
                channel: from,
                pattern,
                payload,
            } = next(&mut subscription).await
            else {
                panic!("a message")
            };
            assert_eq!(
                (from, pattern, payload),
                (channel.as_bytes().into(), None, number.to_string().into())
            );
        }
        assert_eq!(subscription.try_next(), None);
    }
}

async fn subscriptions_of_one_channel_share_it_and_the_last_one_ends_it(f: &Fixture) {
    let (bus, channel) = (f.store.bus(), f.key("channel"));
    let subscribers = async || {
        let mut cmd = redis::cmd("PUBSUB");
        let (_, count): (String, u64) = cmd
            .arg("NUMSUB")
            .arg(&channel)
            .query_async(&mut f.store.clone())
            .await
            .unwrap();
        count
    };
    let mut first = bus.subscribe(&channel).await.unwrap();
    let second = bus.subscribe(&channel).await.unwrap();
    assert_eq!(
        subscribers().await,
        1,
        "one subscription on the server for both"
    );
    drop(second);
    assert_eq!(bus.publish(&channel, "still here").await.unwrap(), 1);
    assert_eq!(payload(&mut first).await, "still here");
    drop(first);
    eventually("the server has no subscriber left", async || {
        subscribers().await == 0
    })
    .await;
    let mut again = bus.subscribe(&channel).await.unwrap();
    bus.publish(&channel, "again").await.unwrap();
    assert_eq!(payload(&mut again).await, "again");
}

async fn a_pattern_subscription_receives_all_matching_channels(f: &Fixture) {
    let bus = f.store.bus();
    let pattern = f.key("news:*");
    let mut subscription = bus.psubscribe(&pattern).await.unwrap();
    bus.publish(f.key("other"), "no").await.unwrap();
    bus.publish(f.key("news:a"), "yes").await.unwrap();
    let expected = BusEvent::Message {
        channel: f.key("news:a").into_bytes().into(),
        pattern: Some(pattern.into_bytes().into()),
        payload: Bytes::from_static(b"yes"),
    };
    assert_eq!(next(&mut subscription).await, expected);
}

static PUBLISH_SCRIPT: LuaScript =
    LuaScript::new("say", "return redis.call(ARGV[1], KEYS[1], ARGV[2])");

async fn sharded_channels_deliver_messages_of_scripts(f: &Fixture) {
    let bus = f.store.bus();
    let mut subscriptions = Vec::new();
    for number in 0..30 {
        subscriptions.push(
            bus.subscribe_sharded(f.key_in_own_slot(number))
                .await
                .unwrap(),
        );
    }
    for (number, subscription) in subscriptions.iter_mut().enumerate() {
        let channel = f.key_in_own_slot(number);
        bus.publish_sharded(&channel, "direct").await.unwrap();
        let call = PUBLISH_SCRIPT
            .keys(&channel)
            .arg(bus.publish_command())
            .arg("by script");
        call.run::<i64>(&f.store).await.unwrap();
        assert_eq!(payload(subscription).await, "direct");
        assert_eq!(payload(subscription).await, "by script");
    }
}

async fn a_slow_subscriber_gets_maybe_missed_and_delays_no_other(f: &Fixture) {
    let (bus, channel) = (f.store.bus(), f.key("channel"));
    let mut slow = bus.subscribe(&channel).await.unwrap();
    let mut quick = bus.subscribe(&channel).await.unwrap();
    for number in 0..2_000 {
        bus.publish(&channel, number.to_string()).await.unwrap();
        assert_eq!(payload(&mut quick).await, number.to_string());
    }
    let mut read = 0;
    while let BusEvent::Message { payload, .. } = next(&mut slow).await {
        assert_eq!(payload, read.to_string());
        read += 1;
    }
    assert!(read < 2_000, "a bounded queue drops");
    bus.publish(&channel, "later").await.unwrap();
    assert_eq!(payload(&mut slow).await, "later");
}

async fn many_channels_are_subscribed_at_once(f: &Fixture) {
    let bus = f.store.bus();
    let all = (0..2_000).map(|number| {
        let (bus, channel) = (bus.clone(), f.key_in_own_slot(number));
        tokio::spawn(async move { bus.subscribe_sharded(channel).await.unwrap() })
    });
    let mut subscriptions = Vec::new();
    for task in all.collect::<Vec<_>>() {
        subscriptions.push(task.await.unwrap());
    }
    for (number, subscription) in subscriptions.iter_mut().enumerate().step_by(97) {
        bus.publish_sharded(f.key_in_own_slot(number), "x")
            .await
            .unwrap();
        assert_eq!(payload(subscription).await, "x");
    }
}
