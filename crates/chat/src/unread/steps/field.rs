//! `field.lua` in Rust: what a field of the state says, and how two sayings about one conversation are put together.
//!
//! Always true: it is line by line what the script says. Numbers are floats, as Lua's are.

use parlor_store::native::{Error, Step, digits, push_number};

/// What a field says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    Left { left: f64, at: f64, top: f64 },
    Member(Member),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) joined: f64,
    position: f64,
    pub(super) top: f64,
    badge: f64,
    own: f64,
    pub(super) muted: f64,
    said: f64,
    pub(super) counted: bool,
}

/// A position of the row.
pub(super) struct Position {
    pub(super) joined: f64,
    pub(super) position: f64,
    pub(super) top: f64,
    pub(super) badge: f64,
    pub(super) own: f64,
    pub(super) muted: Option<f64>,
}

impl Field {
    /// What a field says; none where it is of another version.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_prefix(b"1|")?;
        if let Some(left) = text.strip_prefix(b"left|") {
            let [left, at, top] = numbers(left)?;
            return Some(Self::Left { left, at, top });
        }
        let (text, counted) = match text {
            [text @ .., b'|', b'0'] => (text, false),
            [text @ .., b'|', b'1'] => (text, true),
            _ => return None,
        };
        let [joined, position, top, badge, own, muted, said] = numbers(text)?;
        Some(Self::Member(Member {
            joined,
            position,
            top,
            badge,
            own,
            muted,
            said,
            counted,
        }))
    }

    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(64);
        let mut add = |first: &[u8], numbers: &[f64]| {
            text.extend_from_slice(first);
            for number in numbers {
                text.push(b'|');
                push_number(&mut text, *number);
            }
        };
        match self {
            Self::Left { left, at, top } => add(b"1|left", &[*left, *at, *top]),
            Self::Member(it) => add(
                b"1",
                &[
                    it.joined,
                    it.position,
                    it.top,
                    it.badge,
                    it.own,
                    it.muted,
                    it.said,
                    f64::from(u8::from(it.counted)),
                ],
            ),
        }
        text
    }

    pub(super) fn top(&self) -> f64 {
        match self {
            Self::Left { top, .. } => *top,
            Self::Member(it) => it.top,
        }
    }

    pub(super) fn raise(&mut self, seq: f64) {
        let (Self::Left { top, .. } | Self::Member(Member { top, .. })) = self;
        *top = top.max(seq);
    }
}

/// Numbers with a sign between them, and no more of them.
fn numbers<const N: usize>(text: &[u8]) -> Option<[f64; N]> {
    let mut parts = text.split(|byte| *byte == b'|');
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = digits(parts.next()?)?;
    }
    parts.next().is_none().then_some(numbers)
}

pub(super) fn count(field: Option<&Field>) -> f64 {
    match field {
        Some(Field::Member(it)) => (it.top - it.badge - it.own).max(0.0),
        _ => 0.0,
    }
}

/// What a conversation adds to the total.
pub(super) fn share(field: Option<&Field>) -> f64 {
    match field {
        Some(Field::Member(it)) if it.counted => count(field),
        _ => 0.0,
    }
}

/// A position of the row: of an older membership nothing, of a newer one everything, of the same one what is newer.
pub(super) fn placed(old: Option<Field>, step: &Position) -> Field {
    let top = old.map_or(step.top, |old| step.top.max(old.top()));
    let same = match old {
        Some(Field::Left { left, .. }) if step.joined < left => return old.expect("it is there"),
        Some(Field::Member(it)) if step.joined < it.joined => return Field::Member(it),
        Some(Field::Member(it)) if step.joined == it.joined => Some(it),
        _ => None,
    };
    let mut new = same.unwrap_or(Member {
        joined: step.joined,
        position: step.position,
        top,
        badge: step.badge,
        own: step.own,
        muted: 0.0,
        said: 0.0,
        counted: false,
    });
    new.top = top;
    if step.position > new.position {
        (new.position, new.badge, new.own) = (step.position, step.badge, step.own);
    }
    if let Some(muted) = step.muted
        && (step.position > new.said || same.is_none())
    {
        (new.muted, new.said) = (muted, step.position);
    }
    Field::Member(new)
}

/// The end of a membership: nothing of an older one counts after it.
pub(super) fn gone(old: Option<Field>, version: f64, now: f64) -> Field {
    match old {
        Some(Field::Left { left, .. }) if left >= version => old.expect("it is there"),
        Some(Field::Member(it)) if it.joined > version => Field::Member(it),
        _ => Field::Left {
            left: version,
            at: now,
            top: old.map_or(0.0, |old| old.top()),
        },
    }
}

/// The documented counters: no key where there is nothing.
pub(super) fn show(step: &mut Step<'_>, key: &[u8], number: f64) -> Result<(), Error> {
    if number > 0.0 {
        let mut text = Vec::with_capacity(16);
        push_number(&mut text, number);
        step.set(key, &text, None)
    } else {
        step.delete(key).map(drop)
    }
}

/// The frame about a conversation.
pub(super) fn frame(head: &[u8], conversation: &[u8], number: f64, total: f64) -> Vec<u8> {
    let mut frame = Vec::with_capacity(head.len() + conversation.len() + 64);
    frame.extend_from_slice(head);
    frame.extend_from_slice(br#"{"conversationId":""#);
    frame.extend_from_slice(conversation);
    frame.extend_from_slice(br#"","count":"#);
    push_number(&mut frame, number);
    frame.extend_from_slice(br#","total":"#);
    push_number(&mut frame, total);
    frame.push(b'}');
    frame
}
