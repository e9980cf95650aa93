//! Keeps the connections of a link: replaces lost ones for ever, notices dead ones, follows failovers.
//!
//! Always true: while a link lives, each of its lines either has a connection that answered within the last heartbeat,
//! or somebody is making one.

use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisResult, Value};
use tokio::time::{sleep, timeout};

use super::lines::Conn;
use super::link::Core;
use super::retry::back_off;
use super::sentinel::Sentinel;
use crate::clock::monotonic;

/// How often a connection is asked for a sign of life, and the store for its time and epoch.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Keeps one line connected.
pub(crate) async fn keep(core: Arc<Core>, line: usize) {
    let mut attempt = 0;
    loop {
        if let Some(conn) = core.current(line) {
            let reason = watch(&core, line, &conn).await;
            core.lose(line, &conn, &reason);
            attempt = 1;
        }
        sleep(back_off(attempt)).await;
        attempt += 1;
        match core.connect().await {
            Ok(conn) => core.publish(line, conn),
            Err(error) if !has_any(&core) => core.trouble(&error.to_string()),
            Err(_) => {}
        }
    }
}

fn has_any(core: &Core) -> bool {
    (0..core.lines.len()).any(|line| core.current(line).is_some())
}

/// Returns when the connection is not to be used any more, with the reason.
async fn watch(core: &Core, line: usize, conn: &Arc<Conn>) -> String {
    loop {
        if core.is_lost(line) {
            return "replaced".to_owned();
        }
        let sign = tokio::select! {
            sign = timeout(core.dialer.patience(), beat(core, line, conn)) => sign,
            () = lost(core, line) => continue,
        };
        match sign {
            Ok(Ok(())) => core.answers(),
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return "no sign of life in time".to_owned(),
        }
        tokio::select! {
            () = core.lines[line].wake.notified() => {}
            () = sleep(HEARTBEAT) => {}
        }
    }
}

/// Returns when the connection was given up by somebody else: it may hang, and nobody has to wait for that.
async fn lost(core: &Core, line: usize) {
    while !core.is_lost(line) {
        core.lines[line].wake.notified().await;
    }
}

/// A sign of life and the role; from the leading server also the time and the epoch.
async fn beat(core: &Core, line: usize, conn: &Conn) -> RedisResult<()> {
    let mut con = conn.con.clone();
    let mut pipe = redis::pipe();
    pipe.cmd("ROLE");
    if line == 0 && core.host.leads(&conn.server) {
        pipe.cmd("TIME").add_command(core.shared.epoch.read_cmd());
    }
    let asked = monotonic();
    let replies = con.send_packed_commands(&pipe, 0, pipe.len()).await?;
    let round_trip = monotonic().duration_since(asked);
    let mut replies = replies.into_iter();
    // Who may not ask for the role learns it by the first write that is refused.
    if let Some(Value::Array(role)) = replies.next()
        && role.first() == Some(&Value::BulkString(b"slave".to_vec()))
    {
        return Err((ErrorKind::Client, "the server is a replica now").into());
    }
    if let Some(time) = replies.next() {
        core.shared.clock.follow_reply(time, round_trip);
    }
    // A server that is loading or was given a foreign key says so to callers; here only a missing epoch matters.
    let epoch = match replies.next() {
        None | Some(Value::ServerError(_)) => return Ok(()),
        Some(epoch) => redis::from_redis_value::<Option<u64>>(epoch)?,
    };
    if !core.shared.epoch.take(epoch) {
        core.host
            .admit(&conn.server, &conn.identity, &mut con)
            .await?;
    }
    Ok(())
}

/// Follows what a sentinel announces, so that a failover is noticed even when the old primary just hangs.
pub(crate) async fn follow(core: Arc<Core>, sentinel: Arc<Sentinel>) {
    let mut attempt = 0;
    loop {
        if let Ok((mut announcements, primary)) = sentinel.listen().await {
            attempt = 0;
            replace(&core, |conn| conn.server != primary);
            while let Some(primary) = announcements.next().await {
                replace(&core, |conn| conn.server != primary);
            }
        }
        attempt += 1;
        sleep(back_off(attempt)).await;
    }
}

fn replace(core: &Core, outdated: impl Fn(&Conn) -> bool) {
    for line in 0..core.lines.len() {
        if let Some(conn) = core.current(line).filter(|conn| outdated(conn)) {
            core.lose(line, &conn, "the sentinels name another primary");
        }
    }
}
