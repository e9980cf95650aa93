//! Limits: how often something may be done.
//!
//! Always true:
//! 1. A check is one step of the store: whatever nodes ask at once, no more is admitted than the limit says.
//! 2. What is refused takes no place. A cost fits as a whole, or nothing of it is taken.
//! 3. The store's time decides when a place is free. A key's time to live collects rubbish, and decides for the counter of
//!    messages alone, which holds no time.
//! 4. A request in a window has a name of its own, so that one whose reply was lost can be repeated and counts once. A
//!    steady rate and the counter of messages have no room for names: they are never repeated.
//! 5. What it means that the store does not answer is the caller's business; [`Fallback`] is for those who still want to
//!    count.

pub mod keys;

mod fallback;
mod gcra;
mod native;
mod operations;
mod ops;

use parlor_store::{Fault, LuaScript, ScriptCall, fault, script};
use redis::{ErrorKind, FromRedisValue, RedisError};

use crate::context::{ChatContext, duration_millis};
use crate::error::{Error, Result};
use crate::ids::{LimiterId, UserId};
use crate::keys::{Key, TtlName};

pub use self::fallback::{LocalRateLimiter, MAX_LIMITERS};
pub use self::operations::CheckLimit;
pub use self::ops::{
    MAX_COST, MAX_REQUESTS, MAX_WINDOW, MIN_WINDOW, RateLimit, RateLimitAlgorithm,
    RateLimitDecision,
};

static CHECK_FIXED_WINDOW: LuaScript = script!("fixed.lua");
static CHECK_SLIDING_WINDOW: LuaScript = script!("sliding.lua");
static CHECK_GCRA: LuaScript = script!("gcra.lua");
static COUNT_MESSAGE: LuaScript = script!("message.lua").with_native(native::count_message);
static REFUND_MESSAGE: LuaScript = script!("give_back.lua");

/// Limits that all nodes of a store share. Cloning copies pointers.
#[derive(Debug, Clone)]
pub struct RateLimiter {
    ctx: ChatContext,
}

impl RateLimiter {
    /// The limits of a store.
    pub fn new(ctx: ChatContext) -> Self {
        Self { ctx }
    }

    /// Takes `cost` places (1 to [`MOST_COST`], at most the limit) if all of them are free. With `peek` nothing is taken.
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
        answer.map_err(|error| counting_error(&self.limiter_key(id, limit), &error))
    }

    /// [`check`](Self::check) for a pipeline. Its reply is a [`Verdict`]. Only in a window it may be repeated.
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

    /// One message more of a user, of whom so many are allowed in the window of `limits.message_window`.
    pub async fn count_message(&self, user: &UserId, limit: u32) -> Result<RateLimitDecision> {
        let call = self.count_message_call(user, limit);
        self.run_message_script(call, user).await
    }

    /// [`message`](Self::message) for a pipeline. Its reply is a [`Verdict`]. Repeated it counts twice.
    pub fn count_message_call(&self, user: &UserId, limit: u32) -> ScriptCall {
        let window = self.ctx.keys().ttl(TtlName::MessageWindow);
        COUNT_MESSAGE
            .keys(self.ctx.keys().message_counter(user))
            .arg(limit)
            .arg(duration_millis(window))
    }

    /// The place of a message that was not sent after all is free again. Without one nothing happens; one of a window that
    /// is over is given back to the window that is.
    pub async fn refund_message(&self, user: &UserId) -> Result<()> {
        let call = self.give_back_call(user);
        self.run_message_script(call, user).await
    }

    /// [`give_back`](Self::give_back) for a pipeline. Repeated it gives back twice.
    pub fn give_back_call(&self, user: &UserId) -> ScriptCall {
        REFUND_MESSAGE.keys(self.ctx.keys().message_counter(user))
    }

    async fn run_message_script<T: FromRedisValue>(
        &self,
        call: ScriptCall,
        user: &UserId,
    ) -> Result<T> {
        let answer = call.run(self.ctx.store()).await;
        answer.map_err(|error| counting_error(&self.ctx.keys().message_counter(user), &error))
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

/// Names the key that the store refused to count in, for it holds what somebody else wrote.
fn counting_error(key: &Key, error: &RedisError) -> Error {
    if fault(error) != Fault::Rejected {
        return error.clone().into();
    }
    let text = format!("{error}; if the key has a foreign type, delete it");
    Error::StoreRejected(RedisError::from((
        ErrorKind::UnexpectedReturnType,
        "cannot count in a rate limit key",
        format!("{key}: {text}"),
    )))
}

#[cfg(test)]
mod tests;
