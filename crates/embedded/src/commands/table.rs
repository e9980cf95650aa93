//! The command table: one line per command. To add a command, write its function and add its line.

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

use self::CommandEffect::{Connection, MayReplicate, ReadOnly, Write};
use self::CommandHandler::{Function, Script};
use super::args::Args;
use super::keys::TimeOrigin::{FromEpoch, FromNow};
use super::zsets::ZrangeBy::{Lex, Rank, Score};
use super::zsets::ZsetOperation::{Diff, Inter, Union};
use super::{hashes, keys, lists, pubsub, server, sets, strings, zsets};
use crate::db::Db;
use crate::error::CommandResult;
use crate::numbers::parse_int_arg;
use crate::pubsub::SubscriptionKind::{Channel, Shard};
use crate::values::ListEnd::{Head, Tail};
use crate::values::{Hash, List, Set, ZSet};

/// Positions of the keys among the arguments of a command.
#[derive(Debug, Clone, Copy)]
enum CommandKeySpec {
    /// The command has no keys.
    None,
    /// Every `step`th argument from `first` to `last`. A negative `last` counts from the end.
    Range(usize, isize, usize),
    /// The argument at this position is the number of keys, and the keys follow it.
    NumKeys(usize),
    /// Argument 1 is a key. Argument 2 is the number of further keys, which follow it.
    DestinationAndNumKeys,
}

/// Runs a command.
#[derive(Clone, Copy)]
pub enum CommandHandler {
    /// A function on the database.
    Function(fn(&mut Db, Args<'_>) -> CommandResult),
    /// The script engine.
    Script,
    /// The client's connection, because the command depends on its state (`MULTI`, `SUBSCRIBE`). The engine rejects it.
    Connection,
}

/// Data that a command may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEffect {
    /// Nothing, so repeating the command has no effect.
    ReadOnly,
    /// Keys. Such a command is rejected while the disk cannot be written.
    Write,
    /// No keys of its own, but it publishes a message or runs a script (`may_replicate` in Redis).
    MayReplicate,
    /// The state of the client's connection.
    Connection,
}

/// Description of one command.
pub struct CommandSpec {
    /// Name in capitals.
    pub name: &'static str,
    /// Number of arguments, the name included. A negative number is a minimum.
    arity: isize,
    /// Data that the command may change.
    pub effect: CommandEffect,
    /// Redis version that introduced the command.
    pub since: &'static str,
    keys: CommandKeySpec,
    /// Runs the command.
    pub handler: CommandHandler,
}

impl CommandSpec {
    /// Whether the command accepts this many arguments, its name included.
    pub fn accepts_arg_count(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs();
        if self.arity < 0 {
            count >= wanted
        } else {
            count == wanted
        }
    }

    /// Keys among the arguments. An invalid key count yields no keys; the command itself rejects it.
    pub fn extract_keys<'a>(&self, args: Args<'a>) -> Vec<&'a [u8]> {
        let counted = |at: usize| {
            let first = at + 1;
            let count = args
                .get(at)
                .and_then(|arg| parse_int_arg(arg).ok())
                .and_then(|n| usize::try_from(n).ok());
            let end = count
                .and_then(|count| count.checked_add(first))
                .unwrap_or(first);
            args.get(first..end).unwrap_or_default()
        };
        match self.keys {
            CommandKeySpec::None => Vec::new(),
            CommandKeySpec::Range(first, last, step) => {
                let end = if last < 0 {
                    args.len().saturating_add_signed(last)
                } else {
                    last.unsigned_abs()
                };
                (first..=end)
                    .step_by(step)
                    .filter_map(|at| args.get(at).copied())
                    .collect()
            }
            CommandKeySpec::NumKeys(at) => counted(at).to_vec(),
            CommandKeySpec::DestinationAndNumKeys => {
                args.get(1).into_iter().chain(counted(2)).copied().collect()
            }
        }
    }
}

