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

use parlor_store::{Call, Fault, Script, fault, script};
use redis::{ErrorKind, FromRedisValue, RedisError};

use crate::context::{Context, millis};
use crate::error::{Error, Result};
use crate::ids::{LimiterId, UserId};
use crate::keys::{Key, TtlName};

pub use self::fallback::{Fallback, MOST_REMEMBERED};
pub use self::operations::CheckLimit;
pub use self::ops::{
    Algorithm, LONGEST_WINDOW, Limit, MOST_COST, MOST_REQUESTS, SHORTEST_WINDOW, Verdict,
};

static FIXED: Script = script!("fixed.lua");
static SLIDING: Script = script!("sliding.lua");
static GCRA: Script = script!("gcra.lua");
static MESSAGE: Script = script!("message.lua").native(native::message);
static GIVE_BACK: Script = script!("give_back.lua");

/// Limits that all nodes of a store share. Cloning copies pointers.
#[derive(Debug, Clone)]
pub struct Limits {
    ctx: Context,
}

impl Limits {
    /// The limits of a store.
    pub fn new(ctx: Context) -> Self {
        Self { ctx }
    }

    /// Takes `cost` places (1 to [`MOST_COST`], at most the limit) if all of them are free. With `peek` nothing is taken.
    pub async fn check(
        &self,
        id: &LimiterId,
        limit: &Limit,
        cost: u32,
        peek: bool,
    ) -> Result<Verdict> {
        let call = self.check_call(id, limit, cost, peek)?;
        let store = self.ctx.store();
        let answer = if peek || limit.algorithm() != Algorithm::Gcra {
            call.run(&store.repeatable()).await
        } else {
            call.run(store).await
        };
        answer.map_err(|error| refused(&self.key(id, limit), &error))
    }

    /// [`check`](Self::check) for a pipeline. Its reply is a [`Verdict`]. Only in a window it may be repeated.
    pub fn check_call(&self, id: &LimiterId, limit: &Limit, cost: u32, peek: bool) -> Result<Call> {
        limit.must_take(cost)?;
        let script = match limit.algorithm() {
            Algorithm::Fixed => &FIXED,
            Algorithm::Sliding => &SLIDING,
            Algorithm::Gcra => &GCRA,
        };
        let call = script
            .keys(self.key(id, limit))
            .arg(self.ctx.now().ms())
            .arg(limit.requests())
            .arg(limit.window_ms())
            .arg(cost)
            .arg(u8::from(peek));
        Ok(match limit.algorithm() {
            Algorithm::Fixed | Algorithm::Sliding => {
                call.arg(format!("{:016x}", rand::random::<u64>()))
            }
            Algorithm::Gcra => call,
        })
    }

    /// One message more of a user, of whom so many are allowed in the window of `limits.message_window`.
    pub async fn message(&self, user: &UserId, limit: u32) -> Result<Verdict> {
        let call = self.message_call(user, limit);
        self.run_message(call, user).await
    }

    /// [`message`](Self::message) for a pipeline. Its reply is a [`Verdict`]. Repeated it counts twice.
    pub fn message_call(&self, user: &UserId, limit: u32) -> Call {
        let window = self.ctx.keys().ttl(TtlName::MessageWindow);
        MESSAGE
            .keys(self.ctx.keys().message_rate(user))
            .arg(limit)
            .arg(millis(window))
    }

    /// The place of a message that was not sent after all is free again. Without one nothing happens; one of a window that
    /// is over is given back to the window that is.
    pub async fn give_back(&self, user: &UserId) -> Result<()> {
        let call = self.give_back_call(user);
        self.run_message(call, user).await
    }

    /// [`give_back`](Self::give_back) for a pipeline. Repeated it gives back twice.
    pub fn give_back_call(&self, user: &UserId) -> Call {
        GIVE_BACK.keys(self.ctx.keys().message_rate(user))
    }

    async fn run_message<T: FromRedisValue>(&self, call: Call, user: &UserId) -> Result<T> {
        let answer = call.run(self.ctx.store()).await;
        answer.map_err(|error| refused(&self.ctx.keys().message_rate(user), &error))
    }

    fn key(&self, id: &LimiterId, limit: &Limit) -> Key {
        let keys = self.ctx.keys();
        match limit.algorithm() {
            Algorithm::Fixed => keys.fixed_window(id),
            Algorithm::Sliding => keys.sliding_window(id),
            Algorithm::Gcra => keys.gcra(id),
        }
    }
}

/// Names the key that the store refused to count in, for it holds what somebody else wrote.
fn refused(key: &Key, error: &RedisError) -> Error {
    if fault(error) != Fault::Refused {
        return error.clone().into();
    }
    let text = format!("{error}; if somebody else wrote it, delete it");
    Error::Internal(RedisError::from((
        ErrorKind::UnexpectedReturnType,
        "a limit cannot be counted",
        format!("{key}: {text}"),
    )))
}

#[cfg(test)]
mod tests;
