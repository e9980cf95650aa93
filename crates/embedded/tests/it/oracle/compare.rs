//! Rules for comparing two replies.

use redis::Value;

use super::generate::{CommandWord, name};

/// Allowed difference of two TTLs in ms, in addition to the real time that has passed: one clock runs, the other stands
/// still.
pub const TTL_SLACK: i64 = 5_000;

/// Sorts replies that have no defined order, so that they can be compared.
pub fn normalise(words: &[CommandWord], reply: Value) -> Value {
    let words = inner_command(words);
    let Value::Array(items) = reply else {
        return reply;
    };
    let in_pairs = words
        .iter()
        .any(|word| word.is("WITHVALUES") || word.is("WITHSCORES"));
    match name(words).as_str() {
        "SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "KEYS" | "HKEYS" | "HVALS" | "SPOP"
        | "SRANDMEMBER" => sorted(&items, 1),
        "HRANDFIELD" | "ZRANDMEMBER" if !in_pairs => sorted(&items, 1),
        "HRANDFIELD" | "ZRANDMEMBER" | "HGETALL" => sorted(&items, 2),
        scan @ ("SCAN" | "SSCAN" | "HSCAN" | "ZSCAN") => {
            let width = if scan == "HSCAN" || scan == "ZSCAN" {
                2
            } else {
                1
            };
            let sort = |item| match item {
                Value::Array(items) => sorted(&items, width),
                other => other,
            };
            Value::Array(items.into_iter().map(sort).collect())
        }
        _ => Value::Array(items),
    }
}

/// The command that a script passes on, or the command itself.
pub fn inner_command(words: &[CommandWord]) -> &[CommandWord] {
    match words {
        [eval, CommandWord::Plain(source), _, inner @ ..]
            if eval.is("EVAL") && source.ends_with(b"(unpack(ARGV))") =>
        {
            inner
        }
        words => words,
    }
}

/// Sorts items in groups of `width`.
fn sorted(items: &[Value], width: usize) -> Value {
    let mut groups: Vec<_> = items.chunks(width).collect();
    groups.sort_by_key(|group| format!("{group:?}"));
    Value::Array(groups.concat())
}

/// Whether two replies to a command are equal. Times may differ by `slack` milliseconds.
pub fn replies_match(words: &[CommandWord], ours: &Value, theirs: &Value, slack: i64) -> bool {
    match (name(inner_command(words)).as_str(), ours, theirs) {
        ("TTL" | "EXPIRETIME", Value::Int(a), Value::Int(b)) if *a >= 0 && *b >= 0 => {
            (a - b).abs() * 1_000 <= slack
        }
        ("PTTL" | "PEXPIRETIME", Value::Int(a), Value::Int(b)) if *a >= 0 && *b >= 0 => {
            (a - b).abs() <= slack
        }
        // Each engine has its own cursors, so only scans that end in one step are compared.
        ("SCAN" | "SSCAN" | "HSCAN" | "ZSCAN", Value::Array(a), Value::Array(b)) => {
            let ended = |scan: &[Value]| scan.first() == Some(&Value::BulkString(b"0".to_vec()));
            !ended(a) || !ended(b) || a == b
        }
        _ => ours == theirs,
    }
}