/// Finds a command by its name, in any case.
pub fn find_command(name: &[u8]) -> Option<&'static CommandSpec> {
    const MAX_NAME_LEN: usize = 24;
    static BY_NAME: LazyLock<HashMap<&'static [u8], &'static CommandSpec, RandomState>> =
        LazyLock::new(|| {
            COMMAND_TABLE
                .iter()
                .map(|command| (command.name.as_bytes(), command))
                .collect()
        });
    let mut uppercase = [0; MAX_NAME_LEN];
    let uppercase = uppercase.get_mut(..name.len())?;
    uppercase.copy_from_slice(name);
    uppercase.make_ascii_uppercase();
    BY_NAME.get(&*uppercase).copied()
}

/// Whether a version such as `7.0.0` is after 6.2.
pub fn is_newer_than_6_2(version: &str) -> bool {
    let mut parts = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) > (6, 2)
}

const NO_KEYS: CommandKeySpec = CommandKeySpec::None;
const ONE_KEY: CommandKeySpec = CommandKeySpec::Range(1, 1, 1);
const TWO_KEYS: CommandKeySpec = CommandKeySpec::Range(1, 2, 1);
const ALL_KEYS: CommandKeySpec = CommandKeySpec::Range(1, -1, 1);
const KEY_VALUE_PAIRS: CommandKeySpec = CommandKeySpec::Range(1, -1, 2);
const NUMKEYS: CommandKeySpec = CommandKeySpec::NumKeys(1);
const SCRIPT_KEYS: CommandKeySpec = CommandKeySpec::NumKeys(2);
const STORE_NUMKEYS: CommandKeySpec = CommandKeySpec::DestinationAndNumKeys;

const fn command(
    name: &'static str,
    arity: isize,
    effect: CommandEffect,
    since: &'static str,
    keys: CommandKeySpec,
    handler: CommandHandler,
) -> CommandSpec {
    CommandSpec {
        name,
        arity,
        effect,
        since,
        keys,
        handler,
    }
}

