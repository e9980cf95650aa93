//! The command table: one line per command. To add a command, write its function and add its line.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

use crate::args::Args;
use crate::commands::{hashes, keys, lists, pubsub, server, sets, strings, zsets};
use crate::db::Db;
use crate::error::CommandResult;
use crate::number::parse_int_arg;

/// Positions of the keys among the arguments of a command.
#[derive(Debug, Clone, Copy)]
pub enum CommandKeySpec {
    /// The command has no keys.
    None,
    /// Every `step`th argument from `first` to `last`. A negative `last` counts from the end.
    Range(usize, isize, usize),
    /// The argument at this position is the number of keys, and the keys follow it.
    NumKeys(usize),
    /// Argument 1 is a key. Argument 2 is the number of further keys, which follow it.
    DestinationAndNumKeys,
}

/// Handler of a command.
#[derive(Clone, Copy)]
pub enum CommandHandler {
    /// A function on the database.
    Db(fn(&mut Db, Args<'_>) -> CommandResult),
    /// The script engine.
    Script,
    /// The client's connection, because the command depends on its state (`MULTI`, `SUBSCRIBE`). The engine rejects it.
    Connection,
}

/// Description of one command.
pub struct CommandSpec {
    /// Name in capitals.
    pub name: &'static str,
    /// Number of arguments, the name included. A negative number is a minimum.
    pub arity: isize,
    /// Whether the command may change keys. Such a command is rejected while the disk cannot be written.
    pub is_write: bool,
    /// Redis version that introduced the command.
    pub since: &'static str,
    /// Positions of its keys.
    pub keys: CommandKeySpec,
    /// Handler of the command.
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
        let counted = |at: usize, first: usize| {
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
            CommandKeySpec::NumKeys(at) => counted(at, at + 1).to_vec(),
            CommandKeySpec::DestinationAndNumKeys => args
                .get(1)
                .into_iter()
                .chain(counted(2, 3))
                .copied()
                .collect(),
        }
    }
}

/// Finds a command by its name, in any case.
pub fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    const MAX_NAME_LEN: usize = 24;
    static BY_NAME: LazyLock<HashMap<&'static [u8], &'static CommandSpec, RandomState>> =
        LazyLock::new(|| {
            COMMAND_TABLE
                .iter()
                .map(|command| (command.name.as_bytes(), command))
                .collect()
        });
    let mut capitals = [0; MAX_NAME_LEN];
    let capitals = capitals.get_mut(..name.len())?;
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    BY_NAME.get(&*capitals).copied()
}

/// Whether a version such as `7.0.0` is after 6.2.
pub fn is_newer_than_6_2(version: &str) -> bool {
    let mut parts = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) > (6, 2)
}

const ONE_KEY: CommandKeySpec = CommandKeySpec::Range(1, 1, 1);
const TWO_KEYS: CommandKeySpec = CommandKeySpec::Range(1, 2, 1);
const ALL_KEYS: CommandKeySpec = CommandKeySpec::Range(1, -1, 1);

