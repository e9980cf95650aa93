//! Native version of `append_messages.lua`, for the embedded engine.
//!
//! Invariants:
//! 1. It does the same as the Lua script, in the same order. A test compares both.

use parlor_store::native::{
    CommandError, NativeScriptCall, NativeScriptResult, array, parse_digits, parse_lua_number,
    parse_number_arg, push_integer,
};
use redis::Value;

use crate::messages::encode::MESSAGE_FRAME_HEADER_LEN;

const FIRST_TYPING_KEY: usize = 6;
const FIRST_MESSAGE_ARG: usize = 12;
const ARGS_PER_MESSAGE: usize = 6;
/// Index of the last list entry that is kept, the hundredth one.
const LAST_LIST_INDEX: &[u8] = b"99";

/// Watermark while the script runs.
struct Watermark {
    seq: f64,
    rev: f64,
    changed: bool,
}

pub(super) fn append_messages(script: &mut NativeScriptCall<'_>) -> NativeScriptResult {
    let [top_key, list, members, version, ..] = script.keys_at::<FIRST_TYPING_KEY>(0)?;
    let [epoch, _, read_rev, start, expected, list_ttl, top_ttl, ..] =
        script.args_at::<FIRST_MESSAGE_ARG>(0)?;
    let messages = (script.args().len() - FIRST_MESSAGE_ARG) / ARGS_PER_MESSAGE;
    let read_rev = parse_number_arg(read_rev)?;
    let value = script.get(top_key)?.map(|it| it.to_vec());
    let stored = parse_watermark(value.as_deref());
    let known = stored.is_some_and(|(_, stored_epoch, _)| stored_epoch == epoch);
    let (seq, rev) = stored.map_or((0.0, 0.0), |(seq, _, rev)| (seq, rev));
    let mut top = Watermark {
        seq,
        rev,
        changed: false,
    };
    if !known {
        if start.is_empty() {
            return Ok(Some(encode_reply("COLD", 0.0, false, false)));
        }
        // Messages up to a watermark of another epoch were published in that epoch. The last message limits this: the
        // watermark may be above it.
        let start = parse_number_arg(start)?;
        let last = match messages {
            0 => start,
            _ => parse_number_arg(
                script.args_at::<1>(FIRST_MESSAGE_ARG + (messages - 1) * ARGS_PER_MESSAGE)?[0],
            )?,
        };
        top = Watermark {
            seq: start.max(top.seq.min(last)),
            rev: read_rev,
            changed: true,
        };
        drop_list(script, list)?;
    }
    let state = apply_messages(script, &mut top, messages, read_rev)?;
    if top.changed {
        if script
            .call(&[b"LTRIM", list, b"0", LAST_LIST_INDEX])
            .is_ok()
        {
            // The list need not be on disk, because it can be refilled from the database.
            script.set_memory_only(list)?;
            script.pexpire(list, parse_number_arg(list_ttl)? as u64)?;
        }
        let mut text = format_number(top.seq);
        text.push(b'|');
        text.extend_from_slice(epoch);
        text.push(b'|');
        push_integer(&mut text, top.rev);
        script.set(top_key, &text, Some(parse_number_arg(top_ttl)? as u64))?;
    }
    let participants_missing = !expected.is_empty()
        && (script.get(version)?.as_deref() != Some(expected) || !script.exists(members)?);
    let list_missing = !script.exists(list)?;
    Ok(Some(encode_reply(
        state,
        top.seq,
        list_missing,
        participants_missing,
    )))
}

/// Applies the messages after the watermark.
fn apply_messages(
    script: &mut NativeScriptCall<'_>,
    top: &mut Watermark,
    messages: usize,
    read_rev: f64,
) -> Result<&'static str, CommandError> {
    let list = script.keys_at::<FIRST_TYPING_KEY>(0)?[1];
    let [.., publish, channel, event_channel, event_end, _] =
        script.args_at::<FIRST_MESSAGE_ARG>(0)?;
    // No user starts typing while the script runs, so one lookup is enough for all messages.
    let index = script.keys_at::<FIRST_TYPING_KEY>(0)?[4];
    let is_anybody_typing = script.exists(index)?;
    for nth in 0..messages {
        let [seq, sender, frame, entry_end, stopped, event_start] =
            script.args_at::<ARGS_PER_MESSAGE>(FIRST_MESSAGE_ARG + nth * ARGS_PER_MESSAGE)?;
        let seq = parse_number_arg(seq)?;
        if seq > top.seq + 1.0 {
            return Ok("GAP");
        }
        if seq < top.seq + 1.0 {
            continue;
        }
        if read_rev < top.rev {
            // The messages were read before a change that is already published, perhaps a change of this message.
            drop_list(script, list)?;
        } else {
            let message = frame.get(MESSAGE_FRAME_HEADER_LEN..frame.len().saturating_sub(1));
            let entry = [message.unwrap_or_default(), entry_end].concat();
            // Message 1 alone is a complete list, so the list may be created. Otherwise only an existing list is
            // extended.
            let push: &[u8] = if top.seq == 0.0 { b"LPUSH" } else { b"LPUSHX" };
            // A key of a foreign type belongs to another service and stays.
            let _ = script.call(&[push, list, &entry]);
        }
        if !stopped.is_empty() && is_anybody_typing {
            let [typing_key] = script.keys_at(FIRST_TYPING_KEY + nth)?;
            if stop_typing(script, typing_key, sender)? {
                script.publish(publish, channel, stopped);
            }
        }
        script.publish(publish, channel, frame);
        script.publish(
            b"PUBLISH",
            event_channel,
            &other_participants(event_start, event_end, sender),
        );
        (top.seq, top.changed) = (seq, true);
    }
    Ok("OK")
}

