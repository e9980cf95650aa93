//! Random histories of two nodes and their subscribers, compared with a model that uses no store.

mod model;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parlor_chat::keys::TypingLayout;
use parlor_store::{BusEvent, BusSubscription};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::model::Model;
use super::fixture::{
    NOTHING, TypingRecorder, TypingSubscription, TypingWorld, describe, describe_all, typing_frame,
};
use crate::support::{Fixture, conversation, user, with_timeout};

const HISTORIES: u64 = 60;
const STEPS: usize = 60;
const USERS: usize = 3;
/// Node of each receiver. A receiver subscribes to either conversation, to both or to none.
const RECEIVER_NODES: [usize; 4] = [0, 0, 1, 1];

#[tokio::test]
async fn document() {
    histories(TypingLayout::Document).await;
}

#[tokio::test]
async fn flag() {
    histories(TypingLayout::Flag).await;
}

struct History<'a> {
    world: &'a TypingWorld,
    rng: StdRng,
    model: Model,
    conversations: [String; 2],
    /// All frames of each conversation.
    frames: Vec<BusSubscription>,
    subscriptions: BTreeMap<(usize, String), TypingSubscription>,
    /// Recorders whose subscription was dropped.
    dropped: Vec<Arc<TypingRecorder>>,
    done: Vec<String>,
}

async fn histories(layout: TypingLayout) {
    let world = <TypingWorld as Fixture<_>>::embedded(layout).await;
    for seed in 0..HISTORIES {
        let conversations = [0, 1].map(|nth| format!("c{seed}-{nth}"));
        let mut frames = Vec::new();
        for conv in &conversations {
            world.create_conversation(conv).await;
            let channel = world.keys.conversation_channel(&conversation(conv));
            let subscription = world.store.bus().subscribe_sharded(channel.as_str());
            frames.push(subscription.await.unwrap());
        }
        let mut history = History {
            world: &world,
            rng: StdRng::seed_from_u64(seed),
            model: Model::new(world.ttl()),
            conversations,
            frames,
            subscriptions: BTreeMap::new(),
            dropped: Vec::new(),
            done: vec![format!("{layout} {seed}")],
        };
        for _ in 0..STEPS {
            history.step().await;
            history.assert_store().await;
            history.assert_frames_and_events().await;
        }
    }
}

impl History<'_> {
    async fn step(&mut self) {
        let world = self.world;
        let rng = &mut self.rng;
        let node = rng.random_range(0..2);
        let conv = self.conversations[rng.random_range(0..2)].clone();
        let who = format!("u{}", rng.random_range(0..USERS));
        let receiver = rng.random_range(0..RECEIVER_NODES.len());
        // No sum of these steps equals one of the durations, because a key still exists in its last millisecond and its
        // user is no longer typing.
        let by = Duration::from_millis(7 * rng.random_range(1..360));
        let key = (conv.clone(), who.clone());
        let now = world.now();
        match rng.random_range(0..100u8) {
            0..35 => {
                self.done.push(format!("{node} start {key:?}"));
                world.start_typing(node, &conv, &who).await;
                self.model.start(node, &key, now);
            }
            35..48 => {
                self.done.push(format!("{node} stop {key:?}"));
                world.stop_typing(node, &conv, &who).await;
                self.model.stop(node, &key, now);
            }
            48..52 => {
                self.done.push(format!("{node} sent {key:?}"));
                let typing = world.nodes[node].typing();
                typing.reset_throttle_after_message(&conversation(&conv), &user(&who));
                self.model.message_sent(node, &key);
            }
            52..66 => {
                self.done.push(format!("{node} expire"));
                world.expire(node).await;
                self.model.expire(node, now);
            }
            66..80 => self.toggle(receiver, conv).await,
            80.. => {
                self.done.push(format!("pass {by:?}"));
                world.advance(by).await;
            }
        }
    }

    /// Begins or ends the subscription of a receiver.
    async fn toggle(&mut self, receiver: usize, conv: String) {
        let key = (receiver, conv.clone());
        if let Some(subscription) = self.subscriptions.remove(&key) {
            self.done.push(format!("{receiver} leaves {conv}"));
            self.dropped.push(Arc::clone(&subscription.recorder));
            self.model.unsubscribe(&key);
            return;
        }
        self.done.push(format!("{receiver} subscribes to {conv}"));
        let node = RECEIVER_NODES[receiver];
        let subscription = self.world.record(node, &conv).await;
        self.model.subscribe(key.clone(), node, self.world.now());
        self.subscriptions.insert(key, subscription);
    }

    async fn assert_store(&self) {
        let mut store = self.world.store.clone();
        for conv in &self.conversations {
            let expected = self.model.typing_users(conv, self.world.now());
            for node in [0, 1] {
                let found = self.world.typing_users(node, conv).await;
                assert_eq!(found, expected, "{node} {:#?}", self.done);
            }
            for who in (0..USERS).map(|nth| format!("u{nth}")) {
                let keys = &self.world.keys;
                let mut exists = redis::cmd("EXISTS");
                exists.arg(keys.typing_user(&conversation(conv), &user(&who)));
                let stored: bool = exists.query_async(&mut store).await.unwrap();
                assert_eq!(stored, expected.contains(&who), "{who} {:#?}", self.done);
            }
        }
    }

    /// Every frame was published, and every subscriber received every event of its conversation, in order.
    async fn assert_frames_and_events(&mut self) {
        for (conv, frames) in self.conversations.iter().zip(&mut self.frames) {
            let marker = self.world.publish_marker(conv).await;
            let published = frames_until(frames, &marker).await;
            let expected = self.model.take_frames(conv);
            assert_eq!(published, expected, "{conv} {:#?}", self.done);
            for (key, subscription) in &self.subscriptions {
                if key.1 == *conv {
                    let events = describe_all(&subscription.changes_until(&marker).await);
                    let expected = self.model.take_events(key);
                    assert_eq!(events, expected, "{key:?} {:#?}", self.done);
                }
            }
        }
        for recorder in &self.dropped {
            assert_eq!(describe_all(&recorder.take()), NOTHING, "{:#?}", self.done);
        }
    }
}

/// Returns the frames before the stop of this marker, without the start of the marker.
async fn frames_until(frames: &mut BusSubscription, marker: &str) -> Vec<String> {
    let stop = typing_frame(0, marker);
    let mut published = Vec::new();
    loop {
        let Some(BusEvent::Message { payload, .. }) = with_timeout(frames.next()).await else {
            unreachable!("the subscription ended or may have lost a message");
        };
        if payload[..] == stop {
            return published;
        }
        let (until, body) = payload[2..].split_first_chunk().unwrap();
        let who = String::from_utf8(body[1..=usize::from(body[0])].to_vec()).unwrap();
        if who != marker {
            published.push(describe(&who, u64::from_be_bytes(*until) > 0));
        }
    }
}
