//! Native scripts: Rust functions that the engine runs in place of a Lua script.
//!
//! Invariants:
//! 1. Only `EVALSHA` runs a native script. `EVAL`, `EVAL_RO` and `EVALSHA_RO` run the Lua source, so that tests can
//!    compare both. Either runs under the engine's mutex, and no other command runs in between.
//! 2. A native script uses only the keys in its `KEYS`. Strict mode rejects other keys.
//! 3. A native script reads and writes through `Db`, so expiry, type checks and journal work as for a command. Lists
//!    that it makes memory-only are not in the journal.

use redis::Value;

use crate::commands::args::{Args, to_error_text};
pub use crate::commands::reply::array;
use crate::db::{Db, ExpireUpdate};
use crate::engine::state::{call_command, lookup_command};
pub use crate::error::CommandError;
use crate::error::CommandResult;
use crate::numbers::format_int;
use crate::pubsub::SubscriptionKind;
pub use crate::values::StringBytes;
use crate::values::{Hash, SharedBytes, StringValue};

/// A native script. It returns `None` if the Lua script has to run instead; it must not have written anything then.
pub type NativeScript = fn(&mut NativeScriptCall<'_>) -> NativeScriptResult;

/// Result of a native script.
pub type NativeScriptResult = Result<Option<Value>, CommandError>;

/// One call of a native script: its keys, its arguments and the database.
pub struct NativeScriptCall<'a> {
    db: &'a mut Db,
    keys: Args<'a>,
    args: Args<'a>,
}

impl<'a> NativeScriptCall<'a> {
    pub(crate) fn new(db: &'a mut Db, keys: Args<'a>, args: Args<'a>) -> Self {
        Self { db, keys, args }
    }

    /// Keys of the call (`KEYS` in Lua).
    pub fn keys(&self) -> &'a [&'a [u8]] {
        self.keys
    }

    /// Arguments of the call (`ARGV` in Lua).
    pub fn args(&self) -> &'a [&'a [u8]] {
        self.args
    }

    /// The next `N` arguments from position `at` (0-based). Returns an error if there are fewer.
    pub fn args_at<const N: usize>(&self, at: usize) -> Result<[&'a [u8]; N], CommandError> {
        let taken = self.args.get(at..).and_then(|rest| rest.first_chunk());
        taken.copied().ok_or(TOO_FEW_ARGUMENTS)
    }

    /// The next `N` keys from position `at` (0-based). Returns an error if there are fewer.
    pub fn keys_at<const N: usize>(&self, at: usize) -> Result<[&'a [u8]; N], CommandError> {
        let taken = self.keys.get(at..).and_then(|rest| rest.first_chunk());
        taken.copied().ok_or(TOO_FEW_ARGUMENTS)
    }

    /// `GET`.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<StringBytes<'_>>, CommandError> {
        self.check_declared(key)?;
        Ok(self.db.get_string(key)?.map(StringValue::to_bytes))
    }

    /// `SET`, with a TTL in ms or without one.
    pub fn set(&mut self, key: &[u8], value: &[u8], ttl: Option<u64>) -> Result<(), CommandError> {
        self.check_write(key)?;
        let expiry = ttl.map_or(ExpireUpdate::Clear, |ttl| {
            ExpireUpdate::At(self.db.now() + ttl)
        });
        self.db.set_string(key, StringValue::from(value), expiry);
        Ok(())
    }

    /// `HMGET`.
    pub fn hmget<const N: usize>(
        &mut self,
        key: &[u8],
        fields: [&[u8]; N],
    ) -> Result<[Option<SharedBytes>; N], CommandError> {
        self.check_declared(key)?;
        let hash = self.db.get_collection::<Hash>(key)?;
        Ok(fields.map(|field| hash.and_then(|hash| hash.get(field)).cloned()))
    }

    /// `HGETALL`.
    pub fn hgetall(&mut self, key: &[u8]) -> Result<Vec<(SharedBytes, SharedBytes)>, CommandError> {
        self.check_declared(key)?;
        let hash = self.db.get_collection::<Hash>(key)?;
        let fields = hash.into_iter().flat_map(Hash::iter);
        Ok(fields
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect())
    }

    /// `HSET`.
    pub fn hset(&mut self, key: &[u8], fields: &[(&[u8], &[u8])]) -> Result<(), CommandError> {
        self.check_write(key)?;
        self.db.update_or_create::<Hash, _>(key, |hash| {
            for (field, value) in fields {
                hash.insert(field, value);
            }
            Ok(())
        })
    }

    /// `DEL`. Returns whether the key existed.
    pub fn del(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        self.check_write(key)?;
        Ok(self.db.delete_key(key))
    }

    /// Makes a list memory-only, which saves two row writes for each item that is added and removed. Use it only for
    /// lists that can be rebuilt: the list is lost when the engine ends. Has no effect if the key holds no list.
    pub fn set_memory_only(&mut self, list: &[u8]) -> Result<(), CommandError> {
        self.check_write(list)?;
        self.db.set_memory_only(list);
        Ok(())
    }

    /// `EXISTS`.
    pub fn exists(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        self.check_declared(key)?;
        Ok(self.db.contains(key))
    }

    /// `PEXPIRE` with a TTL in ms. Returns whether the key existed.
    pub fn pexpire(&mut self, key: &[u8], ttl: u64) -> Result<bool, CommandError> {
        self.check_write(key)?;
        let deadline = self.db.now() + ttl;
        Ok(self.db.set_deadline(key, Some(deadline)))
    }

    /// `PTTL` in ms: -2 if the key does not exist, -1 if it has no deadline.
    pub fn pttl(&mut self, key: &[u8]) -> Result<i64, CommandError> {
        self.check_declared(key)?;
        let now = self.db.now();
        let remaining = |deadline: u64| deadline.saturating_sub(now).cast_signed();
        Ok(match self.db.entry(key) {
            None => -2,
            Some(entry) => entry.deadline().map_or(-1, remaining),
        })
    }

    /// `PUBLISH`, or `SPUBLISH` if that is the `command`.
    pub fn publish(&mut self, command: &[u8], channel: &[u8], payload: &[u8]) {
        let kind = match command.eq_ignore_ascii_case(b"SPUBLISH") {
            true => SubscriptionKind::Shard,
            false => SubscriptionKind::Channel,
        };
        self.db.pubsub.publish(kind, channel, payload);
    }

    /// Any other command, with the arguments of `redis.call`. Returns the error that `redis.pcall` would return.
    pub fn call(&mut self, args: &[&[u8]]) -> CommandResult {
        let command = lookup_command(args)?;
        if self.db.is_strict() {
            for key in command.extract_keys(args) {
                self.check_declared(key)?;
            }
        }
        call_command(self.db, command, args)
    }

    fn check_write(&mut self, key: &[u8]) -> Result<(), CommandError> {
        self.check_declared(key)?;
        self.db.check_writable()
    }

    fn check_declared(&self, key: &[u8]) -> Result<(), CommandError> {
        if !self.db.is_strict() || self.keys.contains(&key) {
            return Ok(());
        }
        Err(CommandError::new(format!(
            "ERR a native script used key '{}', which is not among its KEYS; strict mode requires every key in KEYS",
            to_error_text(key)
        )))
    }
}

