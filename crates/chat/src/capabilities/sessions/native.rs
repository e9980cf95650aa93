//! Native versions of `read_session.lua` and `write_session.lua` for the embedded store.
//!
//! Invariant: the native versions have the same effects in the same order as the scripts. A test compares them.

use parlor_store::native::{
    NativeScriptCall, NativeScriptResult, array, parse_digits, parse_number_arg, push_integer,
};
use redis::Value;

pub(super) fn read_session(call: &mut NativeScriptCall<'_>) -> NativeScriptResult {
    let [session, check_key] = call.keys_at(0)?;
    let [epoch, issued, now, ttl] = call.args_at(0)?;
    let text = call.get(check_key)?.map(|it| it.to_vec());
    let Some(revoked) = text
        .as_deref()
        .and_then(|text| revoked_before_if_verified(text, epoch))
    else {
        return Ok(Some(string_array(["unverified"])));
    };
    if !issued.is_empty() && parse_number_arg(issued)? <= revoked {
        return Ok(Some(string_array(["revoked"])));
    }
    let fields = [
        &b"status"[..],
        b"active",
        b"device_id",
        b"login_time",
        b"last_seen",
        b"ip_address",
    ];
    // A key of another type is treated as a missing session.
    let held = call.hmget(session, fields).ok();
    let is_session = |held: &[Option<_>; 6]| held[..3].iter().any(Option::is_some);
    let Some(held) = held.filter(is_session) else {
        return Ok(Some(string_array(["missing"])));
    };
    if !now.is_empty() {
        let ttl = parse_number_arg(ttl)? as u64;
        call.hset(session, &[(b"last_seen", now)])?;
        call.pexpire(session, ttl)?;
        call.pexpire(check_key, ttl)?;
    }
    let held = held
        .iter()
        .map(|value| value.as_deref().unwrap_or_default());
    Ok(Some(string_array(
        [&b"present"[..]].into_iter().chain(held),
    )))
}

pub(super) fn write_session(call: &mut NativeScriptCall<'_>) -> NativeScriptResult {
    let [session, check_key] = call.keys_at(0)?;
    let [epoch, revoked, ttl, mode, issued, keep_hash_block] = call.args_at(0)?;
    let (pairs, []) = call.args()[6..].as_chunks::<2>() else {
        return Ok(None);
    };
    let (revoked, ttl) = (parse_number_arg(revoked)?, parse_number_arg(ttl)? as u64);
    let text = call.get(check_key)?.map(|it| it.to_vec());
    let previous_revoked = text
        .as_deref()
        .and_then(|text| revoked_before_if_verified(text, epoch));
    let revoked = previous_revoked.map_or(revoked, |was| revoked.max(was));
    // A key of another type is treated as a missing session.
    let held = call.hmget(session, [&b"status"[..], b"active", b"device_id"]);
    let [status, active, device] = held.unwrap_or_default();
    let blocked = status.as_deref() == Some(b"blocked") || active.as_deref() == Some(b"false");
    match mode {
        b"rebuild" if previous_revoked.is_some() => return Ok(Some(string_array(["conflict"]))),
        b"begin" if previous_revoked.is_some() && blocked => {
            return Ok(Some(string_array(["blocked"])));
        }
        b"begin" if parse_number_arg(issued)? <= revoked => {
            return Ok(Some(string_array(["revoked"])));
        }
        _ => {}
    }
    call.del(session)?;
    if !pairs.is_empty() {
        let fields: Vec<_> = pairs
            .iter()
            .map(|[field, value]| (*field, *value))
            .collect();
        call.hset(session, &fields)?;
        if mode == b"rebuild" && blocked && keep_hash_block == b"1" {
            call.hset(session, &[(b"status", b"blocked"), (b"active", b"false")])?;
        }
        call.pexpire(session, ttl)?;
    }
    let mut held = Vec::new();
    push_integer(&mut held, revoked);
    held.push(b'|');
    held.extend_from_slice(epoch);
    call.set(check_key, &held, Some(ttl))?;
    let device = device.as_deref().unwrap_or_default();
    Ok(Some(string_array([&b"written"[..], device])))
}

/// Parses the check value. Returns the time up to which tokens are revoked, if the hash was compared in this epoch.
fn revoked_before_if_verified(text: &[u8], epoch: &[u8]) -> Option<f64> {
    let at = text.iter().position(|byte| *byte == b'|')?;
    let (revoked, checked) = (&text[..at], &text[at + 1..]);
    let revoked = parse_digits(revoked)?;
    parse_digits(checked)?;
    (checked == epoch).then_some(revoked)
}

fn string_array(words: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Value {
    let words = words.into_iter();
    array(words.map(|word| Value::BulkString(word.as_ref().to_vec())))
}

#[cfg(test)]
mod tests;
