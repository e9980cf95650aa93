//! Native version of `count_message.lua`, for the embedded engine.
//!
//! Invariant: it does what the script does, in the same order; a test compares both.

use parlor_store::native::{
    CommandError, NativeScriptCall, NativeScriptResult, array, parse_lua_number, parse_number_arg,
};
use redis::Value;

pub(in crate::capabilities::limits) fn count_message(
    script: &mut NativeScriptCall<'_>,
) -> NativeScriptResult {
    let [key] = script.keys_at(0)?;
    let [limit_text, window_text] = script.args_at(0)?;
    let (limit, window) = (
        parse_number_arg(limit_text)?,
        parse_number_arg(window_text)?,
    );
    let used = match script.get(key)? {
        None => Some(0.0),
        Some(text) => parse_integer(&text),
    };
    let Some(mut used) = used else {
        let key = String::from_utf8_lossy(key);
        return Err(CommandError::new(format!(
            "ERR {key} is not a counter; delete it"
        )));
    };
    let mut ms_left = script.pttl(key)? as f64;
    // In its last millisecond a key still exists, but its window is over.
    if used <= 0.0 || ms_left == 0.0 {
        (used, ms_left) = (0.0, 0.0);
    }
    let allowed = used < limit;
    if allowed && used == 0.0 {
        script.set(key, b"1", Some(window as u64))?;
        ms_left = window;
    } else if allowed {
        script.call(&[b"INCR", key])?;
    }
    if allowed {
        used += 1.0;
    }
    if ms_left == -1.0 {
        script.pexpire(key, window as u64)?;
        ms_left = window;
    }
    let retry = if allowed { -1.0 } else { ms_left.max(1.0) };
    let reply = [
        f64::from(u8::from(allowed)),
        limit,
        (limit - used).max(0.0),
        ms_left,
        retry,
    ];
    Ok(Some(array(reply.map(|number| Value::Int(number as i64)))))
}

/// Parses a whole number, as the pattern `^%-?%d+$` matches it.
fn parse_integer(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all.then(|| parse_lua_number(text)).flatten()
}

#[cfg(test)]
mod tests;
