//! Native scripts of the layout `devices` for the embedded engine: the most frequent connect and the most frequent
//! heartbeat. `docs/performance/send.md` has the measurement.
//!
//! Invariant: outside of these cases the native script writes nothing and the Lua script runs. Within them it writes,
//! replies and publishes what the Lua script does; a test compares both.

use parlor_store::native::{
    CommandError, NativeScriptCall, NativeScriptResult, array, parse_digits, parse_lua_number,
    parse_number_arg, push_integer,
};
use redis::Value;

const STATE_TTL: i64 = 48 * HOUR;
const HOUR: i64 = 3_600 * 1_000;
const MINUTE: f64 = 60_000.0;
const FIRST_LAYOUT_KEY: usize = 2;

/// Data of a device that the layout writes.
struct LayoutDevice<'a> {
    id: &'a [u8],
    node: &'a [u8],
    connected: &'a [u8],
    info: &'a [u8],
    status: &'a [u8],
    /// Remaining time until the device expires, in ms.
    left: u64,
}

/// `connect_device.lua` for the first device of an offline user: no state, or a state without device, tombstone and
/// explicit status, and no key of the layout.
pub(in crate::capabilities::presence) fn connect_first_device(
    step: &mut NativeScriptCall<'_>,
) -> NativeScriptResult {
    let [state_key, last_seen_key] = step.keys_at(0)?;
    let [user, now, now_iso, ttl, _, online, _, watch] = step.args_at(0)?;
    let [
        id,
        node,
        boot_id,
        connected,
        info,
        mode,
        _,
        since,
        _,
        device,
    ] = step.args_at(9)?;
    if !mode.is_empty() || !since.is_empty() {
        return Ok(None);
    }
    let [layout_key] = step.keys_at(FIRST_LAYOUT_KEY)?;
    if step.exists(layout_key)? {
        return Ok(None);
    }
    // The Lua script reports a key of a foreign type.
    if step.get(last_seen_key).is_err() {
        return Ok(None);
    }
    let mut held = None;
    for (field, value) in step.hgetall(state_key)? {
        match &field[..] {
            b"s" if *value == *b"offline" => {}
            b"v" => held = Some(value),
            b"seen" | b"seenMs" | b"until" | b"n" | b"left" => {}
            _ => return Ok(None),
        }
    }
    let now_text = now;
    let (now, ttl) = (parse_number_arg(now)?, parse_number_arg(ttl)?);
    let before = held
        .as_deref()
        .and_then(parse_lua_number)
        .unwrap_or_default();
    let (version, latest) = ((before + 1.0).max(now), now + ttl);
    let (version_text, latest_text) = (format_integer(version), format_integer(latest));
    let info_field = [b"i:", id].concat();
    let device_field = [b"d:", id].concat();
    let mut entry = [node, b"#", boot_id, b"|", &latest_text, b"|", connected].concat();
    if device != id {
        entry.extend_from_slice(&[b"|", device].concat());
    }
    let fields = [
        (&info_field[..], info),
        (&device_field, &entry),
        (b"s", b"online"),
        (b"v", &version_text),
        (b"seen", now_iso),
        (b"seenMs", now_text),
        (b"until", &latest_text),
        (b"n", b"1"),
    ];
    // Deleted first: a volatile write does not write an overwritten field to disk, but a published version must be.
    if held.is_some() {
        step.call(&[b"HDEL", state_key, b"v"])?;
    }
    step.hset(state_key, &fields[usize::from(info.is_empty())..])?;
    step.set(last_seen_key, now_iso, None)?;
    if step.pttl(state_key)? < STATE_TTL - HOUR {
        step.pexpire(state_key, STATE_TTL.cast_unsigned())?;
    }
    let device_entry = LayoutDevice {
        id,
        node,
        connected,
        info,
        status: b"online",
        left: ttl as u64,
    };
    write_device(step, &device_entry)?;
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
    let change_frame = [b"\x01online ", &version_text[..], b" ", now_iso, b" ", user];
    step.publish(b"PUBLISH", watch, &change_frame.concat());
    Ok(Some(array([
        Value::BulkString(b"online".to_vec()),
        Value::Int(version as i64),
        Value::Int(latest as i64),
        Value::BulkString(now_iso.to_vec()),
        Value::Int(0),
        Value::Int(0),
        Value::Int(0),
    ])))
}

