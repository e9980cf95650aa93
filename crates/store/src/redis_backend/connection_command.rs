//! Commands that change the state of their connection.
//!
//! Invariant: none of them is sent on a connection that callers share. After `WATCH`, the transaction of another caller
//! could be discarded; after `SUBSCRIBE`, no command would be answered any more.

use parlor_embedded::{CommandEffect, find_command};
use redis::{Arg, Cmd, RedisError, RedisResult, ServerErrorKind};

/// Commands that change their connection and that the embedded engine does not know.
const UNKNOWN_TO_EMBEDDED: [&str; 7] = [
    "AUTH",
    "HELLO",
    "MONITOR",
    "QUIT",
    "READONLY",
    "READWRITE",
    "RESET",
];

/// Rejects a command that changes the state of its connection, as the embedded engine does.
pub(super) fn reject_connection_command(cmd: &Cmd) -> RedisResult<()> {
    let Some(Arg::Simple(name)) = cmd.args_iter().next() else {
        return Ok(());
    };
    let is_listed = |listed: &&str| name.eq_ignore_ascii_case(listed.as_bytes());
    let changes_connection = match find_command(name) {
        Some(command) => command.effect == CommandEffect::Connection,
        None => UNKNOWN_TO_EMBEDDED.iter().any(is_listed),
    };
    if !changes_connection {
        return Ok(());
    }
    let detail = format!(
        "{} is not available on a shared connection; use an atomic pipeline for MULTI and `bus()` for SUBSCRIBE",
        String::from_utf8_lossy(name).to_ascii_uppercase()
    );
    Err(RedisError::from((
        ServerErrorKind::ResponseError.into(),
        "connection command",
        detail,
    )))
}
