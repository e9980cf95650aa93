//! Native version of `count_message.lua`, for the embedded engine.
//!
//! Invariant: it does what the script does, in the same order; a test compares both.

use parlor_store::native::{
    CommandError, NativeScriptCall, NativeScriptResult, array, parse_lua_number, parse_number_arg,
};
use redis::Value;

pub(super) fn count_message(step: &mut NativeScriptCall<'_>) -> NativeScriptResult {
    let [key] = step.keys_at(0)?;
    let [limit_text, window_text] = step.args_at(0)?;
    let (limit, window) = (
        parse_number_arg(limit_text)?,
        parse_number_arg(window_text)?,
    );
    let used = match step.get(key)? {
        None => Some(0.0),
        Some(text) => parse_integer(&text),
    };
    let Some(mut used) = used else {
        let key = String::from_utf8_lossy(key);
        return Err(CommandError::new(format!(
            "ERR {key} is not a counter; delete it"
        )));
    };
    let mut left = step.pttl(key)? as f64;
    // In its last millisecond a key still exists, but its window is over.
    if used <= 0.0 || left == 0.0 {
        (used, left) = (0.0, 0.0);
    }
    let allowed = used < limit;
    if allowed && used == 0.0 {
        step.set(key, b"1", Some(window as u64))?;
        left = window;
    } else if allowed {
        step.call(&[b"INCR", key])?;
    }
    if allowed {
        used += 1.0;
    }
    if left == -1.0 {
        step.pexpire(key, window as u64)?;
        left = window;
    }
    let retry = if allowed { -1.0 } else { left.max(1.0) };
    let reply = [
        f64::from(u8::from(allowed)),
        limit,
        (limit - used).max(0.0),
        left,
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
