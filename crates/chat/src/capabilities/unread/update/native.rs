//! Native version of `update_counters.lua` for the embedded engine.
//!
//! Invariant: the native version does what the script does, line by line. The test `native_script_matches_lua` compares
//! them.

use parlor_store::native::{
    CommandError, NativeScriptCall, NativeScriptResult, array, parse_lua_number, parse_number_arg,
    push_integer,
};
use redis::Value;

use super::field::{
    CounterField, RowPosition, change_total, count, encode_counts_frame, mark_left, merge_position,
    read_counter, total_share, write_counter,
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

pub(super) fn update_counters(step: &mut NativeScriptCall<'_>) -> NativeScriptResult {
    let [now, epoch, keep, publish, head, conversation] = step.args_at::<FIRST_USER_ARG>(0)?;
    let given = UpdateArgs {
        now: parse_number_arg(now)?,
        epoch: parse_number_arg(epoch)?,
        state_ttl_ms: parse_number_arg(keep)? as u64,
        publish,
        frame_header: head,
        conversation,
    };
    let users = step.keys().len() / KEYS_PER_USER;
    let mut replies = Vec::with_capacity(users);
    for user in 0..users {
        let done = update_user(step, &given, user)?;
        replies.push(Value::Int(i64::from(done)));
    }
    Ok(Some(array(replies)))
}

/// Updates one user; false if the state must be reconciled with the rows first.
fn update_user(
    step: &mut NativeScriptCall<'_>,
    given: &UpdateArgs<'_>,
    user: usize,
) -> Result<bool, CommandError> {
    let [state_key, count_key, total_key] = step.keys_at(user * KEYS_PER_USER)?;
    let [channel, what, version, position, top, badge, own, muted] =
        step.args_at::<ARGS_PER_USER>(FIRST_USER_ARG + user * ARGS_PER_USER)?;
    let version = parse_number_arg(version)?;
    let fields = [&b":epoch"[..], b":total", given.conversation];
    let held = match step.hmget(state_key, fields) {
        Ok(held) => held,
        Err(_) => {
            // The key has a foreign type: delete it.
            step.del(state_key)?;
            [None, None, None]
        }
    };
    let [epoch, total, field] = held;
    let mut old = field.as_deref().and_then(CounterField::parse);
    let unread = field.is_some() && old.is_none();
    let epoch = epoch.as_deref().and_then(parse_lua_number).unwrap_or(-1.0);
    let total = total.as_deref().and_then(parse_lua_number);
    let Some(total) = total.filter(|_| epoch >= given.epoch && !unread) else {
        // A former membership has no row, so a reconcile would not find its counter.
        if what == b"left" {
            let shown = read_counter(step, count_key);
            if field.is_none() && shown > 0.0 {
                change_total(step, total_key, shown, 0.0)?;
            }
            step.del(count_key)?;
        }
        return Ok(false);
    };
    let (before, share_before) = (count(old.as_ref()), total_share(old.as_ref()));
    let mut new = match what {
        b"left" => mark_left(old, version, given.now),
        b"sent" => {
            let Some(old) = &mut old else {
                return Ok(false);
            };
            if matches!(old, CounterField::Left { left, .. } if version >= *left) {
                return Ok(false);
            }
            old.raise_last_seq(parse_number_arg(top)?);
            *old
        }
        _ => {
            let muted = parse_lua_number(muted);
            if old.is_none() && muted.is_none() {
                return Ok(false);
            }
            let position = RowPosition {
                joined: version,
                position: parse_number_arg(position)?,
                top: parse_number_arg(top)?,
                badge: parse_number_arg(badge)?,
                own: parse_number_arg(own)?,
                muted,
            };
            merge_position(old, &position)
        }
    };
    if let CounterField::Member(member) = &mut new {
        member.in_total = member.muted_until <= given.now;
    }
    let written = new.encode();
    if field.as_deref() == Some(&written[..]) {
        return Ok(true);
    }
    let (after, total_after) = (
        count(Some(&new)),
        total - share_before + total_share(Some(&new)),
    );
    let mut total_text = Vec::with_capacity(16);
    push_integer(&mut total_text, total_after);
    let fields = [
        (given.conversation, &written[..]),
        (&b":total"[..], &total_text[..]),
    ];
    step.hset(state_key, &fields)?;
    step.pexpire(state_key, given.state_ttl_ms)?;
    // The count of another service, which this one replaces, is part of the total.
    let is_counted = matches!(new, CounterField::Member(member) if member.in_total);
    let replaced = match field.is_none() && is_counted {
        true => read_counter(step, count_key),
        false => 0.0,
    };
    if after != before || field.is_none() {
        write_counter(step, count_key, after)?;
    }
    if total_after != total + replaced {
        change_total(step, total_key, total + replaced, total_after)?;
    }
    if after != before || total_after != total {
        let frame = encode_counts_frame(given.frame_header, given.conversation, after, total_after);
        step.publish(given.publish, channel, &frame);
    }
    Ok(true)
}
