//! Rate limits that all nodes share.
//!
//! Invariants:
//! 1. A check is one script call: however many nodes check at once, at most `limit` requests are admitted.
//! 2. A rejected request is not counted. A cost is counted as a whole or not at all.
//! 3. The store's clock decides when a request no longer counts. Redis TTLs remove leftovers; only the message counter
//!    depends on its TTL, because it stores no time.
//! 4. A request in a fixed or sliding window has a unique member, so a call whose reply was lost can be repeated and
//!    counts once. GCRA and the message counter store no members, so their calls are never repeated.
//! 5. The caller decides what happens while the store is unavailable. [`LocalRateLimiter`] is for callers that still
//!    want to count.
//! 6. A key of a foreign type stays as it is, and each node counts what it stands for by itself.

pub mod keys;

pub mod gcra;
mod local_limiter;
mod model;
mod operation_group;
mod operations;
mod scripts;

use std::sync::Arc;

use parlor_store::{LuaScript, ScriptCall, StoreErrorClass, classify_error, script};
use redis::{ErrorKind, RedisError};

use crate::api::error::{Error, Result};
use crate::clock::duration_millis;
use crate::context::ChatContext;
use crate::ids::{LimiterId, UserId};
use crate::keys::{ForeignKeyWarning, Key, TtlName};

pub use self::local_limiter::{LocalRateLimiter, MAX_LIMITERS};
pub use self::model::{
    MAX_COST, MAX_REQUESTS, MAX_WINDOW, MIN_WINDOW, RateLimit, RateLimitAlgorithm,
    RateLimitDecision,
};
pub use self::operation_group::OPERATIONS;
pub use self::operations::CheckLimit;

static CHECK_FIXED_WINDOW: LuaScript = script!("scripts/check_fixed_window.lua");
static CHECK_SLIDING_WINDOW: LuaScript = script!("scripts/check_sliding_window.lua");
static CHECK_GCRA: LuaScript = script!("scripts/check_gcra.lua");
static COUNT_MESSAGE: LuaScript =
    script!("scripts/count_message.lua").with_native(scripts::native::count_message);
static REFUND_MESSAGE: LuaScript = script!("scripts/refund_message.lua");

static FOREIGN_KEY: ForeignKeyWarning =
    ForeignKeyWarning::new("each node counts for this limit by itself");

/// Rate limiter shared by all nodes of a store. Cloning copies pointers.
#[derive(Debug, Clone)]
pub struct RateLimiter {
    ctx: ChatContext,
    /// Messages of users whose key has a foreign type.
    local_messages: Arc<LocalRateLimiter>,
    /// Requests of limiters whose key has a foreign type.
    local_requests: Arc<LocalRateLimiter>,
}

impl RateLimiter {
    /// Creates the rate limiter of a store.
    pub fn new(ctx: ChatContext) -> Self {
        Self {
            ctx,
            local_messages: Arc::default(),
            local_requests: Arc::default(),
        }
    }

    /// Checks a limit and counts `cost` requests (1 to [`MAX_COST`], at most the limit) if all of them fit. With `peek`
    /// nothing is counted.
    pub async fn check(
        &self,
        id: &LimiterId,
        limit: &RateLimit,
        cost: u32,
        peek: bool,
    ) -> Result<RateLimitDecision> {
        let call = self.check_call(id, limit, cost, peek)?;
        let store = self.ctx.store();
        let answer = if peek || limit.algorithm() != RateLimitAlgorithm::Gcra {
            call.run(&store.idempotent()).await
        } else {
            call.run(store).await
        };
        match answer {
            Err(error) if is_foreign_key(&error) => {
                FOREIGN_KEY.report(&self.limiter_key(id, limit));
                let (local, now) = (&self.local_requests, self.ctx.now());
                Ok(match peek {
                    true => local.peek(id, limit, cost, now),
                    false => local.check_cost(id, limit, cost, now),
                })
            }
            answer => answer.map_err(|error| counting_error(&self.limiter_key(id, limit), &error)),
        }
    }

