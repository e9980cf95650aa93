//! Random histories of two nodes, compared with a model that uses no store.

mod model;

use std::time::Duration;

use parlor_chat::keys::TypingLayout;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::model::Model;
use super::fixture::{TypingFixture, conversation, start, stop, typers, user};
use crate::support::Fixture;

const HISTORIES: u64 = 60;
const STEPS: usize = 60;
const USERS: usize = 3;
const CONVERSATIONS: [&str; 2] = ["c1", "c2"];

#[tokio::test]
async fn document() {
    histories(TypingLayout::Document).await;
}

#[tokio::test]
async fn flag() {
    histories(TypingLayout::Flag).await;
}

struct History {
    rng: StdRng,
    model: Model,
    /// Expected frames in `c1` since the last check.
    frames: Vec<String>,
    done: Vec<String>,
}

async fn histories(layout: TypingLayout) {
    for seed in 0..HISTORIES {
        let mut fixture = TypingFixture::embedded(layout).await;
        let mut history = History {
            rng: StdRng::seed_from_u64(seed),
            model: Model::new(fixture.ttl()),
            frames: Vec::new(),
            done: vec![format!("{layout} {seed}")],
        };
        for _ in 0..STEPS {
            history.step(&fixture).await;
            history.assert_store(&fixture).await;
            let frames = fixture.drain_frames().await;
            assert_eq!(frames, history.frames, "{:#?}", history.done);
            history.frames.clear();
        }
    }
}

impl History {
    async fn step(&mut self, fixture: &TypingFixture) {
        let rng = &mut self.rng;
        let node = rng.random_range(0..2);
        let conv = CONVERSATIONS[rng.random_range(0..2)];
        let who = format!("u{}", rng.random_range(0..USERS));
        // No sum of these steps equals one of the durations, because a key still exists in its last millisecond and its
        // user is no longer typing.
        let by = Duration::from_millis(7 * rng.random_range(1..360));
        let key = (conv.to_owned(), who.clone());
        let now = fixture.now();
        match rng.random_range(0..100u8) {
            0..45 => {
                self.done.push(format!("{node} start {key:?}"));
                start(&fixture.nodes[node], conv, &who).await;
                if self.model.start(node, &key, now) && conv == "c1" {
                    self.frames.push(format!("{who} types"));
                }
            }
            45..65 => {
                self.done.push(format!("{node} stop {key:?}"));
                stop(&fixture.nodes[node], conv, &who).await;
                if self.model.stop(node, &key, now) && conv == "c1" {
                    self.frames.push(format!("{who} stopped"));
                }
            }
            65..70 => {
                self.done.push(format!("{node} sent {key:?}"));
                let (conv, who) = (conversation(conv), user(&who));
                fixture.nodes[node].reset_throttle_after_message(&conv, &who);
                self.model.message_sent(node, &key);
            }
            70.. => {
                self.done.push(format!("pass {by:?}"));
                fixture.advance(by).await;
            }
        }
    }

    async fn assert_store(&self, fixture: &TypingFixture) {
        let mut store = fixture.store.clone();
        for conv in CONVERSATIONS {
            let found = typers(&fixture.nodes[0], conv).await;
            let expected = self.model.typers(conv, fixture.now());
            assert_eq!(found, expected, "{:#?}", self.done);
            for who in (0..USERS).map(|it| format!("u{it}")) {
                let key = fixture.keys.typing_user(&conversation(conv), &user(&who));
                let mut exists = redis::cmd("EXISTS");
                let stored: bool = exists.arg(key).query_async(&mut store).await.unwrap();
                assert_eq!(stored, expected.contains(&who), "{who} {:#?}", self.done);
            }
        }
    }
}
