//! Routes commands to primaries.
//!
//! Invariants:
//! 1. A command with keys is routed by its first key. The server itself rejects keys of other slots.

pub(crate) use parlor_embedded::slot;
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

/// Route of a command.
pub(crate) fn route_command(cmd: &Cmd) -> CommandRoute {
    let arg = |index: usize| match cmd.args_iter().nth(index) {
        Some(Arg::Simple(arg)) => Some(arg),
        _ => None,
    };
    let key = |index: usize| {
        arg(index).map_or(CommandRoute::AnyPrimary, |key| {
            CommandRoute::Slot(slot(key))
        })
    };
    let Some(name) = arg(0) else {
        return CommandRoute::AnyPrimary;
    };
    match String::from_utf8_lossy(name).to_ascii_uppercase().as_str() {
        "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO" => match arg(2) {
            Some(b"0") | None => CommandRoute::AnyPrimary,
            Some(_) => key(3),
        },
        "ZUNION" | "ZINTER" | "ZDIFF" | "ZINTERCARD" | "SINTERCARD" | "LMPOP" | "ZMPOP" => key(2),
        "OBJECT" | "MEMORY" | "BITOP" | "XINFO" | "XGROUP" | "DEBUG" => key(2),
        "SCRIPT" => match arg(1) {
            Some(word) if word.eq_ignore_ascii_case(b"EXISTS") => {
                CommandRoute::AllPrimaries(ReplyMerge::LogicalAnd)
            }
            _ => CommandRoute::AllPrimaries(ReplyMerge::Last),
        },
        "FLUSHALL" | "FLUSHDB" => CommandRoute::AllPrimaries(ReplyMerge::Last),
        "DBSIZE" => CommandRoute::AllPrimaries(ReplyMerge::Sum),
        "KEYS" => CommandRoute::AllPrimaries(ReplyMerge::Concat),
        // Commands without keys. `SCAN` is one step on one server here; `Store::scan` scans all primaries.
        "PING" | "ECHO" | "TIME" | "INFO" | "ROLE" | "CONFIG" | "CLIENT" | "COMMAND"
        | "CLUSTER" | "ACL" | "PUBSUB" | "RANDOMKEY" | "SCAN" | "LASTSAVE" | "WAIT" | "LATENCY"
        | "SLOWLOG" => CommandRoute::AnyPrimary,
        // This includes `PUBLISH`: one node per channel keeps the messages of the channel in order.
        _ => key(1),
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
            replies.iter().filter_map(|reply| {
                if let Value::Array(list) = reply {
                    Some(list)
                } else {
                    None
                }
            })
        };
        match self {
            Self::Last => replies.into_iter().next_back().unwrap_or(Value::Nil),
            Self::Sum => Value::Int(
                replies
                    .iter()
                    .filter_map(|reply| {
                        if let Value::Int(n) = reply {
                            Some(n)
                        } else {
                            None
                        }
                    })
                    .sum(),
            ),
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

    fn placed(text: &str) -> CommandRoute {
        let words = text.split(' ').collect::<Vec<_>>();
        route_command(redis::cmd(words[0]).arg(&words[1..]))
    }

    #[test]
    fn commands_are_placed_by_their_first_key() {
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
            assert_eq!(placed(text), foo, "{text}");
        }
        for text in ["PING", "EVAL x 0 foo", "TIME"] {
            assert_eq!(placed(text), CommandRoute::AnyPrimary, "{text}");
        }
        assert_eq!(
            placed("SCRIPT LOAD x"),
            CommandRoute::AllPrimaries(ReplyMerge::Last)
        );
        assert_eq!(
            placed("DBSIZE"),
            CommandRoute::AllPrimaries(ReplyMerge::Sum)
        );
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
