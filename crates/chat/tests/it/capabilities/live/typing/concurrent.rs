//! Everything at once: two nodes, many typing users, subscriptions that come and go, and a clock that moves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parlor_chat::ids::UserId;
use parlor_chat::keys::TypingLayout;
use parlor_chat::typing::TypingChange;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::yield_now;

use super::fixture::{NOTHING, TypingSubscription, TypingWorld};
use crate::support::{Fixture, conversation, user};

const USERS: u64 = 6;
const ROUNDS: usize = 150;
const RECEIVERS_PER_NODE: u64 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_receiver_sees_the_end_of_every_typing_user_document_embedded() {
    let world = <TypingWorld as Fixture<_>>::embedded(TypingLayout::Document).await;
    every_receiver_sees_the_end_of_every_typing_user(world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_receiver_sees_the_end_of_every_typing_user_document_redis() {
    let world = <TypingWorld as Fixture<_>>::redis(TypingLayout::Document).await;
    every_receiver_sees_the_end_of_every_typing_user(world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_receiver_sees_the_end_of_every_typing_user_flag_embedded() {
    let world = <TypingWorld as Fixture<_>>::embedded(TypingLayout::Flag).await;
    every_receiver_sees_the_end_of_every_typing_user(world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_receiver_sees_the_end_of_every_typing_user_flag_redis() {
    let world = <TypingWorld as Fixture<_>>::redis(TypingLayout::Flag).await;
    every_receiver_sees_the_end_of_every_typing_user(world).await;
}

/// Types now and then, through either node, and stops at the end.
async fn type_at_random(world: Arc<TypingWorld>, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let who = format!("u{seed}");
    for _ in 0..ROUNDS {
        let node = rng.random_range(0..2);
        match rng.random_range(0..10u8) {
            0..6 => world.start_typing(node, "c1", &who).await,
            6..9 => world.stop_typing(node, "c1", &who).await,
            _ => {
                let by = Duration::from_millis(rng.random_range(1..1_000));
                world.store.clock().advance(by);
            }
        }
        yield_now().await;
    }
    world.stop_typing(0, "c1", &who).await;
}

/// A client that subscribes, loads the typing users, and applies the changes; again and again.
struct Receiver {
    node: usize,
    subscription: TypingSubscription,
    /// Users that the client shows as typing.
    shown: BTreeSet<UserId>,
    /// Last change of each user since the subscription began.
    last: BTreeMap<UserId, bool>,
}

impl Receiver {
    async fn subscribe(world: &TypingWorld, node: usize) -> Self {
        let mut receiver = Self {
            node,
            subscription: world.record(node, "c1").await,
            shown: BTreeSet::new(),
            last: BTreeMap::new(),
        };
        receiver.load(world).await;
        receiver
    }

    /// Replaces the shown users by those of the store. Changes that arrive from now on are applied to them.
    async fn load(&mut self, world: &TypingWorld) {
        self.apply(self.subscription.recorder.take());
        let typing = world.nodes[self.node].typing();
        let users = typing.typing_users(&conversation("c1")).await.unwrap();
        self.shown = users.into_iter().map(|it| it.user_id).collect();
    }

    fn apply(&mut self, changes: Vec<TypingChange>) {
        for TypingChange {
            user_id, typing, ..
        } in changes
        {
            let before = self.last.insert(user_id.clone(), typing);
            assert!(typing || before != Some(false), "{user_id} stopped twice");
            match typing {
                true => self.shown.insert(user_id),
                false => self.shown.remove(&user_id),
            };
        }
    }

    async fn receive_until(
        world: Arc<TypingWorld>,
        node: usize,
        seed: u64,
        done: Arc<AtomicBool>,
    ) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut receiver = Self::subscribe(&world, node).await;
        while !done.load(Ordering::Relaxed) {
            match rng.random_range(0..20u8) {
                0 => receiver.load(&world).await,
                1 => receiver = Self::subscribe(&world, node).await,
                2..10 => receiver.apply(receiver.subscription.recorder.take()),
                _ => {}
            }
            yield_now().await;
        }
        receiver
    }
}

async fn every_receiver_sees_the_end_of_every_typing_user(world: TypingWorld) {
    let world = Arc::new(world);
    let done = Arc::new(AtomicBool::new(false));
    let (mut receivers, mut expiring) = (Vec::new(), Vec::new());
    for node in 0..2 {
        for seed in 0..RECEIVERS_PER_NODE {
            let (world, done) = (Arc::clone(&world), Arc::clone(&done));
            let receiver = Receiver::receive_until(world, node, seed, done);
            receivers.push(tokio::spawn(receiver));
        }
        let (world, done) = (Arc::clone(&world), Arc::clone(&done));
        expiring.push(tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                world.expire(node).await;
                yield_now().await;
            }
        }));
    }
    let typing = (0..USERS).map(|seed| tokio::spawn(type_at_random(Arc::clone(&world), seed)));
    for typing in typing.collect::<Vec<_>>() {
        typing.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    for expiring in expiring {
        expiring.await.unwrap();
    }
    assert_nothing_is_stored(&world).await;
    for receiver in receivers {
        let mut receiver = receiver.await.unwrap();
        let changes = receiver.subscription.changes(&world).await;
        receiver.apply(changes);
        assert_eq!(receiver.shown, BTreeSet::new());
        assert!(receiver.last.values().all(|typing| !typing));
    }
}

async fn assert_nothing_is_stored(world: &TypingWorld) {
    for node in 0..2 {
        assert_eq!(world.typing_users(node, "c1").await, NOTHING);
    }
    let c1 = conversation("c1");
    let mut exists = redis::cmd("EXISTS");
    exists.arg(world.keys.typing_index(&c1));
    exists.arg(world.keys.typing_names(&c1));
    for seed in 0..USERS {
        exists.arg(world.keys.typing_user(&c1, &user(&format!("u{seed}"))));
    }
    let mut store = world.store.clone();
    let stored: u64 = exists.query_async(&mut store).await.unwrap();
    assert_eq!(stored, 0);
}
