//! Random histories of two nodes, compared with a model that uses no store.

mod model;

use std::collections::BTreeSet;
use std::time::Duration;

use parlor_chat::keys::TypingLayout;
use parlor_chat::typing::TypingListener;
use parlor_store::{BusEvent, BusSubscription};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::model::{Model, Place};
use super::fixture::{TypingFixture, conversation, start, stop, typers, user, with_timeout};
use crate::support::Fixture;

const HISTORIES: u64 = 60;
const STEPS: usize = 60;
const USERS: usize = 3;

#[tokio::test]
async fn document() {
    histories(TypingLayout::Document).await;
}

#[tokio::test]
async fn flag() {
    histories(TypingLayout::Flag).await;
}

/// A listener, and whom it believes to type.
struct Ear {
    node: usize,
    listener: TypingListener,
    rooms: BTreeSet<String>,
    believed: BTreeSet<Place>,
    /// Reads after each step, and so is told every single change.
    reads_every_step: bool,
}

struct History {
    rng: StdRng,
    model: Model,
    ears: Vec<Ear>,
    convs: [String; 2],
    /// Shows how far the bus has come, also where no listener is.
    bus: Vec<BusSubscription>,
    done: Vec<String>,
}

async fn histories(layout: TypingLayout) {
    let mut fixture = TypingFixture::embedded(layout).await;
    for seed in 0..HISTORIES {
        let ear = |node: usize, quick| Ear {
            node,
            listener: fixture.nodes[node].listener(),
            rooms: BTreeSet::new(),
            believed: BTreeSet::new(),
            reads_every_step: quick,
        };
        let ears = vec![ear(0, true), ear(0, false), ear(1, true), ear(1, false)];
        let convs = [0, 1].map(|it| format!("c{seed}-{it}"));
        let mut bus = Vec::new();
        for conv in &convs {
            let channel = fixture.channel(conv);
            let subscribed = fixture.store.bus().subscribe_sharded(channel.as_str());
            bus.push(subscribed.await.unwrap());
        }
        let mut history = History {
            rng: StdRng::seed_from_u64(seed),
            model: Model::new(fixture.ttl()),
            ears,
            convs,
            bus,
            done: vec![format!("{layout} {seed}")],
        };
        for _ in 0..STEPS {
            let seated = history.step(&mut fixture).await;
            history.bus_is_empty(&fixture).await;
            history.store_agrees(&fixture).await;
            history.listeners_agree(&mut fixture, seated).await;
        }
    }
}

impl History {
    /// One step; the listener that sat down in it.
    async fn step(&mut self, fixture: &mut TypingFixture) -> Option<usize> {
        let rng = &mut self.rng;
        let node = rng.random_range(0..2);
        let conv = self.convs[rng.random_range(0..2)].clone();
        let who = format!("u{}", rng.random_range(0..USERS));
        let ear = rng.random_range(0..self.ears.len());
        // No sum of these steps equals one of the durations, because a key still exists in its last millisecond and its
        // user is no longer typing.
        let by = Duration::from_millis(7 * rng.random_range(1..360));
        let place = (conv.clone(), who.clone());
        let now = fixture.now();
        match rng.random_range(0..100u8) {
            0..35 => {
                self.done.push(format!("{node} start {place:?}"));
                start(&fixture.nodes[node], &conv, &who).await;
                self.model.start(node, &place, now);
            }
            35..48 => {
                self.done.push(format!("{node} stop {place:?}"));
                stop(&fixture.nodes[node], &conv, &who).await;
                self.model.stop(node, &place, now);
            }
            48..52 => {
                self.done.push(format!("{node} sent {place:?}"));
                let (conv, who) = (conversation(&conv), user(&who));
                fixture.nodes[node].reset_throttle_after_message(&conv, &who);
                self.model.message_sent(node, &place);
            }
            52..66 => {
                self.done.push(format!("{node} expire"));
                fixture.nodes[node].expire().await.unwrap();
                self.model.expire(node, now);
            }
            66..80 => return self.toggle(ear, conv, fixture).await,
            80.. => {
                self.done.push(format!("pass {by:?}"));
                fixture.advance(by).await;
            }
        }
        None
    }

