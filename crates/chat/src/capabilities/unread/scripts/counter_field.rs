//! Native version of `counter_field.lua`: parses, merges and encodes one field of the unread state.
//!
//! Invariants:
//! 1. The native version does what the script does, line by line. Numbers are floats, as in Lua.

use parlor_store::native::{
    CommandError, NativeScriptCall, parse_digits, parse_lua_number, push_integer,
};
use redis::Value;

/// A parsed field of the unread state.
#[derive(Debug, Clone, Copy)]
pub(in crate::capabilities::unread) enum CounterField {
    Left { left: f64, at: f64, top: f64 },
    Member(MemberField),
}

#[derive(Debug, Clone, Copy)]
pub(in crate::capabilities::unread) struct MemberField {
    pub joined_version: f64,
    pub position_version: f64,
    pub last_seq: f64,
    pub badge_seq: f64,
    pub own_after: f64,
    pub muted_until: f64,
    mute_version: f64,
    pub in_total: bool,
}

/// Position from the member's row.
pub(super) struct RowPosition {
    pub(super) joined_version: f64,
    pub(super) position_version: f64,
    pub(super) last_seq: f64,
    pub(super) badge_seq: f64,
    pub(super) own_after: f64,
    /// End of the mute; `None` if the update does not change it.
    pub(super) muted_until: Option<f64>,
}

impl CounterField {
    /// Parses a field; `None` if it has another version.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_prefix(b"1|")?;
        if let Some(left) = text.strip_prefix(b"left|") {
            let [left, at, top] = parse_numbers(left)?;
            return Some(Self::Left { left, at, top });
        }
        let (text, counted) = match text {
            [text @ .., b'|', b'0'] => (text, false),
            [text @ .., b'|', b'1'] => (text, true),
            _ => return None,
        };
        let [joined, position, top, badge, own, muted, said] = parse_numbers(text)?;
        Some(Self::Member(MemberField {
            joined_version: joined,
            position_version: position,
            last_seq: top,
            badge_seq: badge,
            own_after: own,
            muted_until: muted,
            mute_version: said,
            in_total: counted,
        }))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(64);
        let mut add = |first: &[u8], numbers: &[f64]| {
            text.extend_from_slice(first);
            for number in numbers {
                text.push(b'|');
                push_integer(&mut text, *number);
            }
        };
        match self {
            Self::Left { left, at, top } => add(b"1|left", &[*left, *at, *top]),
            Self::Member(it) => add(
                b"1",
                &[
                    it.joined_version,
                    it.position_version,
                    it.last_seq,
                    it.badge_seq,
                    it.own_after,
                    it.muted_until,
                    it.mute_version,
                    f64::from(u8::from(it.in_total)),
                ],
            ),
        }
        text
    }

    pub(super) fn last_seq(&self) -> f64 {
        match self {
            Self::Left { top, .. } => *top,
            Self::Member(it) => it.last_seq,
        }
    }

    pub(super) fn raise_last_seq(&mut self, seq: f64) {
        let (Self::Left { top, .. } | Self::Member(MemberField { last_seq: top, .. })) = self;
        *top = top.max(seq);
    }
}

/// Parses exactly `N` numbers separated by `|`.
fn parse_numbers<const N: usize>(text: &[u8]) -> Option<[f64; N]> {
    let mut parts = text.split(|byte| *byte == b'|');
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = parse_digits(parts.next()?)?;
    }
    parts.next().is_none().then_some(numbers)
}

pub(in crate::capabilities::unread) fn count(field: Option<&CounterField>) -> f64 {
    match field {
        Some(CounterField::Member(it)) => (it.last_seq - it.badge_seq - it.own_after).max(0.0),
        _ => 0.0,
    }
}

/// Contribution of a field to the total.
pub(super) fn total_share(field: Option<&CounterField>) -> f64 {
    match field {
        Some(CounterField::Member(it)) if it.in_total => count(field),
        _ => 0.0,
    }
}