/// Deletes the list. A key of a foreign type belongs to another service and stays.
fn drop_list(script: &mut NativeScriptCall<'_>, list: &[u8]) -> Result<(), CommandError> {
    if script.call(&[b"TYPE", list])? == Value::SimpleString("list".into()) {
        script.del(list)?;
    }
    Ok(())
}

/// The event JSON without the sender among the participants. Ids need no escaping, so the first quoted match after the
/// `[` is the id.
fn other_participants(start: &[u8], end: &[u8], sender: &[u8]) -> Vec<u8> {
    const LIST_START: usize = br#""participantIds":["#.len();
    let quoted = [b"\"", sender, b"\""].concat();
    let list = end.get(LIST_START..).unwrap_or_default();
    let found = list.windows(quoted.len()).position(|part| part == quoted);
    let Some(found) = found else {
        return [start, end].concat();
    };
    let (mut first, mut last) = (LIST_START + found, LIST_START + found + quoted.len());
    if end.get(last) == Some(&b',') {
        last += 1;
    } else if end[first - 1] == b',' {
        first -= 1;
    }
    [start, &end[..first], &end[last..]].concat()
}

/// Deletes the typing keys of the sender. Returns whether the sender was typing.
fn stop_typing(
    script: &mut NativeScriptCall<'_>,
    typing_key: &[u8],
    user: &[u8],
) -> Result<bool, CommandError> {
    let [.., index, names] = script.keys_at::<FIRST_TYPING_KEY>(0)?;
    let ends = match script.call(&[b"ZSCORE", index, user])? {
        Value::BulkString(score) => parse_lua_number(&score).unwrap_or_default(),
        _ => return Ok(false),
    };
    let was_shown = delete_own_typing_key(script, typing_key, ends)?;
    script.call(&[b"ZREM", index, user])?;
    script.call(&[b"HDEL", names, user])?;
    let now = parse_number_arg(script.args_at::<2>(0)?[1])?;
    Ok(ends > now || was_shown)
}

/// As in `own_key.lua`.
fn delete_own_typing_key(
    script: &mut NativeScriptCall<'_>,
    typing_key: &[u8],
    ends: f64,
) -> Result<bool, CommandError> {
    let [.., ttl] = script.args_at::<FIRST_MESSAGE_ARG>(0)?;
    let mut own_end = b"\"timestamp\":".to_vec();
    push_integer(&mut own_end, ends - parse_number_arg(ttl)?);
    own_end.push(b'}');
    let is_own = match script.call(&[b"GET", typing_key]) {
        Ok(Value::BulkString(value)) => value == b"1" || value.ends_with(&own_end),
        _ => false,
    };
    if !is_own {
        return Ok(false);
    }
    script.del(typing_key)
}

/// Parses the watermark: applied `seq`, epoch, published `rev`. `None` if the value is malformed.
fn parse_watermark(value: Option<&[u8]>) -> Option<(f64, &[u8], f64)> {
    let mut parts = value?.split(|byte| *byte == b'|');
    let (seq, epoch, rev) = (parts.next()?, parts.next()?, parts.next()?);
    parse_digits(epoch)?;
    let found = (parse_digits(seq)?, epoch, parse_digits(rev)?);
    parts.next().is_none().then_some(found)
}

fn format_number(number: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(48);
    push_integer(&mut text, number);
    text
}

fn encode_reply(state: &str, top: f64, list_missing: bool, participants_missing: bool) -> Value {
    array([
        Value::BulkString(state.into()),
        Value::BulkString(format_number(top)),
        Value::Int(i64::from(list_missing)),
        Value::Int(i64::from(participants_missing)),
    ])
}

#[cfg(test)]
mod tests;
