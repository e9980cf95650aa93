//! Every command the engine knows: one line each. To add one, write its function and add its line.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

use crate::args::Args;
use crate::commands::{hashes, keys, lists, pubsub, server, sets, strings, zsets};
use crate::db::Db;
use crate::error::Reply;
use crate::number::int;

/// Where a command's keys stand among its arguments.
#[derive(Debug, Clone, Copy)]
pub enum Keys {
    /// Nowhere.
    None,
    /// From `first` to `last` (negative: from the end), every `step`th.
    At(usize, isize, usize),
    /// As many as the number at this position says, behind it.
    Counted(usize),
    /// One at 1 and as many as the number at 2 says, behind it.
    StoreCounted,
}

/// Who runs a command.
#[derive(Clone, Copy)]
pub enum Run {
    /// The database alone.
    Db(fn(&mut Db, Args<'_>) -> Reply),
    /// The script host.
    Script,
    /// The connection: what depends on who asks (`MULTI`, `SUBSCRIBE`).
    Connection,
}

/// A command.
pub struct Command {
    /// Its name in capitals.
    pub name: &'static str,
    /// The number of arguments with the name; at least that many when negative.
    pub arity: isize,
    /// Whether it may change keys: refused while nothing can be made durable.
    pub writes: bool,
    /// The Redis version that brought it.
    pub since: &'static str,
    /// Its keys.
    pub keys: Keys,
    /// What it does.
    pub run: Run,
}

impl Command {
    /// Whether it takes that many arguments, its name included.
    pub fn takes(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs();
        if self.arity < 0 {
            count >= wanted
        } else {
            count == wanted
        }
    }

    /// The keys among its arguments. A broken count yields none; the command itself will refuse it.
    pub fn keys_in<'a>(&self, args: Args<'a>) -> Vec<&'a [u8]> {
        let counted = |at: usize, first: usize| {
            let count = args
                .get(at)
                .and_then(|arg| int(arg).ok())
                .and_then(|n| usize::try_from(n).ok());
            let end = count
                .and_then(|count| count.checked_add(first))
                .unwrap_or(first);
            args.get(first..end).unwrap_or_default()
        };
        match self.keys {
            Keys::None => Vec::new(),
            Keys::At(first, last, step) => {
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
            Keys::Counted(at) => counted(at, at + 1).to_vec(),
            Keys::StoreCounted => args
                .get(1)
                .into_iter()
                .chain(counted(2, 3))
                .copied()
                .collect(),
        }
    }
}

/// The command of this name, in any case.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    const LONGEST: usize = 24;
    static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command, RandomState>> =
        LazyLock::new(|| {
            TABLE
                .iter()
                .map(|command| (command.name.as_bytes(), command))
                .collect()
        });
    let mut capitals = [0; LONGEST];
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

const ONE: Keys = Keys::At(1, 1, 1);
const TWO: Keys = Keys::At(1, 2, 1);
const ALL: Keys = Keys::At(1, -1, 1);

type Function = fn(&mut Db, Args<'_>) -> Reply;

const fn read(
    name: &'static str,
    arity: isize,
    since: &'static str,
    keys: Keys,
    run: Function,
) -> Command {
    Command {
        name,
        arity,
        writes: false,
        since,
        keys,
        run: Run::Db(run),
    }
}

const fn write(
    name: &'static str,
    arity: isize,
    since: &'static str,
    keys: Keys,
    run: Function,
) -> Command {
    Command {
        name,
        arity,
        writes: true,
        since,
        keys,
        run: Run::Db(run),
    }
}

const fn script(name: &'static str, arity: isize, since: &'static str, keys: Keys) -> Command {
    Command {
        name,
        arity,
        writes: false,
        since,
        keys,
        run: Run::Script,
    }
}

const fn connection(name: &'static str, arity: isize, since: &'static str) -> Command {
    Command {
        name,
        arity,
        writes: false,
        since,
        keys: Keys::None,
        run: Run::Connection,
    }
}

/// All commands, by data type.
pub static TABLE: &[Command] = &[
    // Strings.
    read("GET", 2, "1.0.0", ONE, strings::get),
    write("SET", -3, "1.0.0", ONE, strings::set),
    write("SETNX", 3, "1.0.0", ONE, strings::setnx),
    write("SETEX", 4, "2.0.0", ONE, strings::setex),
    write("PSETEX", 4, "2.6.0", ONE, strings::psetex),
    write("GETSET", 3, "1.0.0", ONE, strings::getset),
    write("GETDEL", 2, "6.2.0", ONE, strings::getdel),
    write("GETEX", -2, "6.2.0", ONE, strings::getex),
    read("MGET", -2, "1.0.0", ALL, strings::mget),
    write("MSET", -3, "1.0.1", Keys::At(1, -1, 2), strings::mset),
    write("MSETNX", -3, "1.0.1", Keys::At(1, -1, 2), strings::msetnx),
    write("INCR", 2, "1.0.0", ONE, strings::incr),
    write("DECR", 2, "1.0.0", ONE, strings::decr),
    write("INCRBY", 3, "1.0.0", ONE, strings::incrby),
    write("DECRBY", 3, "1.0.0", ONE, strings::decrby),
    write("INCRBYFLOAT", 3, "2.6.0", ONE, strings::incrbyfloat),
    write("APPEND", 3, "2.0.0", ONE, strings::append),
    read("STRLEN", 2, "2.2.0", ONE, strings::strlen),
    read("GETRANGE", 4, "2.4.0", ONE, strings::getrange),
    read("SUBSTR", 4, "1.0.0", ONE, strings::getrange),
    write("SETRANGE", 4, "2.2.0", ONE, strings::setrange),
    // Keys.
    write("DEL", -2, "1.0.0", ALL, keys::del),
    write("UNLINK", -2, "4.0.0", ALL, keys::del),
    read("EXISTS", -2, "1.0.0", ALL, keys::exists),
    read("TOUCH", -2, "3.2.1", ALL, keys::exists),
    read("TYPE", 2, "1.0.0", ONE, keys::kind),
    write("EXPIRE", -3, "1.0.0", ONE, keys::expire),
    write("PEXPIRE", -3, "2.6.0", ONE, keys::pexpire),
    write("EXPIREAT", -3, "1.2.0", ONE, keys::expireat),
    write("PEXPIREAT", -3, "2.6.0", ONE, keys::pexpireat),
    read("TTL", 2, "1.0.0", ONE, keys::ttl),
    read("PTTL", 2, "2.6.0", ONE, keys::pttl),
    read("EXPIRETIME", 2, "7.0.0", ONE, keys::expiretime),
    read("PEXPIRETIME", 2, "7.0.0", ONE, keys::pexpiretime),
    write("PERSIST", 2, "2.2.0", ONE, keys::persist),
    read("KEYS", 2, "1.0.0", Keys::None, keys::keys),
    read("SCAN", -2, "2.8.0", Keys::None, keys::scan),
    read("RANDOMKEY", 1, "1.0.0", Keys::None, keys::randomkey),
    read("DBSIZE", 1, "1.0.0", Keys::None, keys::dbsize),
    write("FLUSHALL", -1, "1.0.0", Keys::None, keys::flush),
    write("FLUSHDB", -1, "1.0.0", Keys::None, keys::flush),
    write("RENAME", 3, "1.0.0", TWO, keys::rename),
    write("RENAMENX", 3, "1.0.0", TWO, keys::renamenx),
    write("COPY", -3, "6.2.0", TWO, keys::copy),
    // Hashes.
    write("HSET", -4, "2.0.0", ONE, hashes::hset),
    write("HMSET", -4, "2.0.0", ONE, hashes::hmset),
    write("HSETNX", 4, "2.0.0", ONE, hashes::hsetnx),
    read("HGET", 3, "2.0.0", ONE, hashes::hget),
    read("HMGET", -3, "2.0.0", ONE, hashes::hmget),
    read("HGETALL", 2, "2.0.0", ONE, hashes::hgetall),
    read("HKEYS", 2, "2.0.0", ONE, hashes::hkeys),
    read("HVALS", 2, "2.0.0", ONE, hashes::hvals),
    write("HDEL", -3, "2.0.0", ONE, hashes::hdel),
    read("HLEN", 2, "2.0.0", ONE, hashes::hlen),
    read("HEXISTS", 3, "2.0.0", ONE, hashes::hexists),
    read("HSTRLEN", 3, "3.2.0", ONE, hashes::hstrlen),
    write("HINCRBY", 4, "2.0.0", ONE, hashes::hincrby),
    write("HINCRBYFLOAT", 4, "2.6.0", ONE, hashes::hincrbyfloat),
    read("HRANDFIELD", -2, "6.2.0", ONE, hashes::hrandfield),
    read("HSCAN", -3, "2.8.0", ONE, hashes::hscan),
    // Lists.
    write("LPUSH", -3, "1.0.0", ONE, lists::lpush),
    write("RPUSH", -3, "1.0.0", ONE, lists::rpush),
    write("LPUSHX", -3, "2.2.0", ONE, lists::lpushx),
    write("RPUSHX", -3, "2.2.0", ONE, lists::rpushx),
    write("LPOP", -2, "1.0.0", ONE, lists::lpop),
    write("RPOP", -2, "1.0.0", ONE, lists::rpop),
    write("LMPOP", -4, "7.0.0", Keys::Counted(1), lists::lmpop),
    read("LLEN", 2, "1.0.0", ONE, lists::llen),
    read("LRANGE", 4, "1.0.0", ONE, lists::lrange),
    read("LINDEX", 3, "1.0.0", ONE, lists::lindex),
    write("LSET", 4, "1.0.0", ONE, lists::lset),
    write("LINSERT", 5, "2.2.0", ONE, lists::linsert),
    write("LREM", 4, "1.0.0", ONE, lists::lrem),
    write("LTRIM", 4, "1.0.0", ONE, lists::ltrim),
    read("LPOS", -3, "6.0.6", ONE, lists::lpos),
    write("LMOVE", 5, "6.2.0", TWO, lists::lmove),
    write("RPOPLPUSH", 3, "1.2.0", TWO, lists::rpoplpush),
    // Sets.
    write("SADD", -3, "1.0.0", ONE, sets::sadd),
    write("SREM", -3, "1.0.0", ONE, sets::srem),
    read("SISMEMBER", 3, "1.0.0", ONE, sets::sismember),
    read("SMISMEMBER", -3, "6.2.0", ONE, sets::smismember),
    read("SCARD", 2, "1.0.0", ONE, sets::scard),
    read("SMEMBERS", 2, "1.0.0", ONE, sets::smembers),
    write("SMOVE", 4, "1.0.0", TWO, sets::smove),
    write("SPOP", -2, "1.0.0", ONE, sets::spop),
    read("SRANDMEMBER", -2, "1.0.0", ONE, sets::srandmember),
    read("SINTER", -2, "1.0.0", ALL, sets::sinter),
    read("SUNION", -2, "1.0.0", ALL, sets::sunion),
    read("SDIFF", -2, "1.0.0", ALL, sets::sdiff),
    write("SINTERSTORE", -3, "1.0.0", ALL, sets::sinterstore),
    write("SUNIONSTORE", -3, "1.0.0", ALL, sets::sunionstore),
    write("SDIFFSTORE", -3, "1.0.0", ALL, sets::sdiffstore),
    read(
        "SINTERCARD",
        -3,
        "7.0.0",
        Keys::Counted(1),
        sets::sintercard,
    ),
    read("SSCAN", -3, "2.8.0", ONE, sets::sscan),
    // Sorted sets.
    write("ZADD", -4, "1.2.0", ONE, zsets::zadd),
    write("ZINCRBY", 4, "1.2.0", ONE, zsets::zincrby),
    write("ZREM", -3, "1.2.0", ONE, zsets::zrem),
    read("ZSCORE", 3, "1.2.0", ONE, zsets::zscore),
    read("ZMSCORE", -3, "6.2.0", ONE, zsets::zmscore),
    read("ZCARD", 2, "1.2.0", ONE, zsets::zcard),
    read("ZRANK", 3, "2.0.0", ONE, zsets::zrank),
    read("ZREVRANK", 3, "2.0.0", ONE, zsets::zrevrank),
    write("ZPOPMIN", -2, "5.0.0", ONE, zsets::zpopmin),
    write("ZPOPMAX", -2, "5.0.0", ONE, zsets::zpopmax),
    write("ZMPOP", -4, "7.0.0", Keys::Counted(1), zsets::zmpop),
    read("ZRANDMEMBER", -2, "6.2.0", ONE, zsets::zrandmember),
    read("ZSCAN", -3, "2.8.0", ONE, zsets::zscan),
    read("ZCOUNT", 4, "2.0.0", ONE, zsets::zcount),
    read("ZLEXCOUNT", 4, "2.8.9", ONE, zsets::zlexcount),
    read("ZRANGE", -4, "1.2.0", ONE, zsets::zrange),
    write("ZRANGESTORE", -5, "6.2.0", TWO, zsets::zrangestore),
    read("ZREVRANGE", -4, "1.2.0", ONE, zsets::zrevrange),
    read("ZRANGEBYSCORE", -4, "1.0.5", ONE, zsets::zrangebyscore),
    read(
        "ZREVRANGEBYSCORE",
        -4,
        "2.2.0",
        ONE,
        zsets::zrevrangebyscore,
    ),
    read("ZRANGEBYLEX", -4, "2.8.9", ONE, zsets::zrangebylex),
    read("ZREVRANGEBYLEX", -4, "2.8.9", ONE, zsets::zrevrangebylex),
    write("ZREMRANGEBYRANK", 4, "2.0.0", ONE, zsets::zremrangebyrank),
    write("ZREMRANGEBYSCORE", 4, "1.2.0", ONE, zsets::zremrangebyscore),
    write("ZREMRANGEBYLEX", 4, "2.8.9", ONE, zsets::zremrangebylex),
    read("ZUNION", -3, "6.2.0", Keys::Counted(1), zsets::zunion),
    read("ZINTER", -3, "6.2.0", Keys::Counted(1), zsets::zinter),
    read("ZDIFF", -3, "6.2.0", Keys::Counted(1), zsets::zdiff),
    read(
        "ZINTERCARD",
        -3,
        "7.0.0",
        Keys::Counted(1),
        zsets::zintercard,
    ),
    write(
        "ZUNIONSTORE",
        -4,
        "2.0.0",
        Keys::StoreCounted,
        zsets::zunionstore,
    ),
    write(
        "ZINTERSTORE",
        -4,
        "2.0.0",
        Keys::StoreCounted,
        zsets::zinterstore,
    ),
    write(
        "ZDIFFSTORE",
        -4,
        "6.2.0",
        Keys::StoreCounted,
        zsets::zdiffstore,
    ),
    // Publishing.
    read("PUBLISH", 3, "2.0.0", Keys::None, pubsub::publish),
    read("SPUBLISH", 3, "7.0.0", Keys::None, pubsub::spublish),
    read("PUBSUB", -2, "2.8.0", Keys::None, pubsub::pubsub),
    // The server.
    read("PING", -1, "1.0.0", Keys::None, server::ping),
    read("ECHO", 2, "1.0.0", Keys::None, server::echo),
    read("SELECT", 2, "1.0.0", Keys::None, server::select),
    read("TIME", 1, "2.6.0", Keys::None, server::time),
    read("INFO", -1, "1.0.0", Keys::None, server::info),
    // Scripts.
    script("EVAL", -3, "2.6.0", Keys::Counted(2)),
    script("EVALSHA", -3, "2.6.0", Keys::Counted(2)),
    script("EVAL_RO", -3, "7.0.0", Keys::Counted(2)),
    script("EVALSHA_RO", -3, "7.0.0", Keys::Counted(2)),
    script("SCRIPT", -2, "2.6.0", Keys::None),
    // Belong to a connection.
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