    /// [`check`](Self::check) for a pipeline. The reply is a [`RateLimitDecision`]. Only a call for a fixed or sliding
    /// window may be repeated.
    pub fn check_call(
        &self,
        id: &LimiterId,
        limit: &RateLimit,
        cost: u32,
        peek: bool,
    ) -> Result<ScriptCall> {
        limit.validate_cost(cost)?;
        let script = match limit.algorithm() {
            RateLimitAlgorithm::Fixed => &CHECK_FIXED_WINDOW,
            RateLimitAlgorithm::Sliding => &CHECK_SLIDING_WINDOW,
            RateLimitAlgorithm::Gcra => &CHECK_GCRA,
        };
        let call = script
            .keys(self.limiter_key(id, limit))
            .arg(self.ctx.now().as_millis())
            .arg(limit.requests())
            .arg(limit.window_ms())
            .arg(cost)
            .arg(u8::from(peek));
        Ok(match limit.algorithm() {
            RateLimitAlgorithm::Fixed | RateLimitAlgorithm::Sliding => {
                call.arg(format!("{:016x}", rand::random::<u64>()))
            }
            RateLimitAlgorithm::Gcra => call,
        })
    }

    /// Counts one message of a user; `limit` messages are allowed per `limits.message_window`.
    pub async fn count_message(&self, user: &UserId, limit: u32) -> Result<RateLimitDecision> {
        let call = self.count_message_call(user, limit);
        match call.run(self.ctx.store()).await {
            Err(error) if is_foreign_key(&error) => self.count_message_locally(user, limit),
            answer => answer
                .map_err(|error| counting_error(&self.ctx.keys().message_counter(user), &error)),
        }
    }

    /// [`count_message`](Self::count_message) for a pipeline. The reply is a [`RateLimitDecision`]. A repeated call
    /// counts twice.
    pub fn count_message_call(&self, user: &UserId, limit: u32) -> ScriptCall {
        let window = self.ctx.keys().ttl(TtlName::MessageWindow);
        COUNT_MESSAGE
            .keys(self.ctx.keys().message_counter(user))
            .arg(limit)
            .arg(duration_millis(window))
    }

    /// Counts one message on this node alone, for a user whose key is [foreign](is_foreign_key).
    pub(crate) fn count_message_locally(
        &self,
        user: &UserId,
        limit: u32,
    ) -> Result<RateLimitDecision> {
        FOREIGN_KEY.report(&self.ctx.keys().message_counter(user));
        let window = self.ctx.keys().ttl(TtlName::MessageWindow);
        let limit = RateLimit::new(RateLimitAlgorithm::Gcra, limit, window)?;
        let id = LimiterId::new(user.as_str())?;
        Ok(self.local_messages.check(&id, &limit, self.ctx.now()))
    }

    /// Takes a counted message back, because it was not sent. Does nothing without a counter. If the window of the
    /// message is over, the counter of the current window is reduced.
    pub async fn refund_message(&self, user: &UserId) -> Result<()> {
        let key = self.ctx.keys().message_counter(user);
        let call = REFUND_MESSAGE.keys(&key);
        match call.run(self.ctx.store()).await {
            // The message was counted by the node, and its window is short.
            Err(error) if is_foreign_key(&error) => Ok(()),
            answer => answer.map_err(|error| counting_error(&key, &error)),
        }
    }

    fn limiter_key(&self, id: &LimiterId, limit: &RateLimit) -> Key {
        let keys = self.ctx.keys();
        match limit.algorithm() {
            RateLimitAlgorithm::Fixed => keys.fixed_window(id),
            RateLimitAlgorithm::Sliding => keys.sliding_window(id),
            RateLimitAlgorithm::Gcra => keys.gcra_state(id),
        }
    }
}

/// True if the key of a limit has a foreign type, or contains no number.
pub(crate) fn is_foreign_key(error: &RedisError) -> bool {
    let text = error.to_string();
    text.contains("WRONGTYPE") || text.contains("is not a counter")
}

/// Adds the key to the error if the store rejected the command.
fn counting_error(key: &Key, error: &RedisError) -> Error {
    if classify_error(error) != StoreErrorClass::Rejected {
        return error.clone().into();
    }
    Error::StoreRejected(RedisError::from((
        ErrorKind::UnexpectedReturnType,
        "cannot count in a rate limit key",
        format!("{key}: {error}"),
    )))
}