/// All commands, by data type.
#[rustfmt::skip]
static COMMAND_TABLE: &[CommandSpec] = &[
    // Strings.
    command("GET", 2, ReadOnly, "1.0.0", ONE_KEY, Function(strings::get)),
    command("SET", -3, Write, "1.0.0", ONE_KEY, Function(strings::set)),
    command("SETNX", 3, Write, "1.0.0", ONE_KEY, Function(strings::setnx)),
    command("SETEX", 4, Write, "2.0.0", ONE_KEY, Function(|db, a| strings::setex(db, a, b"EX"))),
    command("PSETEX", 4, Write, "2.6.0", ONE_KEY, Function(|db, a| strings::setex(db, a, b"PX"))),
    command("GETSET", 3, Write, "1.0.0", ONE_KEY, Function(strings::getset)),
    command("GETDEL", 2, Write, "6.2.0", ONE_KEY, Function(strings::getdel)),
    command("GETEX", -2, Write, "6.2.0", ONE_KEY, Function(strings::getex)),
    command("MGET", -2, ReadOnly, "1.0.0", ALL_KEYS, Function(strings::mget)),
    command("MSET", -3, Write, "1.0.1", KEY_VALUE_PAIRS, Function(strings::mset)),
    command("MSETNX", -3, Write, "1.0.1", KEY_VALUE_PAIRS, Function(strings::msetnx)),
    command("INCR", 2, Write, "1.0.0", ONE_KEY, Function(|db, a| strings::incr_decr(db, a, 1))),
    command("DECR", 2, Write, "1.0.0", ONE_KEY, Function(|db, a| strings::incr_decr(db, a, -1))),
    command("INCRBY", 3, Write, "1.0.0", ONE_KEY, Function(strings::incrby)),
    command("DECRBY", 3, Write, "1.0.0", ONE_KEY, Function(strings::decrby)),
    command("INCRBYFLOAT", 3, Write, "2.6.0", ONE_KEY, Function(strings::incrbyfloat)),
    command("APPEND", 3, Write, "2.0.0", ONE_KEY, Function(strings::append)),
    command("STRLEN", 2, ReadOnly, "2.2.0", ONE_KEY, Function(strings::strlen)),
    command("GETRANGE", 4, ReadOnly, "2.4.0", ONE_KEY, Function(strings::getrange)),
    command("SUBSTR", 4, ReadOnly, "1.0.0", ONE_KEY, Function(strings::getrange)),
    command("SETRANGE", 4, Write, "2.2.0", ONE_KEY, Function(strings::setrange)),
    // Keys.
    command("DEL", -2, Write, "1.0.0", ALL_KEYS, Function(keys::del)),
    command("UNLINK", -2, Write, "4.0.0", ALL_KEYS, Function(keys::del)),
    command("EXISTS", -2, ReadOnly, "1.0.0", ALL_KEYS, Function(keys::exists)),
    command("TOUCH", -2, ReadOnly, "3.2.1", ALL_KEYS, Function(keys::exists)),
    command("TYPE", 2, ReadOnly, "1.0.0", ONE_KEY, Function(keys::type_of_key)),
    command("EXPIRE", -3, Write, "1.0.0", ONE_KEY, Function(|db, a| keys::expire(db, a, 1_000, FromNow))),
    command("PEXPIRE", -3, Write, "2.6.0", ONE_KEY, Function(|db, a| keys::expire(db, a, 1, FromNow))),
    command("EXPIREAT", -3, Write, "1.2.0", ONE_KEY, Function(|db, a| keys::expire(db, a, 1_000, FromEpoch))),
    command("PEXPIREAT", -3, Write, "2.6.0", ONE_KEY, Function(|db, a| keys::expire(db, a, 1, FromEpoch))),
    command("TTL", 2, ReadOnly, "1.0.0", ONE_KEY, Function(|db, a| keys::ttl(db, a, 1_000, FromNow))),
    command("PTTL", 2, ReadOnly, "2.6.0", ONE_KEY, Function(|db, a| keys::ttl(db, a, 1, FromNow))),
    command("EXPIRETIME", 2, ReadOnly, "7.0.0", ONE_KEY, Function(|db, a| keys::ttl(db, a, 1_000, FromEpoch))),
    command("PEXPIRETIME", 2, ReadOnly, "7.0.0", ONE_KEY, Function(|db, a| keys::ttl(db, a, 1, FromEpoch))),
    command("PERSIST", 2, Write, "2.2.0", ONE_KEY, Function(keys::persist)),
    command("KEYS", 2, ReadOnly, "1.0.0", NO_KEYS, Function(keys::keys)),
    command("SCAN", -2, ReadOnly, "2.8.0", NO_KEYS, Function(keys::scan)),
    command("RANDOMKEY", 1, ReadOnly, "1.0.0", NO_KEYS, Function(keys::randomkey)),
    command("DBSIZE", 1, ReadOnly, "1.0.0", NO_KEYS, Function(keys::dbsize)),
    command("FLUSHALL", -1, Write, "1.0.0", NO_KEYS, Function(keys::flushall)),
    command("FLUSHDB", -1, Write, "1.0.0", NO_KEYS, Function(keys::flushall)),
    command("RENAME", 3, Write, "1.0.0", TWO_KEYS, Function(keys::rename)),
    command("RENAMENX", 3, Write, "1.0.0", TWO_KEYS, Function(keys::renamenx)),
    command("COPY", -3, Write, "6.2.0", TWO_KEYS, Function(keys::copy)),
    // Hashes.
    command("HSET", -4, Write, "2.0.0", ONE_KEY, Function(hashes::hset)),
    command("HMSET", -4, Write, "2.0.0", ONE_KEY, Function(hashes::hmset)),
    command("HSETNX", 4, Write, "2.0.0", ONE_KEY, Function(hashes::hsetnx)),
    command("HGET", 3, ReadOnly, "2.0.0", ONE_KEY, Function(hashes::hget)),
    command("HMGET", -3, ReadOnly, "2.0.0", ONE_KEY, Function(hashes::hmget)),
    command("HGETALL", 2, ReadOnly, "2.0.0", ONE_KEY, Function(|db, a| hashes::hgetall(db, a, true, true))),
    command("HKEYS", 2, ReadOnly, "2.0.0", ONE_KEY, Function(|db, a| hashes::hgetall(db, a, true, false))),
    command("HVALS", 2, ReadOnly, "2.0.0", ONE_KEY, Function(|db, a| hashes::hgetall(db, a, false, true))),
    command("HDEL", -3, Write, "2.0.0", ONE_KEY, Function(hashes::hdel)),
    command("HLEN", 2, ReadOnly, "2.0.0", ONE_KEY, Function(keys::collection_len::<Hash>)),
    command("HEXISTS", 3, ReadOnly, "2.0.0", ONE_KEY, Function(hashes::hexists)),
    command("HSTRLEN", 3, ReadOnly, "3.2.0", ONE_KEY, Function(hashes::hstrlen)),
    command("HINCRBY", 4, Write, "2.0.0", ONE_KEY, Function(hashes::hincrby)),
    command("HINCRBYFLOAT", 4, Write, "2.6.0", ONE_KEY, Function(hashes::hincrbyfloat)),
    command("HRANDFIELD", -2, ReadOnly, "6.2.0", ONE_KEY, Function(hashes::hrandfield)),
    command("HSCAN", -3, ReadOnly, "2.8.0", ONE_KEY, Function(hashes::hscan)),
    // Lists.
    command("LPUSH", -3, Write, "1.0.0", ONE_KEY, Function(|db, a| lists::push(db, a, Head))),
    command("RPUSH", -3, Write, "1.0.0", ONE_KEY, Function(|db, a| lists::push(db, a, Tail))),
    command("LPUSHX", -3, Write, "2.2.0", ONE_KEY, Function(|db, a| lists::push_existing(db, a, Head))),
    command("RPUSHX", -3, Write, "2.2.0", ONE_KEY, Function(|db, a| lists::push_existing(db, a, Tail))),
    command("LPOP", -2, Write, "1.0.0", ONE_KEY, Function(|db, a| lists::pop(db, a, Head))),
    command("RPOP", -2, Write, "1.0.0", ONE_KEY, Function(|db, a| lists::pop(db, a, Tail))),
    command("LMPOP", -4, Write, "7.0.0", NUMKEYS, Function(lists::lmpop)),
    command("LLEN", 2, ReadOnly, "1.0.0", ONE_KEY, Function(keys::collection_len::<List>)),
    command("LRANGE", 4, ReadOnly, "1.0.0", ONE_KEY, Function(lists::lrange)),
    command("LINDEX", 3, ReadOnly, "1.0.0", ONE_KEY, Function(lists::lindex)),
    command("LSET", 4, Write, "1.0.0", ONE_KEY, Function(lists::lset)),
    command("LINSERT", 5, Write, "2.2.0", ONE_KEY, Function(lists::linsert)),
    command("LREM", 4, Write, "1.0.0", ONE_KEY, Function(lists::lrem)),
    command("LTRIM", 4, Write, "1.0.0", ONE_KEY, Function(lists::ltrim)),
    command("LPOS", -3, ReadOnly, "6.0.6", ONE_KEY, Function(lists::lpos)),
    command("LMOVE", 5, Write, "6.2.0", TWO_KEYS, Function(lists::lmove)),
    command("RPOPLPUSH", 3, Write, "1.2.0", TWO_KEYS, Function(|db, a| lists::move_item(db, a, Tail, Head))),
    // Sets.
    command("SADD", -3, Write, "1.0.0", ONE_KEY, Function(sets::sadd)),
    command("SREM", -3, Write, "1.0.0", ONE_KEY, Function(sets::srem)),
    command("SISMEMBER", 3, ReadOnly, "1.0.0", ONE_KEY, Function(sets::sismember)),
    command("SMISMEMBER", -3, ReadOnly, "6.2.0", ONE_KEY, Function(sets::smismember)),
    command("SCARD", 2, ReadOnly, "1.0.0", ONE_KEY, Function(keys::collection_len::<Set>)),
    command("SMEMBERS", 2, ReadOnly, "1.0.0", ONE_KEY, Function(sets::smembers)),
    command("SMOVE", 4, Write, "1.0.0", TWO_KEYS, Function(sets::smove)),
    command("SPOP", -2, Write, "1.0.0", ONE_KEY, Function(sets::spop)),
    command("SRANDMEMBER", -2, ReadOnly, "1.0.0", ONE_KEY, Function(sets::srandmember)),
    command("SINTER", -2, ReadOnly, "1.0.0", ALL_KEYS, Function(|db, a| sets::reply_combined(db, a, sets::intersection))),
    command("SUNION", -2, ReadOnly, "1.0.0", ALL_KEYS, Function(|db, a| sets::reply_combined(db, a, sets::union))),
    command("SDIFF", -2, ReadOnly, "1.0.0", ALL_KEYS, Function(|db, a| sets::reply_combined(db, a, sets::difference))),
    command("SINTERSTORE", -3, Write, "1.0.0", ALL_KEYS, Function(|db, a| sets::store_combined(db, a, sets::intersection))),
    command("SUNIONSTORE", -3, Write, "1.0.0", ALL_KEYS, Function(|db, a| sets::store_combined(db, a, sets::union))),
    command("SDIFFSTORE", -3, Write, "1.0.0", ALL_KEYS, Function(|db, a| sets::store_combined(db, a, sets::difference))),
    command("SINTERCARD", -3, ReadOnly, "7.0.0", NUMKEYS, Function(sets::sintercard)),
    command("SSCAN", -3, ReadOnly, "2.8.0", ONE_KEY, Function(sets::sscan)),
    // Sorted sets.
    command("ZADD", -4, Write, "1.2.0", ONE_KEY, Function(|db, a| zsets::zadd(db, a, false))),
    command("ZINCRBY", 4, Write, "1.2.0", ONE_KEY, Function(|db, a| zsets::zadd(db, a, true))),
    command("ZREM", -3, Write, "1.2.0", ONE_KEY, Function(zsets::zrem)),
    command("ZSCORE", 3, ReadOnly, "1.2.0", ONE_KEY, Function(zsets::zscore)),
    command("ZMSCORE", -3, ReadOnly, "6.2.0", ONE_KEY, Function(zsets::zmscore)),
    command("ZCARD", 2, ReadOnly, "1.2.0", ONE_KEY, Function(keys::collection_len::<ZSet>)),
    command("ZRANK", 3, ReadOnly, "2.0.0", ONE_KEY, Function(|db, a| zsets::zrank(db, a, false))),
    command("ZREVRANK", 3, ReadOnly, "2.0.0", ONE_KEY, Function(|db, a| zsets::zrank(db, a, true))),
    command("ZPOPMIN", -2, Write, "5.0.0", ONE_KEY, Function(|db, a| zsets::zpop(db, a, true))),
    command("ZPOPMAX", -2, Write, "5.0.0", ONE_KEY, Function(|db, a| zsets::zpop(db, a, false))),
    command("ZMPOP", -4, Write, "7.0.0", NUMKEYS, Function(zsets::zmpop)),
    command("ZRANDMEMBER", -2, ReadOnly, "6.2.0", ONE_KEY, Function(zsets::zrandmember)),
    command("ZSCAN", -3, ReadOnly, "2.8.0", ONE_KEY, Function(zsets::zscan)),
    command("ZCOUNT", 4, ReadOnly, "2.0.0", ONE_KEY, Function(|db, a| zsets::zcount(db, a, Score))),
    command("ZLEXCOUNT", 4, ReadOnly, "2.8.9", ONE_KEY, Function(|db, a| zsets::zcount(db, a, Lex))),
    command("ZRANGE", -4, ReadOnly, "1.2.0", ONE_KEY, Function(|db, a| zsets::zrange(db, a, None, None))),
    command("ZRANGESTORE", -5, Write, "6.2.0", TWO_KEYS, Function(zsets::zrangestore)),
    command("ZREVRANGE", -4, ReadOnly, "1.2.0", ONE_KEY, Function(|db, a| zsets::zrange(db, a, Some(Rank), Some(true)))),
    command("ZRANGEBYSCORE", -4, ReadOnly, "1.0.5", ONE_KEY, Function(|db, a| zsets::zrange(db, a, Some(Score), Some(false)))),
    command("ZREVRANGEBYSCORE", -4, ReadOnly, "2.2.0", ONE_KEY, Function(|db, a| zsets::zrange(db, a, Some(Score), Some(true)))),
    command("ZRANGEBYLEX", -4, ReadOnly, "2.8.9", ONE_KEY, Function(|db, a| zsets::zrange(db, a, Some(Lex), Some(false)))),
    command("ZREVRANGEBYLEX", -4, ReadOnly, "2.8.9", ONE_KEY, Function(|db, a| zsets::zrange(db, a, Some(Lex), Some(true)))),
    command("ZREMRANGEBYRANK", 4, Write, "2.0.0", ONE_KEY, Function(|db, a| zsets::zremrange(db, a, Rank))),
    command("ZREMRANGEBYSCORE", 4, Write, "1.2.0", ONE_KEY, Function(|db, a| zsets::zremrange(db, a, Score))),
    command("ZREMRANGEBYLEX", 4, Write, "2.8.9", ONE_KEY, Function(|db, a| zsets::zremrange(db, a, Lex))),
    command("ZUNION", -3, ReadOnly, "6.2.0", NUMKEYS, Function(|db, a| zsets::reply_combined(db, a, Union))),
    command("ZINTER", -3, ReadOnly, "6.2.0", NUMKEYS, Function(|db, a| zsets::reply_combined(db, a, Inter))),
    command("ZDIFF", -3, ReadOnly, "6.2.0", NUMKEYS, Function(|db, a| zsets::reply_combined(db, a, Diff))),
    command("ZINTERCARD", -3, ReadOnly, "7.0.0", NUMKEYS, Function(zsets::zintercard)),
    command("ZUNIONSTORE", -4, Write, "2.0.0", STORE_NUMKEYS, Function(|db, a| zsets::store_combined(db, a, Union))),
    command("ZINTERSTORE", -4, Write, "2.0.0", STORE_NUMKEYS, Function(|db, a| zsets::store_combined(db, a, Inter))),
    command("ZDIFFSTORE", -4, Write, "6.2.0", STORE_NUMKEYS, Function(|db, a| zsets::store_combined(db, a, Diff))),
    // Publish and subscribe.
    command("PUBLISH", 3, MayReplicate, "2.0.0", NO_KEYS, Function(|db, a| pubsub::publish(db, a, Channel))),
    command("SPUBLISH", 3, MayReplicate, "7.0.0", NO_KEYS, Function(|db, a| pubsub::publish(db, a, Shard))),
    command("PUBSUB", -2, ReadOnly, "2.8.0", NO_KEYS, Function(pubsub::pubsub)),
    // The server.
    command("PING", -1, ReadOnly, "1.0.0", NO_KEYS, Function(server::ping)),
    command("ECHO", 2, ReadOnly, "1.0.0", NO_KEYS, Function(server::echo)),
    command("SELECT", 2, Connection, "1.0.0", NO_KEYS, Function(server::select)),
    command("TIME", 1, ReadOnly, "2.6.0", NO_KEYS, Function(server::time)),
    command("INFO", -1, ReadOnly, "1.0.0", NO_KEYS, Function(server::info)),
    // Scripts.
    command("EVAL", -3, MayReplicate, "2.6.0", SCRIPT_KEYS, Script),
    command("EVALSHA", -3, MayReplicate, "2.6.0", SCRIPT_KEYS, Script),
    command("EVAL_RO", -3, ReadOnly, "7.0.0", SCRIPT_KEYS, Script),
    command("EVALSHA_RO", -3, ReadOnly, "7.0.0", SCRIPT_KEYS, Script),
    command("SCRIPT", -2, MayReplicate, "2.6.0", NO_KEYS, Script),
    // State of a connection.
    command("MULTI", 1, Connection, "1.2.0", NO_KEYS, CommandHandler::Connection),
    command("EXEC", 1, Connection, "1.2.0", NO_KEYS, CommandHandler::Connection),
    command("DISCARD", 1, Connection, "2.0.0", NO_KEYS, CommandHandler::Connection),
    command("WATCH", -2, Connection, "2.2.0", NO_KEYS, CommandHandler::Connection),
    command("UNWATCH", 1, Connection, "2.2.0", NO_KEYS, CommandHandler::Connection),
    command("SUBSCRIBE", -2, Connection, "2.0.0", NO_KEYS, CommandHandler::Connection),
    command("UNSUBSCRIBE", -1, Connection, "2.0.0", NO_KEYS, CommandHandler::Connection),
    command("PSUBSCRIBE", -2, Connection, "2.0.0", NO_KEYS, CommandHandler::Connection),
    command("PUNSUBSCRIBE", -1, Connection, "2.0.0", NO_KEYS, CommandHandler::Connection),
    command("SSUBSCRIBE", -2, Connection, "7.0.0", NO_KEYS, CommandHandler::Connection),
    command("SUNSUBSCRIBE", -1, Connection, "7.0.0", NO_KEYS, CommandHandler::Connection),
];