/// Merges a position of the row into a field. A position of an older membership is ignored, and one of a newer
/// membership replaces the field.
pub(super) fn merge_position(old: Option<CounterField>, row: &RowPosition) -> CounterField {
    let last_seq = old.map_or(row.last_seq, |old| row.last_seq.max(old.last_seq()));
    let same_membership = match old {
        Some(left @ CounterField::Left { left: version, .. }) if row.joined_version < version => {
            return left;
        }
        Some(CounterField::Member(it)) if row.joined_version < it.joined_version => {
            return CounterField::Member(it);
        }
        Some(CounterField::Member(it)) if row.joined_version == it.joined_version => Some(it),
        _ => None,
    };
    let mut new = same_membership.unwrap_or(MemberField {
        joined_version: row.joined_version,
        position_version: row.position_version,
        last_seq,
        badge_seq: row.badge_seq,
        own_after: row.own_after,
        muted_until: 0.0,
        mute_version: 0.0,
        in_total: false,
    });
    new.last_seq = last_seq;
    if row.position_version > new.position_version {
        new.position_version = row.position_version;
        (new.badge_seq, new.own_after) = (row.badge_seq, row.own_after);
    }
    if let Some(muted_until) = row.muted_until
        && (row.position_version > new.mute_version || same_membership.is_none())
    {
        (new.muted_until, new.mute_version) = (muted_until, row.position_version);
    }
    CounterField::Member(new)
}

/// Marks the membership as ended. Later updates of this or an older membership are ignored.
pub(super) fn mark_left(old: Option<CounterField>, version: f64, now: f64) -> CounterField {
    match old {
        Some(field @ CounterField::Left { left, .. }) if left >= version => field,
        Some(CounterField::Member(it)) if it.joined_version > version => CounterField::Member(it),
        _ => CounterField::Left {
            left: version,
            at: now,
            top: old.map_or(0.0, |old| old.last_seq()),
        },
    }
}

/// Result of the write of a documented key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyWrite {
    Done,
    /// The key has a foreign type: it belongs to another service and stays.
    ForeignKey,
}

/// Writes a documented counter. The key is deleted at 0.
pub(super) fn write_counter(
    script: &mut NativeScriptCall<'_>,
    key: &[u8],
    number: f64,
) -> Result<KeyWrite, CommandError> {
    if script.get(key).is_err() {
        return Ok(KeyWrite::ForeignKey);
    }
    if number > 0.0 {
        let mut text = Vec::with_capacity(16);
        push_integer(&mut text, number);
        script.set(key, &text, None)?;
    } else {
        script.del(key)?;
    }
    Ok(KeyWrite::Done)
}

/// Value of a documented counter, 0 if it is missing or no number.
pub(super) fn read_counter(call: &mut NativeScriptCall<'_>, key: &[u8]) -> f64 {
    match call.get(key) {
        Ok(Some(text)) => parse_lua_number(&text).unwrap_or(0.0),
        Ok(None) | Err(_) => 0.0,
    }
}

/// Changes the documented total by the difference of Parlor's own sum, so that counts of other services stay in it. A
/// total below the own sum has lost it.
pub(super) fn change_total(
    call: &mut NativeScriptCall<'_>,
    key: &[u8],
    before: f64,
    after: f64,
) -> Result<KeyWrite, CommandError> {
    let total = match before == after {
        true => Some(read_counter(call, key)),
        false => {
            let mut difference = Vec::with_capacity(16);
            push_integer(&mut difference, after - before);
            match call.call(&[b"INCRBY", key, &difference]) {
                Ok(Value::Int(total)) => Some(total as f64),
                _ => None,
            }
        }
    };
    match total {
        Some(total) if total >= after => match total == 0.0 && before != after {
            true => write_counter(call, key, 0.0),
            false => Ok(KeyWrite::Done),
        },
        _ => write_counter(call, key, after),
    }
}

/// Encodes the frame about a conversation.
pub(super) fn encode_counts_frame(
    head: &[u8],
    conversation: &[u8],
    number: f64,
    total: f64,
) -> Vec<u8> {
    let mut frame = Vec::with_capacity(head.len() + conversation.len() + 64);
    frame.extend_from_slice(head);
    frame.extend_from_slice(br#"{"conversationId":""#);
    frame.extend_from_slice(conversation);
    frame.extend_from_slice(br#"","count":"#);
    push_integer(&mut frame, number);
    frame.extend_from_slice(br#","total":"#);
    push_integer(&mut frame, total);
    frame.push(b'}');
    frame
}
