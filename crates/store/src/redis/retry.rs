//! When a request may be sent again.
//!
//! Always true:
//! 1. A request is tried at most [`TRIES`] times, all tries within one time-out.
//! 2. It is sent again only if that cannot do harm: nothing was executed, it only reads, or the caller said so.

use std::time::Duration;

use redis::{Arg, Cmd, RedisError, RedisResult, ServerError, Value};

use crate::fault::code;

/// Tries of one request.
pub(crate) const TRIES: u32 = 3;
const STEP: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// The pause before the next attempt.
pub(crate) fn back_off(attempt: u32) -> Duration {
    (STEP * attempt).min(LONGEST)
}

/// An error of one try.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: RedisError,
    /// Whether the request may have reached the server.
    pub(crate) sent: bool,
    /// Whether trying again is pointless for now (the breaker is open).
    pub(crate) hopeless: bool,
}

impl Failed {
    pub(crate) fn sent(error: RedisError) -> Self {
        Self {
            error,
            sent: true,
            hopeless: false,
        }
    }

    pub(crate) fn unsent(error: RedisError) -> Self {
        Self {
            error,
            sent: false,
            hopeless: false,
        }
    }

    pub(crate) fn refused(error: RedisError) -> Self {
        Self {
            error,
            sent: false,
            hopeless: true,
        }
    }

    /// Whether the request can be tried again.
    pub(crate) fn may_repeat(&self, harmless: impl FnOnce() -> bool) -> bool {
        if self.hopeless {
            return false;
        }
        if !self.sent || nothing_executed_in(&self.error) {
            return true;
        }
        self.error.is_io_error() && harmless()
    }
}

/// Whether this reply proves that its command was not executed, and may be executed soon or elsewhere.
pub(crate) fn nothing_executed(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if passing(error))
}

fn nothing_executed_in(error: &RedisError) -> bool {
    // A transaction refused while it was queued: as a whole, and every refusal must be a passing one.
    let errors = error.clone().into_server_errors().unwrap_or_default();
    !errors.is_empty() && errors.iter().all(|(_, error)| passing(error))
}

fn passing(error: &ServerError) -> bool {
    matches!(
        code(error),
        "LOADING" | "CLUSTERDOWN" | "TRYAGAIN" | "MASTERDOWN" | "READONLY" | "MOVED" | "ASK"
    )
}

/// The code of the error that a reply or a transaction ended with.
pub(crate) fn has_code(result: &RedisResult<&[Value]>, wanted: &str) -> bool {
    match result {
        Ok(values) => values
            .iter()
            .any(|value| matches!(value, Value::ServerError(error) if code(error) == wanted)),
        Err(error) => {
            let errors = error.clone().into_server_errors().unwrap_or_default();
            errors.iter().any(|(_, error)| code(error) == wanted)
        }
    }
}

/// Whether a command changes nothing, so that repeating it is harmless.
pub(crate) fn only_reads(cmd: &Cmd) -> bool {
    let mut args = cmd.args_iter();
    let Some(Arg::Simple(name)) = args.next() else {
        return false;
    };
    let name = String::from_utf8_lossy(name).to_ascii_uppercase();
    if READS.binary_search(&name.as_str()).is_ok() {
        return true;
    }
    let Some(Arg::Simple(word)) = args.next() else {
        return false;
    };
    let word = String::from_utf8_lossy(word).to_ascii_uppercase();
    match name.as_str() {
        "SCRIPT" => word == "LOAD" || word == "EXISTS",
        "CONFIG" => word == "GET",
        "MEMORY" => word == "USAGE",
        "PUBSUB" | "OBJECT" | "COMMAND" => true,
        _ => false,
    }
}

/// Commands that only read. Sorted.
const READS: [&str; 71] = [
    "BITCOUNT",
    "BITPOS",
    "DBSIZE",
    "DUMP",
    "ECHO",
    "EVALSHA_RO",
    "EVAL_RO",
    "EXISTS",
    "EXPIRETIME",
    "GEODIST",
    "GEOHASH",
    "GEOPOS",
    "GEOSEARCH",
    "GET",
    "GETBIT",
    "GETRANGE",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HRANDFIELD",
    "HSCAN",
    "HSTRLEN",
    "HVALS",
    "INFO",
    "KEYS",
    "LASTSAVE",
    "LINDEX",
    "LLEN",
    "LPOS",
    "LRANGE",
    "MGET",
    "PEXPIRETIME",
    "PING",
    "PTTL",
    "RANDOMKEY",
    "ROLE",
    "SCAN",
    "SCARD",
    "SDIFF",
    "SINTER",
    "SINTERCARD",
    "SISMEMBER",
    "SMEMBERS",
    "SMISMEMBER",
    "SRANDMEMBER",
    "SSCAN",
    "STRLEN",
    "SUBSTR",
    "SUNION",
    "TIME",
    "TTL",
    "TYPE",
    "ZCARD",
    "ZCOUNT",
    "ZDIFF",
    "ZINTER",
    "ZINTERCARD",
    "ZMSCORE",
    "ZRANDMEMBER",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREVRANGE",
    "ZREVRANGEBYSCORE",
    "ZREVRANK",
    "ZSCAN",
    "ZSCORE",
    "ZUNION",
];

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
    fn the_table_of_reads_is_sorted() {
        assert!(READS.is_sorted());
    }

    #[test]
    fn only_commands_that_change_nothing_count_as_reads() {
        for read in [
            "GET k",
            "get k",
            "SCRIPT EXISTS x",
            "CONFIG GET save",
            "TIME",
        ] {
            let cmd = read.split(' ').collect::<Vec<_>>();
            assert!(only_reads(redis::cmd(cmd[0]).arg(&cmd[1..])), "{read}");
        }
        for write in [
            "SET k v",
            "EVALSHA x 0",
            "GETDEL k",
            "SCRIPT FLUSH",
            "CONFIG SET a b",
            "PUBLISH a b",
        ] {
            let cmd = write.split(' ').collect::<Vec<_>>();
            assert!(!only_reads(redis::cmd(cmd[0]).arg(&cmd[1..])), "{write}");
        }
    }

    #[test]
    fn a_lost_reply_is_repeated_only_if_harmless_and_an_unsent_request_always() {
        assert!(!Failed::sent(io()).may_repeat(|| false));
        assert!(Failed::sent(io()).may_repeat(|| true));
        assert!(Failed::unsent(io()).may_repeat(|| false));
        assert!(!Failed::refused(io()).may_repeat(|| true));
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
            assert!(nothing_executed(&reply(text)), "{text}");
            let error = reply(text).extract_error().expect_err("an error");
            assert!(Failed::sent(error).may_repeat(|| false), "{text}");
        }
        for text in ["ERR x", "OOM x", "NOSCRIPT x", "WRONGTYPE x", "BUSY x"] {
            assert!(!nothing_executed(&reply(text)), "{text}");
        }
    }

    #[test]
    fn the_pause_grows_by_fifty_milliseconds_up_to_two_seconds() {
        assert_eq!(back_off(1), Duration::from_millis(50));
        assert_eq!(back_off(3), Duration::from_millis(150));
        assert_eq!(back_off(1_000), Duration::from_secs(2));
    }
}