const TOO_FEW_ARGUMENTS: CommandError =
    CommandError::from_static("ERR a native script was called with too few keys or arguments");

/// Parses text as a decimal number as Lua's `tonumber` does.
pub fn parse_lua_number(text: &[u8]) -> Option<f64> {
    if let Some(small) = parse_short_int(text) {
        return Some(small);
    }
    let text = std::str::from_utf8(text).ok()?.trim_ascii();
    let plain =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
    text.bytes().all(plain).then(|| text.parse().ok()).flatten()
}

/// Parses an argument that must be a number.
pub fn parse_number_arg(arg: &[u8]) -> Result<f64, CommandError> {
    parse_lua_number(arg).ok_or(CommandError::from_static(
        "ERR an argument of a native script is not a number",
    ))
}

/// Parses text that consists of decimal digits only, as the Lua pattern `%d+` matches it.
pub fn parse_digits(text: &[u8]) -> Option<f64> {
    if let Some(small) = parse_short_int(text) {
        return Some(small);
    }
    let all = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = all.then(|| std::str::from_utf8(text).ok()).flatten();
    text.and_then(|text| text.parse().ok())
}

/// Parses at most 15 digits, which a float represents exactly.
fn parse_short_int(text: &[u8]) -> Option<f64> {
    const MAX_FAST_DIGITS: usize = 15;
    if text.is_empty() || text.len() > MAX_FAST_DIGITS {
        return None;
    }
    let add = |sum: u64, byte: &u8| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + u64::from(byte - b'0'))
    };
    let sum = text.iter().try_fold(0, add)?;
    Some(sum as f64)
}

/// Appends a number as Lua's `string.format('%.0f', …)` prints it.
pub fn push_integer(text: &mut Vec<u8>, number: f64) {
    const MAX_EXACT_INT: f64 = (1_u64 << 53) as f64;
    if number.is_sign_negative() || number >= MAX_EXACT_INT || number.fract() != 0.0 {
        text.extend_from_slice(format!("{number:.0}").as_bytes());
        return;
    }
    text.extend_from_slice(&format_int(number as i64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written_as_lua_does() {
        for (text, read) in [
            ("0", Some(0.0)),
            ("12", Some(12.0)),
            ("-3", Some(-3.0)),
            (" 7 ", Some(7.0)),
            ("1.5", Some(1.5)),
            ("9007199254740993", Some(9_007_199_254_740_992.0)),
            ("", None),
            ("x", None),
            ("1|2", None),
            ("inf", None),
        ] {
            assert_eq!(parse_lua_number(text.as_bytes()), read, "{text}");
        }
        assert_eq!(parse_digits(b"-3"), None);
        assert_eq!(parse_digits(b"007"), Some(7.0));
        for (number, written) in [
            (0.0, "0"),
            (1e15, "1000000000000000"),
            (-2.0, "-2"),
            (1e20, "100000000000000000000"),
        ] {
            let mut text = Vec::new();
            push_integer(&mut text, number);
            assert_eq!(text, written.as_bytes());
        }
    }
}
