//! Native version of `update_counters.lua` for the embedded engine.
//!
//! Invariants:
//! 1. The native version does what the script does, line by line. A test compares both.

use parlor_store::native::{
    CommandError, NativeScriptCall, NativeScriptResult, array, parse_lua_number, parse_number_arg,
    push_integer,
};
use redis::Value;

use super::counter_field::{
    CounterField, KeyWrite, RowPosition, change_total, count, encode_counts_frame, mark_left,
    merge_position, read_counter, total_share, write_counter,
};

/// Arguments shared by all users of a call.
struct UpdateArgs<'a> {
    now: f64,
    epoch: f64,
    state_ttl_ms: u64,
    publish: &'a [u8],
    frame_header: &'a [u8],
    conversation: &'a [u8],
}

const FIRST_USER_ARG: usize = 6;
const ARGS_PER_USER: usize = 8;
const KEYS_PER_USER: usize = 3;

pub(super) fn update_counters(script: &mut NativeScriptCall<'_>) -> NativeScriptResult {
    let [now, epoch, keep, publish, head, conversation] = script.args_at::<FIRST_USER_ARG>(0)?;
    let args = UpdateArgs {
        now: parse_number_arg(now)?,
        epoch: parse_number_arg(epoch)?,
        state_ttl_ms: parse_number_arg(keep)? as u64,
        publish,
        frame_header: head,
        conversation,
    };
    let users = script.keys().len() / KEYS_PER_USER;
    let mut replies = Vec::with_capacity(users);
    for user in 0..users {
        let reply = match update_user(script, &args, user)? {
            None => 0,
            Some(KeyWrite::Done) => 1,
            Some(KeyWrite::ForeignKey) => 2,
        };
        replies.push(Value::Int(reply));
    }
    Ok(Some(array(replies)))
}

/// Updates one user; `None` if the state must be reconciled with the rows first.
fn update_user(
    script: &mut NativeScriptCall<'_>,
    args: &UpdateArgs<'_>,
    user: usize,
) -> Result<Option<KeyWrite>, CommandError> {
    let [state_key, count_key, total_key] = script.keys_at(user * KEYS_PER_USER)?;
    let [
        channel,
        kind,
        version,
        position,
        last_seq,
        badge,
        own,
        muted,
    ] = script.args_at::<ARGS_PER_USER>(FIRST_USER_ARG + user * ARGS_PER_USER)?;
    let version = parse_number_arg(version)?;
    let fields = [&b":epoch"[..], b":total", args.conversation];
    let stored = match script.hmget(state_key, fields) {
        Ok(stored) => stored,
        Err(_) => {
            // The key is internal: a value of a foreign type is of no use to anybody.
            script.del(state_key)?;
            [None, None, None]
        }
    };
    let [epoch, total, field] = stored;
    let mut old = field.as_deref().and_then(CounterField::parse);
    let is_unreadable = field.is_some() && old.is_none();
    let epoch = epoch.as_deref().and_then(parse_lua_number).unwrap_or(-1.0);
    let total = total.as_deref().and_then(parse_lua_number);
    let Some(total) = total.filter(|_| epoch >= args.epoch && !is_unreadable) else {
        // A former membership has no row, so a reconcile would not find its counter.
        if kind == b"left" {
            let shown = read_counter(script, count_key);
            if field.is_none() && shown > 0.0 {
                change_total(script, total_key, shown, 0.0)?;
            }
            write_counter(script, count_key, 0.0)?;
        }
        return Ok(None);
    };
    let (before, share_before) = (count(old.as_ref()), total_share(old.as_ref()));
    let mut new = match kind {
        b"left" => mark_left(old, version, args.now),
        b"sent" => {
            let Some(old) = &mut old else {
                return Ok(None);
            };
            if matches!(old, CounterField::Left { left, .. } if version >= *left) {
                return Ok(None);
            }
            old.raise_last_seq(parse_number_arg(last_seq)?);
            *old
        }
        _ => {
            let muted = parse_lua_number(muted);
            if old.is_none() && muted.is_none() {
                return Ok(None);
            }
            let position = RowPosition {
                joined_version: version,
                position_version: parse_number_arg(position)?,
                last_seq: parse_number_arg(last_seq)?,
                badge_seq: parse_number_arg(badge)?,
                own_after: parse_number_arg(own)?,
                muted_until: muted,
            };
            merge_position(old, &position)
        }
    };
    if let CounterField::Member(member) = &mut new {
        member.in_total = member.muted_until <= args.now;
    }
    let written = new.encode();
    if field.as_deref() == Some(&written[..]) {
        return Ok(Some(KeyWrite::Done));
    }
    let (after, total_after) = (
        count(Some(&new)),
        total - share_before + total_share(Some(&new)),
    );
    let mut total_text = Vec::with_capacity(16);
    push_integer(&mut total_text, total_after);
    let fields = [
        (args.conversation, &written[..]),
        (&b":total"[..], &total_text[..]),
    ];
    script.hset(state_key, &fields)?;
    script.pexpire(state_key, args.state_ttl_ms)?;
    // The count of another service, which this one replaces, is part of the total.
    let is_counted = matches!(new, CounterField::Member(member) if member.in_total);
    let replaced = match field.is_none() && is_counted {
        true => read_counter(script, count_key),
        false => 0.0,
    };
    let mut written = [KeyWrite::Done; 2];
    if after != before || field.is_none() {
        written[0] = write_counter(script, count_key, after)?;
    }
    if total_after != total + replaced {
        written[1] = change_total(script, total_key, total + replaced, total_after)?;
    }
    if after != before || total_after != total {
        let frame = encode_counts_frame(args.frame_header, args.conversation, after, total_after);
        script.publish(args.publish, channel, &frame);
    }
    Ok(Some(match written.contains(&KeyWrite::ForeignKey) {
        true => KeyWrite::ForeignKey,
        false => KeyWrite::Done,
    }))
}
