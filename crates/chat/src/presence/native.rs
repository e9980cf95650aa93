//! The usual connect and the usual beat in Rust, for the embedded engine.
//!
//! Always true: where the case is not the usual one nothing is written and the script decides. In the usual one the same is
//! written, answered and published as by the script; a test compares them.

use parlor_store::native::{Done, Error, Step, array, digits, number, push_number, said};
use redis::Value;

const STATE_TTL: i64 = 48 * HOUR;
const HOUR: i64 = 3_600 * 1_000;
const FIRST_OF_LAYOUT: usize = 2;

/// A device as the layouts show it.
struct Shown<'a> {
    id: &'a [u8],
    node: &'a [u8],
    connected: &'a [u8],
    info: &'a [u8],
    status: &'a [u8],
    /// How long it lives, ms.
    left: u64,
}

/// A layout: `project` and `renew` of its script for a device that has come or has beaten.
struct Layout {
    show: fn(&mut Step<'_>, &Shown<'_>) -> Result<(), Error>,
    /// Its key is a hash, which somebody else may have put something else in the place of. A string is just written.
    hash: bool,
}

macro_rules! layout {
    ($layout:ident, $hash:literal, $show:expr) => {
        pub(super) mod $layout {
            use super::{Done, Layout, Step};

            const LAYOUT: Layout = Layout {
                show: $show,
                hash: $hash,
            };

            pub(in crate::presence) fn connect(step: &mut Step<'_>) -> Done {
                super::connect(step, &LAYOUT)
            }

            pub(in crate::presence) fn beat(step: &mut Step<'_>) -> Done {
                super::beat(step, &LAYOUT)
            }
        }
    };
}
layout!(devices, true, super::show_devices);
layout!(document, false, super::show_document);
layout!(status, false, super::show_status);

/// `connect.lua` for the first device of somebody who is offline: one of whom nothing is known, or who has no device, no
/// grave and no explicit status, and whose layout shows nothing.
fn connect(step: &mut Step<'_>, layout: &Layout) -> Done {
    let [state_key] = step.take_keys(0)?;
    let [user, now, now_iso, ttl, _, online, _, watch] = step.take(0)?;
    let [id, node, epoch, connected, info, mode, _, since] = step.take(8)?;
    if !mode.is_empty() || !since.is_empty() {
        return Ok(None);
    }
    let [layout_key] = step.take_keys(FIRST_OF_LAYOUT)?;
    if layout.hash && step.exists(layout_key)? {
        return Ok(None);
    }
    let (mut held, mut seen) = (None, None);
    for (field, value) in step.all_fields(state_key)? {
        match &field[..] {
            b"s" if *value == *b"offline" => {}
            b"v" => held = Some(value),
            b"seen" => seen = Some(value),
            b"until" | b"n" | b"left" => {}
            _ => return Ok(None),
        }
    }
    let (now, ttl) = (said(now)?, said(ttl)?);
    let before = held.as_deref().and_then(number).unwrap_or_default();
    let (version, latest) = ((before + 1.0).max(now), now + ttl);
    let (version_text, latest_text) = (text(version), text(latest));
    let info_field = [b"i:", id].concat();
    let device_field = [b"d:", id].concat();
    let device = [node, b"#", epoch, b"|", &latest_text, b"|", connected].concat();
    let fields = [
        (&info_field[..], info),
        (&device_field, &device),
        (b"s", b"online"),
        (b"v", &version_text),
        (b"until", &latest_text),
        (b"n", b"1"),
    ];
    // Taken out first: what a beat overwrites is not kept on disk, and a version that was told has to be.
    if held.is_some() {
        step.call(&[b"HDEL", state_key, b"v"])?;
    }
    step.set_fields(state_key, &fields[usize::from(info.is_empty())..])?;
    if step.ttl(state_key)? < STATE_TTL - HOUR {
        step.expire(state_key, STATE_TTL.cast_unsigned())?;
    }
    let shown = Shown {
        id,
        node,
        connected,
        info,
        status: b"online",
        left: ttl as u64,
    };
    (layout.show)(step, &shown)?;
    let event = [
        br#"{"userId":""#,
        user,
        br#"","timestamp":""#,
        now_iso,
        br#"","version":"#,
        &version_text,
        b"}",
    ];
    step.publish(b"PUBLISH", online, &event.concat());
    let last = seen.as_deref().unwrap_or(b"-");
    let told = [b"\x01online ", &version_text[..], b" ", last, b" ", user];
    step.publish(b"PUBLISH", watch, &told.concat());
    Ok(Some(array([
        Value::BulkString(b"online".to_vec()),
        Value::Int(version as i64),
        Value::Int(latest as i64),
        Value::BulkString(seen.as_deref().unwrap_or_default().to_vec()),
        Value::Int(0),
    ])))
}

