//! Decides whether a request may be sent again.
//!
//! Invariants:
//! 1. A request has at most `MAX_ATTEMPTS` attempts, all within one timeout.
//! 2. A request is retried only if that is safe: nothing was executed, it is read-only, or the caller declared it
//!    idempotent.

use std::time::{Duration, Instant};

use parlor_embedded::{CommandEffect, find_command};
use redis::{Arg, Cmd, RedisError, RedisResult, ServerError, Value};

use crate::error_class::{error_code, server_errors};

/// Maximum number of attempts of one request.
const MAX_ATTEMPTS: u32 = 3;
const BACKOFF_STEP: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// Pause before the next attempt.
pub(crate) fn backoff(attempt: u32) -> Duration {
    (BACKOFF_STEP * attempt).min(MAX_BACKOFF)
}

/// Attempts of one request.
pub(crate) struct Attempts {
    number: u32,
    deadline: Instant,
}

impl Attempts {
    pub(crate) fn until(deadline: Instant) -> Self {
        Self {
            number: 1,
            deadline,
        }
    }

    /// Whether no attempt may follow the current one.
    pub(crate) fn is_last(&self) -> bool {
        self.number >= MAX_ATTEMPTS || Instant::now() >= self.deadline
    }

    /// Begins the next attempt. Waits before it, unless the request was redirected to another server.
    pub(crate) async fn next(&mut self, redirected: bool) {
        if !redirected {
            let until = (Instant::now() + backoff(self.number)).min(self.deadline);
            tokio::time::sleep_until(until.into()).await;
        }
        self.number += 1;
    }
}

/// Error of one attempt.
#[derive(Debug)]
pub(crate) struct AttemptError {
    pub(crate) error: RedisError,
    /// Whether the request may have reached the server.
    pub(crate) may_have_been_sent: bool,
    /// Whether a retry is pointless, for example because the breaker is open.
    pub(crate) no_retry: bool,
}

impl AttemptError {
    pub(crate) fn after_send(error: RedisError) -> Self {
        Self {
            error,
            may_have_been_sent: true,
            no_retry: false,
        }
    }

    pub(crate) fn before_send(error: RedisError) -> Self {
        Self {
            error,
            may_have_been_sent: false,
            no_retry: false,
        }
    }

    pub(crate) fn no_retry(error: RedisError) -> Self {
        Self {
            error,
            may_have_been_sent: false,
            no_retry: true,
        }
    }

    /// Whether the request may be retried.
    pub(crate) fn may_retry(&self, is_idempotent: impl FnOnce() -> bool) -> bool {
        if self.no_retry {
            return false;
        }
        if !self.may_have_been_sent || error_proves_not_executed(&self.error) {
            return true;
        }
        self.error.is_io_error() && is_idempotent()
    }
}

/// Whether this reply proves that the command was not executed, but may succeed soon or on another server.
pub(crate) fn proves_not_executed(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if is_transient(error))
}

fn error_proves_not_executed(error: &RedisError) -> bool {
    // A transaction that was rejected while its commands were queued has several errors. All of them must be transient.
    let errors = server_errors(error);
    !errors.is_empty() && errors.iter().all(is_transient)
}

fn is_transient(error: &ServerError) -> bool {
    matches!(
        error_code(error),
        "LOADING" | "CLUSTERDOWN" | "TRYAGAIN" | "MASTERDOWN" | "READONLY" | "MOVED" | "ASK"
    )
}

/// Whether a reply, or the error of a transaction, has this error code.
pub(crate) fn has_error_code(result: &RedisResult<&[Value]>, wanted: &str) -> bool {
    match result {
        Ok(values) => values
            .iter()
            .any(|value| matches!(value, Value::ServerError(error) if error_code(error) == wanted)),
        Err(error) => server_errors(error)
            .iter()
            .any(|error| error_code(error) == wanted),
    }
}

