//! Routes commands to primaries.
//!
//! Invariants:
//! 1. A command with keys is routed by its first key. The server itself rejects keys of other slots.

use parlor_embedded::find_command;
pub(crate) use parlor_embedded::key_hash_slot;
use redis::{Arg, Cmd, Value};

/// Number of slots of a cluster.
pub(crate) const SLOT_COUNT: usize = 16_384;

/// Primaries that have to run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandRoute {
    /// The primary that owns this slot.
    Slot(u16),
    /// Any primary.
    AnyPrimary,
    /// All primaries. Their replies are merged.
    AllPrimaries(ReplyMerge),
}

impl CommandRoute {
    pub(crate) fn is_all_primaries(self) -> bool {
        matches!(self, Self::AllPrimaries(_))
    }
}

/// Merges the replies of all primaries into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyMerge {
    /// The replies are alike: returns the last one.
    Last,
    /// Adds the numbers.
    Sum,
    /// Joins the lists.
    Concat,
    /// Lists of 0 and 1: 1 if all lists have 1.
    LogicalAnd,
}

pub(crate) fn route_command(cmd: &Cmd) -> CommandRoute {
    let args: Vec<&[u8]> = cmd
        .args_iter()
        .map(|arg| match arg {
            Arg::Simple(arg) => arg,
            _ => b"0",
        })
        .collect();
    let arg = |index: usize| args.get(index).copied();
    let slot_of = |key: Option<&[u8]>| {
        key.map_or(CommandRoute::AnyPrimary, |key| {
            CommandRoute::Slot(key_hash_slot(key))
        })
    };
    let name = arg(0).unwrap_or_default().to_ascii_uppercase();
    match &name[..] {
        b"SCRIPT" if arg(1).is_some_and(|word| word.eq_ignore_ascii_case(b"EXISTS")) => {
            CommandRoute::AllPrimaries(ReplyMerge::LogicalAnd)
        }
        b"SCRIPT" | b"FLUSHALL" | b"FLUSHDB" => CommandRoute::AllPrimaries(ReplyMerge::Last),
        b"DBSIZE" => CommandRoute::AllPrimaries(ReplyMerge::Sum),
        b"KEYS" => CommandRoute::AllPrimaries(ReplyMerge::Concat),
        // One node per channel keeps the messages of the channel in order.
        b"PUBLISH" | b"SPUBLISH" => slot_of(arg(1)),
        // `SCAN` is one step on one server here; `Store::scan` scans all primaries.
        _ => match find_command(&name) {
            Some(spec) => slot_of(spec.extract_keys(&args).first().copied()),
            None => match &name[..] {
                b"OBJECT" | b"MEMORY" => slot_of(arg(2)),
                b"ROLE" | b"CONFIG" | b"CLIENT" | b"COMMAND" | b"CLUSTER" | b"ACL"
                | b"LASTSAVE" | b"WAIT" | b"LATENCY" | b"SLOWLOG" => CommandRoute::AnyPrimary,
                _ => slot_of(arg(1)),
            },
        },
    }
}

impl ReplyMerge {
    /// Merges the replies. If one of them is an error, returns that error.
    pub(crate) fn merge(self, replies: Vec<Value>) -> Value {
        if let Some(error) = replies
            .iter()
            .find(|reply| matches!(reply, Value::ServerError(_)))
        {
            return error.clone();
        }
        let lists = || {
            replies.iter().filter_map(|reply| match reply {
                Value::Array(list) => Some(list),
                _ => None,
            })
        };
        let number = |reply: &Value| match reply {
            Value::Int(number) => *number,
            _ => 0,
        };
        match self {
            Self::Last => replies.into_iter().next_back().unwrap_or(Value::Nil),
            Self::Sum => Value::Int(replies.iter().map(number).sum()),
            Self::Concat => Value::Array(lists().flatten().cloned().collect()),
            Self::LogicalAnd => {
                let width = lists().map(Vec::len).min().unwrap_or(0);
                let all =
                    |index| lists().all(|list| matches!(list.get(index), Some(Value::Int(1))));
                Value::Array(
                    (0..width)
                        .map(|index| Value::Int(all(index).into()))
                        .collect(),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(text: &str) -> CommandRoute {
        let words = text.split(' ').collect::<Vec<_>>();
        route_command(redis::cmd(words[0]).arg(&words[1..]))
    }

    #[test]
    fn commands_are_routed_by_their_first_key() {
        let foo = CommandRoute::Slot(12_182);
        for text in [
            "GET foo",
            "set foo 1",
            "EVALSHA abc 1 foo bar",
            "ZUNION 1 foo",
            "OBJECT ENCODING foo",
            "SPUBLISH foo x",
            "PUBLISH foo x",
        ] {
            assert_eq!(route(text), foo, "{text}");
        }
        for text in ["PING", "EVAL x 0 foo", "TIME"] {
            assert_eq!(route(text), CommandRoute::AnyPrimary, "{text}");
        }
        assert_eq!(
            route("SCRIPT LOAD x"),
            CommandRoute::AllPrimaries(ReplyMerge::Last)
        );
        assert_eq!(route("DBSIZE"), CommandRoute::AllPrimaries(ReplyMerge::Sum));
    }

    #[test]
    fn replies_of_all_primaries_become_one() {
        let ints = |list: &[i64]| Value::Array(list.iter().copied().map(Value::Int).collect());
        assert_eq!(
            ReplyMerge::Sum.merge(vec![Value::Int(2), Value::Int(3)]),
            Value::Int(5)
        );
        assert_eq!(
            ReplyMerge::Concat.merge(vec![ints(&[1]), ints(&[2, 3])]),
            ints(&[1, 2, 3])
        );
        assert_eq!(
            ReplyMerge::LogicalAnd.merge(vec![ints(&[1, 0, 1]), ints(&[1, 1, 0])]),
            ints(&[1, 0, 0])
        );
        assert_eq!(
            ReplyMerge::Last.merge(vec![Value::Okay, Value::Okay]),
            Value::Okay
        );
    }
}