type CommandFn = fn(&mut Db, Args<'_>) -> CommandResult;

const fn read(
    name: &'static str,
    arity: isize,
    since: &'static str,
    keys: CommandKeySpec,
    run: CommandFn,
) -> CommandSpec {
    CommandSpec {
        name,
        arity,
        is_write: false,
        since,
        keys,
        handler: CommandHandler::Db(run),
    }
}

const fn write(
    name: &'static str,
    arity: isize,
    since: &'static str,
    keys: CommandKeySpec,
    run: CommandFn,
) -> CommandSpec {
    CommandSpec {
        name,
        arity,
        is_write: true,
        since,
        keys,
        handler: CommandHandler::Db(run),
    }
}

const fn script(
    name: &'static str,
    arity: isize,
    since: &'static str,
    keys: CommandKeySpec,
) -> CommandSpec {
    CommandSpec {
        name,
        arity,
        is_write: false,
        since,
        keys,
        handler: CommandHandler::Script,
    }
}

const fn connection(name: &'static str, arity: isize, since: &'static str) -> CommandSpec {
    CommandSpec {
        name,
        arity,
        is_write: false,
        since,
        keys: CommandKeySpec::None,
        handler: CommandHandler::Connection,
    }
}

/// All commands, by data type.
pub static COMMAND_TABLE: &[CommandSpec] = &[
    // Strings.
    read("GET", 2, "1.0.0", ONE_KEY, strings::get),
    write("SET", -3, "1.0.0", ONE_KEY, strings::set),
    write("SETNX", 3, "1.0.0", ONE_KEY, strings::setnx),
    write("SETEX", 4, "2.0.0", ONE_KEY, strings::setex),
    write("PSETEX", 4, "2.6.0", ONE_KEY, strings::psetex),
    write("GETSET", 3, "1.0.0", ONE_KEY, strings::getset),
    write("GETDEL", 2, "6.2.0", ONE_KEY, strings::getdel),
    write("GETEX", -2, "6.2.0", ONE_KEY, strings::getex),
    read("MGET", -2, "1.0.0", ALL_KEYS, strings::mget),
    write(
        "MSET",
        -3,
        "1.0.1",
        CommandKeySpec::Range(1, -1, 2),
        strings::mset,
    ),
    write(
        "MSETNX",
        -3,
        "1.0.1",
        CommandKeySpec::Range(1, -1, 2),
        strings::msetnx,
    ),
    write("INCR", 2, "1.0.0", ONE_KEY, strings::incr),
    write("DECR", 2, "1.0.0", ONE_KEY, strings::decr),
    write("INCRBY", 3, "1.0.0", ONE_KEY, strings::incrby),
    write("DECRBY", 3, "1.0.0", ONE_KEY, strings::decrby),
    write("INCRBYFLOAT", 3, "2.6.0", ONE_KEY, strings::incrbyfloat),
    write("APPEND", 3, "2.0.0", ONE_KEY, strings::append),
    read("STRLEN", 2, "2.2.0", ONE_KEY, strings::strlen),
    read("GETRANGE", 4, "2.4.0", ONE_KEY, strings::getrange),
    read("SUBSTR", 4, "1.0.0", ONE_KEY, strings::getrange),
    write("SETRANGE", 4, "2.2.0", ONE_KEY, strings::setrange),
    // Keys.
    write("DEL", -2, "1.0.0", ALL_KEYS, keys::del),
    write("UNLINK", -2, "4.0.0", ALL_KEYS, keys::del),
    read("EXISTS", -2, "1.0.0", ALL_KEYS, keys::exists),
    read("TOUCH", -2, "3.2.1", ALL_KEYS, keys::exists),
    read("TYPE", 2, "1.0.0", ONE_KEY, keys::type_of_key),
    write("EXPIRE", -3, "1.0.0", ONE_KEY, keys::expire),
    write("PEXPIRE", -3, "2.6.0", ONE_KEY, keys::pexpire),
    write("EXPIREAT", -3, "1.2.0", ONE_KEY, keys::expireat),
    write("PEXPIREAT", -3, "2.6.0", ONE_KEY, keys::pexpireat),
    read("TTL", 2, "1.0.0", ONE_KEY, keys::ttl),
    read("PTTL", 2, "2.6.0", ONE_KEY, keys::pttl),
    read("EXPIRETIME", 2, "7.0.0", ONE_KEY, keys::expiretime),
    read("PEXPIRETIME", 2, "7.0.0", ONE_KEY, keys::pexpiretime),
    write("PERSIST", 2, "2.2.0", ONE_KEY, keys::persist),
    read("KEYS", 2, "1.0.0", CommandKeySpec::None, keys::keys),
    read("SCAN", -2, "2.8.0", CommandKeySpec::None, keys::scan),
    read(
        "RANDOMKEY",
        1,
        "1.0.0",
        CommandKeySpec::None,
        keys::randomkey,
    ),
    read("DBSIZE", 1, "1.0.0", CommandKeySpec::None, keys::dbsize),
    write(
        "FLUSHALL",
        -1,
        "1.0.0",
        CommandKeySpec::None,
        keys::flushall,
    ),
    write("FLUSHDB", -1, "1.0.0", CommandKeySpec::None, keys::flushall),
    write("RENAME", 3, "1.0.0", TWO_KEYS, keys::rename),
    write("RENAMENX", 3, "1.0.0", TWO_KEYS, keys::renamenx),
    write("COPY", -3, "6.2.0", TWO_KEYS, keys::copy),
    // Hashes.
    write("HSET", -4, "2.0.0", ONE_KEY, hashes::hset),
    write("HMSET", -4, "2.0.0", ONE_KEY, hashes::hmset),
    write("HSETNX", 4, "2.0.0", ONE_KEY, hashes::hsetnx),
    read("HGET", 3, "2.0.0", ONE_KEY, hashes::hget),
    read("HMGET", -3, "2.0.0", ONE_KEY, hashes::hmget),
    read("HGETALL", 2, "2.0.0", ONE_KEY, hashes::hgetall),
    read("HKEYS", 2, "2.0.0", ONE_KEY, hashes::hkeys),
    read("HVALS", 2, "2.0.0", ONE_KEY, hashes::hvals),
    write("HDEL", -3, "2.0.0", ONE_KEY, hashes::hdel),
    read("HLEN", 2, "2.0.0", ONE_KEY, hashes::hlen),
    read("HEXISTS", 3, "2.0.0", ONE_KEY, hashes::hexists),
    read("HSTRLEN", 3, "3.2.0", ONE_KEY, hashes::hstrlen),
    write("HINCRBY", 4, "2.0.0", ONE_KEY, hashes::hincrby),
    write("HINCRBYFLOAT", 4, "2.6.0", ONE_KEY, hashes::hincrbyfloat),
    read("HRANDFIELD", -2, "6.2.0", ONE_KEY, hashes::hrandfield),
    read("HSCAN", -3, "2.8.0", ONE_KEY, hashes::hscan),
    // Lists.
    write("LPUSH", -3, "1.0.0", ONE_KEY, lists::lpush),
    write("RPUSH", -3, "1.0.0", ONE_KEY, lists::rpush),
    write("LPUSHX", -3, "2.2.0", ONE_KEY, lists::lpushx),
    write("RPUSHX", -3, "2.2.0", ONE_KEY, lists::rpushx),
    write("LPOP", -2, "1.0.0", ONE_KEY, lists::lpop),
    write("RPOP", -2, "1.0.0", ONE_KEY, lists::rpop),
    write(
        "LMPOP",
        -4,
        "7.0.0",
        CommandKeySpec::NumKeys(1),
        lists::lmpop,
    ),
    read("LLEN", 2, "1.0.0", ONE_KEY, lists::llen),
    read("LRANGE", 4, "1.0.0", ONE_KEY, lists::lrange),
    read("LINDEX", 3, "1.0.0", ONE_KEY, lists::lindex),
    write("LSET", 4, "1.0.0", ONE_KEY, lists::lset),
    write("LINSERT", 5, "2.2.0", ONE_KEY, lists::linsert),
    write("LREM", 4, "1.0.0", ONE_KEY, lists::lrem),
    write("LTRIM", 4, "1.0.0", ONE_KEY, lists::ltrim),
    read("LPOS", -3, "6.0.6", ONE_KEY, lists::lpos),
    write("LMOVE", 5, "6.2.0", TWO_KEYS, lists::lmove),
    write("RPOPLPUSH", 3, "1.2.0", TWO_KEYS, lists::rpoplpush),
    // Sets.
    write("SADD", -3, "1.0.0", ONE_KEY, sets::sadd),
    write("SREM", -3, "1.0.0", ONE_KEY, sets::srem),
    read("SISMEMBER", 3, "1.0.0", ONE_KEY, sets::sismember),
    read("SMISMEMBER", -3, "6.2.0", ONE_KEY, sets::smismember),
    read("SCARD", 2, "1.0.0", ONE_KEY, sets::scard),
    read("SMEMBERS", 2, "1.0.0", ONE_KEY, sets::smembers),
    write("SMOVE", 4, "1.0.0", TWO_KEYS, sets::smove),
    write("SPOP", -2, "1.0.0", ONE_KEY, sets::spop),
    read("SRANDMEMBER", -2, "1.0.0", ONE_KEY, sets::srandmember),
    read("SINTER", -2, "1.0.0", ALL_KEYS, sets::sinter),
    read("SUNION", -2, "1.0.0", ALL_KEYS, sets::sunion),
    read("SDIFF", -2, "1.0.0", ALL_KEYS, sets::sdiff),
    write("SINTERSTORE", -3, "1.0.0", ALL_KEYS, sets::sinterstore),
    write("SUNIONSTORE", -3, "1.0.0", ALL_KEYS, sets::sunionstore),
    write("SDIFFSTORE", -3, "1.0.0", ALL_KEYS, sets::sdiffstore),
    read(
        "SINTERCARD",
        -3,
        "7.0.0",
        CommandKeySpec::NumKeys(1),
        sets::sintercard,
    ),
    read("SSCAN", -3, "2.8.0", ONE_KEY, sets::sscan),
    // Sorted sets.
    write("ZADD", -4, "1.2.0", ONE_KEY, zsets::zadd),
    write("ZINCRBY", 4, "1.2.0", ONE_KEY, zsets::zincrby),
    write("ZREM", -3, "1.2.0", ONE_KEY, zsets::zrem),
    read("ZSCORE", 3, "1.2.0", ONE_KEY, zsets::zscore),
    read("ZMSCORE", -3, "6.2.0", ONE_KEY, zsets::zmscore),
    read("ZCARD", 2, "1.2.0", ONE_KEY, zsets::zcard),
    read("ZRANK", 3, "2.0.0", ONE_KEY, zsets::zrank),
    read("ZREVRANK", 3, "2.0.0", ONE_KEY, zsets::zrevrank),
    write("ZPOPMIN", -2, "5.0.0", ONE_KEY, zsets::zpopmin),
    write("ZPOPMAX", -2, "5.0.0", ONE_KEY, zsets::zpopmax),
    write(
        "ZMPOP",
        -4,
        "7.0.0",
        CommandKeySpec::NumKeys(1),
        zsets::zmpop,
    ),
    read("ZRANDMEMBER", -2, "6.2.0", ONE_KEY, zsets::zrandmember),
    read("ZSCAN", -3, "2.8.0", ONE_KEY, zsets::zscan),
    read("ZCOUNT", 4, "2.0.0", ONE_KEY, zsets::zcount),
    read("ZLEXCOUNT", 4, "2.8.9", ONE_KEY, zsets::zlexcount),
    read("ZRANGE", -4, "1.2.0", ONE_KEY, zsets::zrange),
    write("ZRANGESTORE", -5, "6.2.0", TWO_KEYS, zsets::zrangestore),
    read("ZREVRANGE", -4, "1.2.0", ONE_KEY, zsets::zrevrange),
    read("ZRANGEBYSCORE", -4, "1.0.5", ONE_KEY, zsets::zrangebyscore),
    read(
        "ZREVRANGEBYSCORE",
        -4,
        "2.2.0",
        ONE_KEY,
        zsets::zrevrangebyscore,
    ),
    read("ZRANGEBYLEX", -4, "2.8.9", ONE_KEY, zsets::zrangebylex),
    read(
        "ZREVRANGEBYLEX",
        -4,
        "2.8.9",
        ONE_KEY,
        zsets::zrevrangebylex,
    ),
    write(
        "ZREMRANGEBYRANK",
        4,
        "2.0.0",
        ONE_KEY,
        zsets::zremrangebyrank,
    ),
    write(
        "ZREMRANGEBYSCORE",
        4,
        "1.2.0",
        ONE_KEY,
        zsets::zremrangebyscore,
    ),
    write("ZREMRANGEBYLEX", 4, "2.8.9", ONE_KEY, zsets::zremrangebylex),
    read(
        "ZUNION",
        -3,
        "6.2.0",
        CommandKeySpec::NumKeys(1),
        zsets::zunion,
    ),
    read(
        "ZINTER",
        -3,
        "6.2.0",
        CommandKeySpec::NumKeys(1),
        zsets::zinter,
    ),
    read(
        "ZDIFF",
        -3,
        "6.2.0",
        CommandKeySpec::NumKeys(1),
        zsets::zdiff,
    ),
    read(
        "ZINTERCARD",
        -3,
        "7.0.0",
        CommandKeySpec::NumKeys(1),
        zsets::zintercard,
    ),
    write(
        "ZUNIONSTORE",
        -4,
        "2.0.0",
        CommandKeySpec::DestinationAndNumKeys,
        zsets::zunionstore,
    ),
    write(
        "ZINTERSTORE",
        -4,
        "2.0.0",
        CommandKeySpec::DestinationAndNumKeys,
        zsets::zinterstore,
    ),
    write(
        "ZDIFFSTORE",
        -4,
        "6.2.0",
        CommandKeySpec::DestinationAndNumKeys,
        zsets::zdiffstore,
    ),
    // Publish and subscribe.
    read("PUBLISH", 3, "2.0.0", CommandKeySpec::None, pubsub::publish),
    read(
        "SPUBLISH",
        3,
        "7.0.0",
        CommandKeySpec::None,
        pubsub::spublish,
    ),
    read("PUBSUB", -2, "2.8.0", CommandKeySpec::None, pubsub::pubsub),
    // The server.
    read("PING", -1, "1.0.0", CommandKeySpec::None, server::ping),
    read("ECHO", 2, "1.0.0", CommandKeySpec::None, server::echo),
    read("SELECT", 2, "1.0.0", CommandKeySpec::None, server::select),
    read("TIME", 1, "2.6.0", CommandKeySpec::None, server::time),
    read("INFO", -1, "1.0.0", CommandKeySpec::None, server::info),
    // Scripts.
    script("EVAL", -3, "2.6.0", CommandKeySpec::NumKeys(2)),
    script("EVALSHA", -3, "2.6.0", CommandKeySpec::NumKeys(2)),
    script("EVAL_RO", -3, "7.0.0", CommandKeySpec::NumKeys(2)),
    script("EVALSHA_RO", -3, "7.0.0", CommandKeySpec::NumKeys(2)),
    script("SCRIPT", -2, "2.6.0", CommandKeySpec::None),
    // State of a connection.
    connection("MULTI", 1, "1.2.0"),
    connection("EXEC", 1, "1.2.0"),
    connection("DISCARD", 1, "2.0.0"),
    connection("WATCH", -2, "2.2.0"),
    connection("UNWATCH", 1, "2.2.0"),
    connection("SUBSCRIBE", -2, "2.0.0"),
    connection("UNSUBSCRIBE", -1, "2.0.0"),
    connection("PSUBSCRIBE", -2, "2.0.0"),
    connection("PUNSUBSCRIBE", -1, "2.0.0"),
    connection("SSUBSCRIBE", -2, "7.0.0"),
    connection("SUNSUBSCRIBE", -1, "7.0.0"),
];