    async fn toggle(&mut self, at: usize, conv: String, fixture: &TypingFixture) -> Option<usize> {
        let ear = &mut self.ears[at];
        if ear.rooms.remove(&conv) {
            self.done.push(format!("{at} leaves {conv}"));
            ear.listener.unsubscribe(&conversation(&conv));
            ear.believed.retain(|place| place.0 != conv);
            self.model.rise(ear.node, &conv);
            return None;
        }
        self.done.push(format!("{at} sits down in {conv}"));
        let found = ear.listener.subscribe(&conversation(&conv)).await.unwrap();
        let found: BTreeSet<_> = found.iter().map(|it| it.user_id.to_string()).collect();
        let expected = self.model.sit(ear.node, &conv, fixture.now());
        assert_eq!(found, expected, "{:#?}", self.done);
        let places = found.into_iter().map(|who| (conv.clone(), who));
        ear.believed.extend(places);
        ear.rooms.insert(conv);
        Some(at)
    }

    /// Nothing that was published before reaches who sits down later.
    async fn bus_is_empty(&mut self, fixture: &TypingFixture) {
        for (conv, bus) in self.convs.iter().zip(&mut self.bus) {
            fixture.publish(conv, &[1, 255]).await;
            loop {
                let event = with_timeout(bus.next()).await;
                if matches!(event, Some(BusEvent::Message { payload, .. }) if payload[..] == [1, 255])
                {
                    break;
                }
            }
        }
    }

    async fn store_agrees(&self, fixture: &TypingFixture) {
        let mut store = fixture.store.clone();
        for conv in &self.convs {
            let found = typers(&fixture.nodes[0], conv).await;
            let expected = self.model.typers(conv, fixture.now());
            assert_eq!(found, expected, "{:#?}", self.done);
            for who in (0..USERS).map(|it| format!("u{it}")) {
                let key = fixture.keys.typing_user(&conversation(conv), &user(&who));
                let mut exists = redis::cmd("EXISTS");
                let shown: bool = exists.arg(key).query_async(&mut store).await.unwrap();
                assert_eq!(shown, expected.contains(&who), "{who} {:#?}", self.done);
            }
        }
    }

    /// A quick listener was told exactly what the model tells. A slow one that reads at last believes what its node does,
    /// and no listener is told of the end of what it did not know.
    async fn listeners_agree(&mut self, fixture: &mut TypingFixture, seated: Option<usize>) {
        let told = self.model.take_told();
        let mut followed = BTreeSet::new();
        for at in [0, 2, 1, 3] {
            let ear = &mut self.ears[at];
            let rooms = ear.rooms.iter().map(|conv| (ear.node, conv.clone()));
            let rooms: Vec<_> = rooms.collect();
            // Somebody has to read, else nobody knows how far the room has come.
            let alone = rooms.iter().any(|room| !followed.contains(room));
            if !ear.reads_every_step && !alone && self.rng.random_range(0..8) > 0 {
                continue;
            }
            let mut heard = Vec::new();
            for conv in &ear.rooms {
                heard.extend(fixture.drain_changes(&mut ear.listener, conv).await);
            }
            followed.extend(rooms);
            for (place, typing) in &heard {
                let believed = if *typing {
                    ear.believed.insert(place.clone());
                    true
                } else {
                    ear.believed.remove(place)
                };
                assert!(believed, "{at} {place:?} {:#?}", self.done);
            }
            for conv in &ear.rooms {
                let believed = ear.believed.iter().filter(|it| it.0 == *conv);
                let believed: BTreeSet<_> = believed.map(|it| it.1.clone()).collect();
                let known = self.model.known(ear.node, conv);
                assert_eq!(believed, known, "{at} {:#?}", self.done);
            }
            if ear.reads_every_step {
                let told = told.iter().filter(|it| {
                    it.0 == ear.node && ear.rooms.contains(&it.1.0) && seated != Some(at)
                });
                let mut expected: Vec<_> = told.map(|it| (it.1.clone(), it.2)).collect();
                expected.sort();
                heard.sort();
                assert_eq!(heard, expected, "{at} {:#?}", self.done);
            }
        }
    }
}
