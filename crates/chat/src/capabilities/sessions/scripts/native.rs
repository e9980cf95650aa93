//! Native versions of `read_session.lua` and `write_session.lua` for the embedded store.
//!
//! Invariant: the native versions have the same effects in the same order as the scripts. A test compares them.

use parlor_store::native::{
    CommandError, NativeScriptCall, NativeScriptResult, array, parse_digits, parse_number_arg,
    push_integer,
};
use redis::Value;

/// Fields of the hash, in the order of the reply of `read_session.lua`.
const FIELDS: [&[u8]; 6] = [
    b"status",
    b"active",
    b"device_id",
    b"login_time",
    b"last_seen",
    b"ip_address",
];

/// Content of the session key.
struct SessionKey {
    content: &'static [u8],
    fields: [Vec<u8>; 6],
    fingerprint: Vec<u8>,
}

/// Value of the check key.
struct CheckValue<'a> {
    revoked: f64,
    epoch: &'a [u8],
    fingerprint: &'a [u8],
}

fn read_key(call: &mut NativeScriptCall<'_>, session: &[u8]) -> Result<SessionKey, CommandError> {
    let Ok(fields) = call.hmget(session, FIELDS) else {
        // A key of another type.
        return Ok(SessionKey {
            content: b"foreign",
            fields: Default::default(),
            fingerprint: Vec::new(),
        });
    };
    let fields = fields.map(|field| field.map_or(Vec::new(), |value| value.to_vec()));
    let [status, active, device, login, ..] = &fields;
    let (content, fingerprint) = match device.is_empty() {
        true if call.exists(session)? => (&b"foreign"[..], Vec::new()),
        true => (&b"missing"[..], Vec::new()),
        false => {
            let fingerprint = [&login[..], active, status, device].join(&b'|');
            (&b"session"[..], fingerprint)
        }
    };
    Ok(SessionKey {
        content,
        fields,
        fingerprint,
    })
}

/// Parses `revoked_before|epoch|fingerprint`.
fn parse_check(text: &[u8]) -> Option<CheckValue<'_>> {
    let mut parts = text.splitn(3, |byte| *byte == b'|');
    let (revoked, epoch, fingerprint) = (parts.next()?, parts.next()?, parts.next()?);
    parse_digits(epoch)?;
    Some(CheckValue {
        revoked: parse_digits(revoked)?,
        epoch,
        fingerprint,
    })
}

pub(in crate::capabilities::sessions) fn read_session(
    call: &mut NativeScriptCall<'_>,
) -> NativeScriptResult {
    let [session, check_key] = call.keys_at(0)?;
    let [epoch, issued, now, ttl] = call.args_at(0)?;
    let check_text = call.get(check_key)?.map_or(Vec::new(), |it| it.to_vec());
    let check = parse_check(&check_text);
    let key = read_key(call, session)?;
    let is_verified = |check: &&CheckValue<'_>| {
        key.content != b"foreign" && check.epoch == epoch && check.fingerprint == key.fingerprint
    };
    let verdict = match check.as_ref().filter(is_verified) {
        None => &b"unverified"[..],
        Some(check) if !issued.is_empty() && parse_number_arg(issued)? <= check.revoked => {
            b"revoked"
        }
        Some(_) => {
            let ttl = parse_number_arg(ttl)?;
            let [status, active, ..] = &key.fields;
            let is_blocked = status == b"blocked" || active == b"false";
            let renewed = match key.content == b"session" && !now.is_empty() && !is_blocked {
                true => {
                    let last_seen = parse_digits(&key.fields[4]);
                    let cutoff = parse_number_arg(now)? - ttl;
                    last_seen.is_none_or(|last_seen| last_seen >= cutoff)
                }
                false => false,
            };
            if renewed {
                let ttl = ttl as u64;
                call.hset(session, &[(b"last_seen", now)])?;
                extend_ttl(call, session, ttl)?;
                call.pexpire(check_key, ttl)?;
            }
            b"verified"
        }
    };
    let words = [verdict, key.content, &check_text].into_iter();
    let fields = key.fields.iter().map(Vec::as_slice);
    Ok(Some(string_array(words.chain(fields))))
}

