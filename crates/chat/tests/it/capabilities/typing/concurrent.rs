//! Everything at once: two nodes, many typers, listeners that come and go, a clock that runs.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parlor_chat::ids::UserId;
use parlor_chat::keys::TypingLayout;
use parlor_chat::typing::{Typing, TypingListener};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::yield_now;

use super::fixture::{World, conversation, start, stop, typers, user};

const TYPERS: u64 = 6;
const ROUNDS: usize = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_are_told_of_ends_they_wait_for_embedded() {
    listeners_receive_a_stop_for_every_delivered_start(
        World::embedded(TypingLayout::Document).await,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_are_told_of_ends_they_wait_for_redis() {
    listeners_receive_a_stop_for_every_delivered_start(World::redis(TypingLayout::Document).await)
        .await;
}

/// Types now and then, on this node and that, at last no more.
async fn typer(nodes: Arc<[Typing; 2]>, clock: parlor_store::StoreClock, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let who = format!("u{seed}");
    for _ in 0..ROUNDS {
        let node = &nodes[rng.random_range(0..2)];
        match rng.random_range(0..10u8) {
            0..6 => start(node, "c1", &who).await,
            6..9 => stop(node, "c1", &who).await,
            _ => clock.advance(Duration::from_millis(rng.random_range(1..1_000))),
        }
        yield_now().await;
    }
    stop(&nodes[0], "c1", &who).await;
}

/// What somebody learns who listens now and then.
struct Ear {
    listener: TypingListener,
    believed: HashSet<UserId>,
}

impl Ear {
    async fn subscribe(&mut self) {
        let now = self.listener.subscribe(&conversation("c1")).await.unwrap();
        self.believed = now.into_iter().map(|it| it.user_id).collect();
    }

    fn apply_change(&mut self, who: UserId, typing: bool) {
        if typing {
            self.believed.insert(who);
        } else {
            assert!(self.believed.remove(&who), "{who}");
        }
    }

    async fn until(mut self, done: Arc<AtomicBool>, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        self.subscribe().await;
        while !done.load(Ordering::Relaxed) {
            match rng.random_range(0..20u8) {
                0 => self.subscribe().await,
                1 => {
                    self.listener.unsubscribe(&conversation("c1"));
                    assert_eq!(self.listener.try_next(), None);
                    self.subscribe().await;
                }
                2..10 => {
                    while let Some(change) = self.listener.try_next() {
                        self.apply_change(change.user_id, change.typing);
                    }
                }
                _ => {}
            }
            yield_now().await;
        }
        self
    }
}

async fn listeners_receive_a_stop_for_every_delivered_start(mut world: World) {
    let nodes = [world.nodes.remove(0), world.nodes.remove(0)];
    let nodes = Arc::new(nodes);
    let done = Arc::new(AtomicBool::new(false));
    let mut ears = Vec::new();
    let mut expiring = Vec::new();
    for at in 0..2 {
        for seed in 0..3 {
            let ear = Ear {
                listener: nodes[at].listener(),
                believed: HashSet::new(),
            };
            ears.push(tokio::spawn(ear.until(Arc::clone(&done), seed)));
        }
        let (nodes, done) = (Arc::clone(&nodes), Arc::clone(&done));
        expiring.push(tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                nodes[at].expire().await.unwrap();
                yield_now().await;
            }
        }));
    }
    let clock = world.store.clock();
    let typing = (0..TYPERS).map(|seed| typer(Arc::clone(&nodes), clock.clone(), seed));
    for typing in typing.map(tokio::spawn).collect::<Vec<_>>() {
        typing.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    for expiring in expiring {
        expiring.await.unwrap();
    }
    assert_eq!(typers(&nodes[0], "c1").await, [] as [&str; 0]);
    for ear in ears {
        let mut ear = ear.await.unwrap();
        for ((_, who), typing) in world.drain_changes(&mut ear.listener, "c1").await {
            ear.apply_change(user(&who), typing);
        }
        assert_eq!(ear.believed, HashSet::new());
    }
}