/// Whether a command is read-only, so that repeating it has no effect.
pub(crate) fn is_read_only(cmd: &Cmd) -> bool {
    let mut words = cmd.args_iter().map_while(|arg| match arg {
        Arg::Simple(word) => Some(word.to_ascii_uppercase()),
        _ => None,
    });
    let Some(name) = words.next() else {
        return false;
    };
    // Commands that the table lacks, or whose first argument decides.
    match (&name[..], words.next().as_deref()) {
        (b"ROLE" | b"LASTSAVE", _) => true,
        (b"SCRIPT", Some(b"LOAD" | b"EXISTS")) => true,
        (b"CONFIG", Some(b"GET")) | (b"MEMORY", Some(b"USAGE")) => true,
        (b"OBJECT" | b"COMMAND", Some(_)) => true,
        _ => find_command(&name).is_some_and(|spec| spec.effect == CommandEffect::ReadOnly),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Value {
        redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("a valid reply")
    }

    fn io() -> RedisError {
        std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()
    }

    #[test]
    fn only_commands_that_change_nothing_are_read_only() {
        for read in [
            "GET k",
            "get k",
            "SCRIPT EXISTS x",
            "CONFIG GET save",
            "TIME",
            "TOUCH k",
            "ZRANGEBYLEX z - +",
            "EVALSHA_RO x 0",
            "ROLE",
        ] {
            let cmd = read.split(' ').collect::<Vec<_>>();
            assert!(is_read_only(redis::cmd(cmd[0]).arg(&cmd[1..])), "{read}");
        }
        for write in [
            "SET k v",
            "EVALSHA x 0",
            "GETDEL k",
            "SCRIPT FLUSH",
            "CONFIG SET a b",
            "PUBLISH a b",
            "SELECT 1",
            "MULTI",
        ] {
            let cmd = write.split(' ').collect::<Vec<_>>();
            assert!(!is_read_only(redis::cmd(cmd[0]).arg(&cmd[1..])), "{write}");
        }
    }

    #[test]
    fn all_commands_that_only_read_are_retried() {
        let reads = "DBSIZE ECHO EVALSHA_RO EVAL_RO EXISTS EXPIRETIME GET GETRANGE HEXISTS HGET HGETALL HKEYS HLEN HMGET \
             HRANDFIELD HSCAN HSTRLEN HVALS INFO KEYS LASTSAVE LINDEX LLEN LPOS LRANGE MGET PEXPIRETIME PING PTTL \
             RANDOMKEY ROLE SCAN SCARD SDIFF SINTER SINTERCARD SISMEMBER SMEMBERS SMISMEMBER SRANDMEMBER SSCAN STRLEN \
             SUBSTR SUNION TIME TTL TYPE ZCARD ZCOUNT ZDIFF ZINTER ZINTERCARD ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYSCORE \
             ZRANK ZREVRANGE ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION";
        for name in reads.split_whitespace() {
            assert!(is_read_only(&redis::cmd(name)), "{name}");
        }
        for (name, argument) in [
            ("SCRIPT", "LOAD"),
            ("SCRIPT", "EXISTS"),
            ("CONFIG", "GET"),
            ("MEMORY", "USAGE"),
            ("PUBSUB", "NUMSUB"),
            ("OBJECT", "ENCODING"),
            ("COMMAND", "DOCS"),
        ] {
            assert!(
                is_read_only(redis::cmd(name).arg(argument)),
                "{name} {argument}"
            );
        }
    }

    #[test]
    fn only_idempotent_requests_are_retried_after_a_lost_reply_and_unsent_ones_always() {
        assert!(!AttemptError::after_send(io()).may_retry(|| false));
        assert!(AttemptError::after_send(io()).may_retry(|| true));
        assert!(AttemptError::before_send(io()).may_retry(|| false));
        assert!(!AttemptError::no_retry(io()).may_retry(|| true));
    }

    #[test]
    fn an_unready_server_executed_nothing() {
        for text in [
            "LOADING x",
            "READONLY x",
            "CLUSTERDOWN x",
            "TRYAGAIN x",
            "MASTERDOWN x",
            "MOVED 1 a:1",
            "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't",
        ] {
            assert!(proves_not_executed(&reply(text)), "{text}");
            let error = reply(text).extract_error().expect_err("an error");
            assert!(
                AttemptError::after_send(error).may_retry(|| false),
                "{text}"
            );
        }
        for text in ["ERR x", "OOM x", "NOSCRIPT x", "WRONGTYPE x", "BUSY x"] {
            assert!(!proves_not_executed(&reply(text)), "{text}");
        }
    }

    #[test]
    fn the_pause_grows_by_fifty_milliseconds_up_to_two_seconds() {
        assert_eq!(backoff(1), Duration::from_millis(50));
        assert_eq!(backoff(3), Duration::from_millis(150));
        assert_eq!(backoff(1_000), Duration::from_secs(2));
    }
}