/// `beat_single_device.lua`: the heartbeat of the only device of a user, known and live.
pub(in crate::capabilities::presence) fn beat_single_device(
    step: &mut NativeScriptCall<'_>,
) -> NativeScriptResult {
    let [state_key] = step.keys_at(0)?;
    let [_, now, _, ttl] = step.args_at(0)?;
    let [id, asking, asking_boot_id] = step.args_at(9)?;
    let device_field = [b"d:", id].concat();
    let info_field = [b"i:", id].concat();
    let fields = [&device_field[..], b"n", b"s", &info_field, b"seenMs"];
    let [value, count, status, info, seen] = step.hmget(state_key, fields)?;
    let (Some(value), Some(status)) = (value, status) else {
        return Ok(None);
    };
    let Some([node, boot_id, deadline, rest]) = split_device_entry(&value) else {
        return Ok(None);
    };
    let (now, ttl) = (parse_number_arg(now)?, parse_number_arg(ttl)?);
    let held = boot_id == asking_boot_id && (boot_id == b"api" || node == asking);
    let live = parse_lua_number(deadline).is_some_and(|deadline| deadline > now);
    // Once a minute a visible user's last seen time is due.
    let seen = seen.as_deref().and_then(parse_lua_number);
    let is_seen = *status == *b"offline" || seen.is_some_and(|seen| now - seen < MINUTE);
    if count.as_deref() != Some(b"1") || !held || !live || !is_seen {
        return Ok(None);
    }
    // The Lua script handles fields of other services, and a key of a foreign type.
    let [layout_key] = step.keys_at(FIRST_LAYOUT_KEY)?;
    let Ok([own]) = step.hmget(layout_key, [id]) else {
        return Ok(None);
    };
    if step.call(&[b"HLEN", layout_key])? != Value::Int(i64::from(own.is_some())) {
        return Ok(None);
    }
    let ends = format_integer(now + ttl);
    let renewed = [node, b"#", boot_id, b"|", &ends, b"|", rest].concat();
    let fields = [(&device_field[..], &renewed[..]), (b"until", &ends)];
    step.hset(state_key, &fields)?;
    if *status != *b"offline" {
        let device_entry = LayoutDevice {
            id,
            node,
            connected: rest.split(|byte| *byte == b'|').next().unwrap_or_default(),
            info: info.as_deref().unwrap_or_default(),
            status: &status,
            left: ttl as u64,
        };
        write_device(step, &device_entry)?;
    }
    Ok(Some(Value::Int(1)))
}

/// Splits `node#boot_id|deadline|connected_at`; a device id may follow the last part.
fn split_device_entry(value: &[u8]) -> Option<[&[u8]; 4]> {
    let find = |text: &[u8], sign| text.iter().position(|byte| *byte == sign);
    let (node, rest) = value.split_at(find(value, b'#')?);
    let rest = &rest[1..];
    let (boot_id, rest) = rest.split_at(find(rest, b'|')?);
    let rest = &rest[1..];
    let (deadline, connected) = rest.split_at(find(rest, b'|')?);
    parse_digits(deadline)?;
    Some([node, boot_id, deadline, &connected[1..]])
}

/// Writes `device_json` into the hash of the layout.
fn write_device(
    step: &mut NativeScriptCall<'_>,
    it: &LayoutDevice<'_>,
) -> Result<(), CommandError> {
    let [key] = step.keys_at(FIRST_LAYOUT_KEY)?;
    let [_, _, now_iso] = step.args_at(0)?;
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
    step.hset(key, &[(it.id, &entry.concat())])?;
    step.pexpire(key, it.left)?;
    Ok(())
}

fn format_integer(number: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(16);
    push_integer(&mut text, number);
    text
}

#[cfg(test)]
mod tests;