/// `usual.lua`: the beat of the only device of a user, known and live.
fn beat(step: &mut Step<'_>, layout: &Layout) -> Done {
    let [state_key] = step.take_keys(0)?;
    let [_, now, _, ttl] = step.take(0)?;
    let [id, asking, asking_epoch] = step.take(8)?;
    let device_field = [b"d:", id].concat();
    let info_field = [b"i:", id].concat();
    let fields = [&device_field[..], b"n", b"s", &info_field];
    let [value, count, status, info] = step.fields(state_key, fields)?;
    let (Some(value), Some(status)) = (value, status) else {
        return Ok(None);
    };
    let Some([node, epoch, deadline, connected]) = device(&value) else {
        return Ok(None);
    };
    let (now, ttl) = (said(now)?, said(ttl)?);
    let held = epoch == asking_epoch && (epoch == b"api" || node == asking);
    let live = number(deadline).is_some_and(|deadline| deadline > now);
    // A key that somebody else has put in the layout's place is mended by the script.
    let [layout_key] = step.take_keys(FIRST_OF_LAYOUT)?;
    let fits = !layout.hash || step.fields(layout_key, []).is_ok();
    if count.as_deref() != Some(b"1") || !held || !live || !fits {
        return Ok(None);
    }
    let ends = text(now + ttl);
    let renewed = [node, b"#", epoch, b"|", &ends, b"|", connected].concat();
    let fields = [(&device_field[..], &renewed[..]), (b"until", &ends)];
    step.set_fields(state_key, &fields)?;
    if *status != *b"offline" {
        let shown = Shown {
            id,
            node,
            connected,
            info: info.as_deref().unwrap_or_default(),
            status: &status,
            left: ttl as u64,
        };
        (layout.show)(step, &shown)?;
    }
    Ok(Some(Value::Int(1)))
}

/// `node#epoch|deadline|connected`.
fn device(value: &[u8]) -> Option<[&[u8]; 4]> {
    let find = |text: &[u8], sign| text.iter().position(|byte| *byte == sign);
    let (node, rest) = value.split_at(find(value, b'#')?);
    let rest = &rest[1..];
    let (epoch, rest) = rest.split_at(find(rest, b'|')?);
    let rest = &rest[1..];
    let (deadline, connected) = rest.split_at(find(rest, b'|')?);
    digits(deadline)?;
    Some([node, epoch, deadline, &connected[1..]])
}

/// `entry` of the layout `devices`, in its hash.
fn show_devices(step: &mut Step<'_>, it: &Shown<'_>) -> Result<(), Error> {
    let [key] = step.take_keys(FIRST_OF_LAYOUT)?;
    let [_, _, now_iso] = step.take(0)?;
    let status = match it.status {
        b"online" => Vec::new(),
        status => [br#","status":""#, status, b"\""].concat(),
    };
    let info = match it.info {
        b"" => Vec::new(),
        info => [br#","device":"#, info].concat(),
    };
    let entry = [
        br#"{"serverId":""#,
        it.node,
        br#"","connectedAt":""#,
        it.connected,
        br#"","refreshedAt":""#,
        now_iso,
        b"\"",
        &status,
        &info,
        b"}",
    ];
    step.set_fields(key, &[(it.id, &entry.concat())])?;
    step.expire(key, it.left)?;
    Ok(())
}

/// `document` of the layout of this name.
fn show_document(step: &mut Step<'_>, it: &Shown<'_>) -> Result<(), Error> {
    let [key] = step.take_keys(FIRST_OF_LAYOUT)?;
    let [user, now] = step.take(0)?;
    let document = [
        br#"{"userId":""#,
        user,
        br#"","status":"online","lastSeen":"#,
        now,
        b"}",
    ];
    step.set(key, &document.concat(), Some(it.left))
}

/// The word of the layout `status`.
fn show_status(step: &mut Step<'_>, it: &Shown<'_>) -> Result<(), Error> {
    let [key] = step.take_keys(FIRST_OF_LAYOUT)?;
    step.set(key, b"online", Some(it.left))
}

fn text(number: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(16);
    push_number(&mut text, number);
    text
}

#[cfg(test)]
mod tests;
