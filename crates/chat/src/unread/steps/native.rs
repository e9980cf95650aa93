//! `steps.lua` in Rust, for the embedded engine.
//!
//! Always true: it does what the script does, line by line; [`the test`](super::tests) compares them.

use parlor_store::native::{Done, Error, Step, array, number, push_number, said};
use redis::Value;

use super::field::{Field, Position, count, frame, gone, placed, share, show};

/// What is the same for all users of a call.
struct Given<'a> {
    now: f64,
    epoch: f64,
    keep: u64,
    publish: &'a [u8],
    head: &'a [u8],
    conversation: &'a [u8],
}

const FIRST: usize = 6;
const WIDTH: usize = 8;
const KEYS: usize = 3;

pub(super) fn steps(step: &mut Step<'_>) -> Done {
    let [now, epoch, keep, publish, head, conversation] = step.take::<FIRST>(0)?;
    let given = Given {
        now: said(now)?,
        epoch: said(epoch)?,
        keep: said(keep)? as u64,
        publish,
        head,
        conversation,
    };
    let users = step.keys().len() / KEYS;
    let mut replies = Vec::with_capacity(users);
    for user in 0..users {
        let done = one(step, &given, user)?;
        replies.push(Value::Int(i64::from(done)));
    }
    Ok(Some(array(replies)))
}

/// The step of one user; false if the state has to be held against the rows first.
fn one(step: &mut Step<'_>, given: &Given<'_>, user: usize) -> Result<bool, Error> {
    let [state_key, count_key, total_key] = step.take_keys(user * KEYS)?;
    let [channel, what, version, position, top, badge, own, muted] =
        step.take::<WIDTH>(FIRST + user * WIDTH)?;
    let version = said(version)?;
    let fields = [&b":epoch"[..], b":total", given.conversation];
    let held = match step.fields(state_key, fields) {
        Ok(held) => held,
        Err(_) => {
            // Somebody else's.
            step.delete(state_key)?;
            [None, None, None]
        }
    };
    let [epoch, total, field] = held;
    let mut old = field.as_deref().and_then(Field::parse);
    let unread = field.is_some() && old.is_none();
    let epoch = epoch.as_deref().and_then(number).unwrap_or(-1.0);
    let total = total.as_deref().and_then(number);
    let Some(total) = total.filter(|_| epoch >= given.epoch && !unread) else {
        // What is left is not in the rows, so nobody would find it.
        if what == b"left" {
            step.delete(count_key)?;
        }
        return Ok(false);
    };
    let (before, share_before) = (count(old.as_ref()), share(old.as_ref()));
    let mut new = match what {
        b"left" => gone(old, version, given.now),
        b"sent" => {
            let Some(old) = &mut old else {
                return Ok(false);
            };
            if matches!(old, Field::Left { left, .. } if version >= *left) {
                return Ok(false);
            }
            old.raise(said(top)?);
            *old
        }
        _ => {
            let muted = number(muted);
            if old.is_none() && muted.is_none() {
                return Ok(false);
            }
            let position = Position {
                joined: version,
                position: said(position)?,
                top: said(top)?,
                badge: said(badge)?,
                own: said(own)?,
                muted,
            };
            placed(old, &position)
        }
    };
    if let Field::Member(member) = &mut new {
        member.counted = member.muted <= given.now;
    }
    let written = new.text();
    if field.as_deref() == Some(&written[..]) {
        return Ok(true);
    }
    let (after, total_after) = (count(Some(&new)), total - share_before + share(Some(&new)));
    let mut total_text = Vec::with_capacity(16);
    push_number(&mut total_text, total_after);
    let fields = [
        (given.conversation, &written[..]),
        (&b":total"[..], &total_text[..]),
    ];
    step.set_fields(state_key, &fields)?;
    step.expire(state_key, given.keep)?;
    if after != before || field.is_none() {
        show(step, count_key, after)?;
    }
    if total_after != total {
        show(step, total_key, total_after)?;
    }
    if after != before || total_after != total {
        let frame = frame(given.head, given.conversation, after, total_after);
        step.publish(given.publish, channel, &frame);
    }
    Ok(true)
}
