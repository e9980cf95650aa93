//! A store with two nodes on it.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use parlor_chat::context::Context;
use parlor_chat::ids::{ConversationId, LimiterId, UserId};
use parlor_chat::keys::{Key, Keyspace, Preset, Settings, TtlName};
use parlor_chat::limits::{Algorithm, Limit, Limits, Verdict};
use parlor_store::{ManualClock, Options, Store};
use parlor_testkit::Cluster;

use crate::ground::{Ground, patient};

/// A server's keys age while the clock of the test stands still. Windows are so long that it does not matter.
pub const WINDOW: u64 = 6_000_000;

pub struct World {
    ground: Ground,
    pub keys: Keyspace,
    /// Two nodes, on a server each with its own store.
    pub nodes: [Limits; 2],
    /// The store of the second node, where it has its own.
    second: Option<Store>,
}

impl World {
    pub async fn embedded() -> Self {
        Self::on(Ground::embedded().await, None).await
    }

    pub async fn redis() -> Self {
        Self::on_server(Ground::redis().await).await
    }

    pub async fn valkey() -> Self {
        Self::on_server(Ground::valkey().await).await
    }

    pub async fn impatient() -> Self {
        Self::on_server(Ground::impatient().await).await
    }

    pub async fn cluster(cluster: &mut Cluster) -> Self {
        let url = cluster.url();
        Self::on(Ground::cluster(cluster).await, Some(&url)).await
    }

    async fn on_server(ground: Ground) -> Self {
        let url = ground.server.as_ref().unwrap().url();
        Self::on(ground, Some(&url)).await
    }

    async fn on(ground: Ground, url: Option<&str>) -> Self {
        let mut settings = Settings::from_preset(Preset::Parlor);
        let window = Duration::from_millis(WINDOW);
        settings.ttls.set(TtlName::MessageWindow, window);
        let keys = ground.keys(settings);
        let second = match url {
            Some(url) => {
                let clock = Some(ManualClock::new(ground.now().ms()));
                let options = patient(url);
                Some(Store::open(Options { clock, ..options }).await.unwrap())
            }
            None => None,
        };
        let other = second.as_ref().unwrap_or(&ground.store).clone();
        let node = |store| Limits::new(Context::new(store, keys.clone()));
        Self {
            nodes: [node(ground.store.clone()), node(other)],
            keys,
            second,
            ground,
        }
    }

    /// The clocks go on. Keys of a server stay, though their time may be over: they must not decide.
    pub fn pass(&self, ms: u64) {
        let by = Duration::from_millis(ms);
        self.store.clock().advance(by);
        if let Some(second) = &self.second {
            second.clock().advance(by);
        }
    }

    /// The clocks go on, and keys whose time is over go.
    pub async fn live(&self, ms: u64) {
        let by = Duration::from_millis(ms);
        self.ground.advance(by).await;
        if let Some(second) = &self.second {
            second.clock().advance(by);
        }
    }

    /// How much older than the clock says the keys of the store may be.
    pub fn slack(&self) -> u64 {
        if self.primaries.is_empty() {
            0
        } else {
            WINDOW / 5
        }
    }

    /// Whether `ms` is `expected`, or a little less where keys age by themselves.
    #[track_caller]
    pub fn about(&self, ms: u64, expected: u64) {
        let range = expected.saturating_sub(self.slack())..=expected;
        assert!(range.contains(&ms), "{ms} is not about {expected}");
    }

    /// Asks the store.
    pub async fn ask<T: redis::FromRedisValue>(
        &self,
        command: &str,
        key: &Key,
        more: &[&str],
    ) -> T {
        let mut cmd = redis::cmd(command);
        cmd.arg(key).arg(more);
        cmd.query_async(&mut self.store.clone()).await.unwrap()
    }

    /// What is left of a key's time to live.
    pub async fn left(&self, key: &Key) -> i64 {
        self.ask("PTTL", key, &[]).await
    }

    /// A key has about this time to live.
    pub async fn lives(&self, key: &Key, expected: u64) {
        let left = self.left(key).await;
        self.about(u64::try_from(left).unwrap(), expected);
    }

    /// The key of a limiter.
    pub fn key(&self, algorithm: Algorithm, on: &str) -> Key {
        match algorithm {
            Algorithm::Fixed => self.keys.fixed_window(&id(on)),
            Algorithm::Sliding => self.keys.sliding_window(&id(on)),
            Algorithm::Gcra => self.keys.gcra(&id(on)),
        }
    }
}

impl Deref for World {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Ground {
        &mut self.ground
    }
}

pub fn id(text: &str) -> LimiterId {
    LimiterId::new(text).unwrap()
}

pub fn user(text: &str) -> UserId {
    UserId::new(text).unwrap()
}

pub fn conversation(text: &str) -> ConversationId {
    ConversationId::new(text).unwrap()
}

pub fn limit(algorithm: Algorithm, requests: u32, window_ms: u64) -> Limit {
    Limit::new(algorithm, requests, Duration::from_millis(window_ms)).unwrap()
}

/// A check of `x` that costs one.
pub async fn check(node: &Limits, limit: &Limit) -> Verdict {
    node.check(&id("x"), limit, 1, false).await.unwrap()
}

/// A check of `x` with a cost.
pub async fn costly(node: &Limits, limit: &Limit, cost: u32) -> Verdict {
    node.check(&id("x"), limit, cost, false).await.unwrap()
}

/// A look at `x`.
pub async fn peek(node: &Limits, limit: &Limit, cost: u32) -> Verdict {
    node.check(&id("x"), limit, cost, true).await.unwrap()
}

/// What an allowed check answers.
pub fn allowed(limit: u32, remaining: u32, reset_ms: u64) -> Verdict {
    Verdict {
        allowed: true,
        limit,
        remaining,
        reset_ms,
        retry_after_ms: None,
    }
}

/// What a refused check answers.
pub fn refused(limit: u32, remaining: u32, reset_ms: u64, retry_after_ms: u64) -> Verdict {
    Verdict {
        allowed: false,
        limit,
        remaining,
        reset_ms,
        retry_after_ms: Some(retry_after_ms),
    }
}
