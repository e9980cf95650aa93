//! Fixture: a store with two nodes.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use parlor_chat::context::ChatContext;
use parlor_chat::ids::LimiterId;
use parlor_chat::keys::{Key, KeySettings, Keyspace, Preset, TtlName};
use parlor_chat::limits::{RateLimit, RateLimitAlgorithm, RateLimitDecision, RateLimiter};
use parlor_store::{ManualClock, Store, StoreOptions};

use crate::support::Fixture;
use crate::support::backend::{TestBackend, options_with_long_timeout};
pub use crate::support::{conversation, user};

/// Keys of a server expire in real time while the test's clock stands still. The window is too long for that to matter.
pub const WINDOW: u64 = 6_000_000;

pub struct LimitsFixture {
    backend: TestBackend,
    pub keys: Keyspace,
    /// Two nodes, on a server each with its own connection.
    pub nodes: [RateLimiter; 2],
    /// Store connection of the second node, if it has its own.
    second: Option<Store>,
}

impl LimitsFixture {
    /// Advances the clocks. Keys of a server do not expire: they must not decide.
    pub fn advance_clocks(&self, ms: u64) {
        let by = Duration::from_millis(ms);
        self.store.clock().advance(by);
        if let Some(second) = &self.second {
            second.clock().advance(by);
        }
    }

    /// Advances the clocks and expires keys.
    pub async fn advance_clocks_and_ttls(&self, ms: u64) {
        let by = Duration::from_millis(ms);
        self.backend.advance(by).await;
        if let Some(second) = &self.second {
            second.clock().advance(by);
        }
    }

    /// How much earlier than by the test's clock the keys of the store may expire.
    pub fn tolerance_ms(&self) -> u64 {
        if self.primaries.is_empty() {
            0
        } else {
            WINDOW / 5
        }
    }

    /// Asserts that `ms` is `expected`, or a little less where keys expire in real time.
    #[track_caller]
    pub fn assert_about(&self, ms: u64, expected: u64) {
        let range = expected.saturating_sub(self.tolerance_ms())..=expected;
        assert!(range.contains(&ms), "{ms} is not about {expected}");
    }

    /// Runs a command on a key.
    pub async fn command<T: redis::FromRedisValue>(
        &self,
        command: &str,
        key: &Key,
        more: &[&str],
    ) -> T {
        let mut cmd = redis::cmd(command);
        cmd.arg(key).arg(more);
        cmd.query_async(&mut self.store.clone()).await.unwrap()
    }

    /// Reads the TTL of a key.
    pub async fn ttl_ms(&self, key: &Key) -> i64 {
        self.command("PTTL", key, &[]).await
    }

    /// Asserts that a key has about this TTL.
    pub async fn assert_ttl(&self, key: &Key, expected: u64) {
        let left = self.ttl_ms(key).await;
        self.assert_about(u64::try_from(left).unwrap(), expected);
    }

    /// The key of a limiter.
    pub fn key(&self, algorithm: RateLimitAlgorithm, on: &str) -> Key {
        match algorithm {
            RateLimitAlgorithm::Fixed => self.keys.fixed_window(&id(on)),
            RateLimitAlgorithm::Sliding => self.keys.sliding_window(&id(on)),
            RateLimitAlgorithm::Gcra => self.keys.gcra_state(&id(on)),
        }
    }
}

impl Fixture for LimitsFixture {
    async fn on(backend: TestBackend, (): ()) -> Self {
        let mut settings = KeySettings::from_preset(Preset::Parlor);
        let window = Duration::from_millis(WINDOW);
        settings.ttls.set(TtlName::MessageWindow, window);
        let keys = backend.keys(settings);
        let second = match &backend.url {
            Some(url) => {
                let clock = Some(ManualClock::new(backend.now().as_millis()));
                let options = options_with_long_timeout(url);
                Some(
                    Store::open(StoreOptions { clock, ..options })
                        .await
                        .unwrap(),
                )
            }
            None => None,
        };
        let other = second.as_ref().unwrap_or(&backend.store).clone();
        let node = |store| RateLimiter::new(ChatContext::new(store, keys.clone()));
        Self {
            nodes: [node(backend.store.clone()), node(other)],
            keys,
            second,
            backend,
        }
    }
}

impl Deref for LimitsFixture {
    type Target = TestBackend;

    fn deref(&self) -> &TestBackend {
        &self.backend
    }
}

impl DerefMut for LimitsFixture {
    fn deref_mut(&mut self) -> &mut TestBackend {
        &mut self.backend
    }
}

pub fn id(text: &str) -> LimiterId {
    LimiterId::new(text).unwrap()
}

pub fn limit(algorithm: RateLimitAlgorithm, requests: u32, window_ms: u64) -> RateLimit {
    RateLimit::new(algorithm, requests, Duration::from_millis(window_ms)).unwrap()
}

/// Checks `x` with a cost of 1.
pub async fn check(node: &RateLimiter, limit: &RateLimit) -> RateLimitDecision {
    node.check(&id("x"), limit, 1, false).await.unwrap()
}

/// Checks `x` with a cost.
pub async fn check_cost(node: &RateLimiter, limit: &RateLimit, cost: u32) -> RateLimitDecision {
    node.check(&id("x"), limit, cost, false).await.unwrap()
}

/// Peeks at `x`.
pub async fn check_dry_run(node: &RateLimiter, limit: &RateLimit, cost: u32) -> RateLimitDecision {
    node.check(&id("x"), limit, cost, true).await.unwrap()
}

/// Expected result of an allowed check.
pub fn allowed(limit: u32, remaining: u32, reset_ms: u64) -> RateLimitDecision {
    RateLimitDecision {
        allowed: true,
        limit,
        remaining,
        reset_ms,
        retry_after_ms: None,
    }
}

/// Expected result of a rejected check.
pub fn refused(
    limit: u32,
    remaining: u32,
    reset_ms: u64,
    retry_after_ms: u64,
) -> RateLimitDecision {
    RateLimitDecision {
        allowed: false,
        limit,
        remaining,
        reset_ms,
        retry_after_ms: Some(retry_after_ms),
    }
}