/// A hash without a TTL, or with a longer one, belongs to another service.
fn extend_ttl(
    call: &mut NativeScriptCall<'_>,
    session: &[u8],
    ttl: u64,
) -> Result<(), CommandError> {
    let remaining = u64::try_from(call.pttl(session)?);
    if remaining.is_ok_and(|remaining| remaining < ttl) {
        call.pexpire(session, ttl)?;
    }
    Ok(())
}

pub(in crate::capabilities::sessions) fn write_session(
    call: &mut NativeScriptCall<'_>,
) -> NativeScriptResult {
    let [session, check_key] = call.keys_at(0)?;
    let [epoch, revoked, ttl, mode, expected, expected_check] = call.args_at(0)?;
    let values = &call.args()[6..];
    let (pairs, rest) = values.as_chunks::<2>();
    let is_delete = mode == b"delete";
    if !is_delete && !rest.is_empty() || is_delete && values.is_empty() {
        return Ok(None);
    }
    let ttl = parse_number_arg(ttl)? as u64;
    let check_text = call.get(check_key)?.map_or(Vec::new(), |it| it.to_vec());
    let check = parse_check(&check_text);
    let was_revoked = check.as_ref().map_or(0.0, |check| check.revoked);
    let revoked = parse_number_arg(revoked)?.max(was_revoked);
    let key = read_key(call, session)?;
    if key.content == b"foreign" {
        return Ok(Some(string_array(["foreign"])));
    }
    let recorded = check.as_ref().map_or(&b""[..], |check| check.fingerprint);
    if mode == b"begin" {
        let [status, active, ..] = &key.fields;
        let is_blocked_now = active == b"false" || status == b"blocked";
        if is_blocked_now && !is_blocked(recorded) {
            return Ok(Some(string_array(["blocked_elsewhere"])));
        }
        // The user was blocked after the row of this session was written. In another epoch the hash is outdated.
        if is_blocked_now && check.is_some_and(|check| check.epoch == epoch) {
            return Ok(Some(string_array(["blocked"])));
        }
        if parse_number_arg(expected)? <= revoked {
            return Ok(Some(string_array(["revoked"])));
        }
    } else if key.fingerprint != expected || check_text != expected_check {
        return Ok(Some(string_array(["conflict"])));
    }
    if is_delete {
        let command = [&b"HDEL"[..], session];
        call.call(&[&command[..], values].concat())?;
    } else if !pairs.is_empty() {
        let fields: Vec<_> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
        call.hset(session, &fields)?;
        match key.fingerprint.is_empty() {
            true => drop(call.pexpire(session, ttl)?),
            false => extend_ttl(call, session, ttl)?,
        }
    }
    let mut record = Vec::new();
    push_integer(&mut record, revoked);
    record.push(b'|');
    record.extend_from_slice(epoch);
    record.push(b'|');
    if mode != b"unblock" {
        record.extend_from_slice(&read_key(call, session)?.fingerprint);
    }
    call.set(check_key, &record, Some(ttl))?;
    let [_, _, device, ..] = key.fields;
    Ok(Some(string_array([&b"written"[..], &device])))
}

/// True if a fingerprint says that the user is blocked.
fn is_blocked(fingerprint: &[u8]) -> bool {
    let mut parts = fingerprint.splitn(4, |byte| *byte == b'|').skip(1);
    parts.next() == Some(b"false") || parts.next() == Some(b"blocked")
}

fn string_array(words: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Value {
    let words = words.into_iter();
    array(words.map(|word| Value::BulkString(word.as_ref().to_vec())))
}

#[cfg(test)]
mod tests;
