//! Supervises the connections of a pool: replaces discarded connections without a limit, detects dead ones, follows
//! failovers.
//!
//! Invariants:
//! 1. While a pool exists, each of its holders either has a connection that answered the last heartbeat, or a task is
//!    establishing a connection.

use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisResult, Value};
use tokio::time::{sleep, timeout};

use super::lines::ServerConnection;
use super::link::PrimaryPoolInner;
use super::retry::backoff;
use super::sentinel::SentinelResolver;
use crate::clock::monotonic;

/// Interval of heartbeats, which also read the server's time and epoch.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps one holder connected.
pub(crate) async fn maintain_connection(core: Arc<PrimaryPoolInner>, line: usize) {
    let mut attempt = 0;
    loop {
        if let Some(conn) = core.connection(line) {
            let reason = monitor_connection(&core, line, &conn).await;
            core.discard_connection(line, &conn, &reason);
            attempt = 1;
        }
        sleep(backoff(attempt)).await;
        attempt += 1;
        match core.connect().await {
            Ok(conn) => core.install_connection(line, conn),
            Err(error) if !has_connection(&core) => core.report_down(&error.to_string()),
            Err(_) => {}
        }
    }
}

fn has_connection(core: &PrimaryPoolInner) -> bool {
    (0..core.holders.len()).any(|line| core.connection(line).is_some())
}

/// Monitors a connection. Returns the reason when the connection must be discarded.
async fn monitor_connection(
    core: &PrimaryPoolInner,
    line: usize,
    conn: &Arc<ServerConnection>,
) -> String {
    loop {
        if core.is_disconnected(line) {
            return "replaced".to_owned();
        }
        let sign = tokio::select! {
            sign = timeout(core.dialer.connect_timeout(), send_heartbeat(core, line, conn)) => sign,
            () = wait_until_discarded(core, line) => continue,
        };
        match sign {
            Ok(Ok(())) => core.report_alive(),
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return "no heartbeat reply in time".to_owned(),
        }
        tokio::select! {
            () = core.holders[line].wake_supervisor.notified() => {}
            () = sleep(HEARTBEAT_INTERVAL) => {}
        }
    }
}

/// Returns when another task has discarded the connection. A heartbeat that hangs is then not awaited.
async fn wait_until_discarded(core: &PrimaryPoolInner, line: usize) {
    while !core.is_disconnected(line) {
        core.holders[line].wake_supervisor.notified().await;
    }
}

/// Sends a heartbeat and checks the role. On the epoch server it also reads the time and the epoch.
async fn send_heartbeat(
    core: &PrimaryPoolInner,
    line: usize,
    conn: &ServerConnection,
) -> RedisResult<()> {
    let mut con = conn.connection.clone();
    let mut pipe = redis::pipe();
    pipe.cmd("ROLE");
    if line == 0 && core.owner.is_epoch_server(&conn.server) {
        pipe.cmd("TIME").add_command(core.shared.epoch.read_cmd());
    }
    let asked = monotonic();
    let replies = con.send_packed_commands(&pipe, 0, pipe.len()).await?;
    let round_trip = monotonic().duration_since(asked);
    let mut replies = replies.into_iter();
    // A user that may not run `ROLE` learns of a demotion from the first rejected write.
    if let Some(Value::Array(role)) = replies.next()
        && role.first() == Some(&Value::BulkString(b"slave".to_vec()))
    {
        return Err((ErrorKind::Client, "the server is a replica now").into());
    }
    if let Some(time) = replies.next() {
        core.shared.clock.adjust_to_time_reply(time, round_trip);
    }
    // A server that is loading, or whose epoch key has a foreign type, returns an error to callers. Only a missing
    // epoch matters here.
    let epoch = match replies.next() {
        None | Some(Value::ServerError(_)) => return Ok(()),
        Some(epoch) => redis::from_redis_value::<Option<u64>>(epoch)?,
    };
    if !core.shared.epoch.adopt_stored(epoch) {
        core.owner
            .prepare_connection(&conn.server, &conn.info, &mut con)
            .await?;
    }
    Ok(())
}

/// Follows the announcements of a sentinel, so that a failover is noticed even if the old primary only hangs.
pub(crate) async fn follow_sentinel(core: Arc<PrimaryPoolInner>, sentinel: Arc<SentinelResolver>) {
    let mut attempt = 0;
    loop {
        if let Ok((mut announcements, primary)) = sentinel.subscribe_failovers().await {
            attempt = 0;
            discard_outdated(&core, |conn| conn.server != primary);
            while let Some(primary) = announcements.next().await {
                discard_outdated(&core, |conn| conn.server != primary);
            }
        }
        attempt += 1;
        sleep(backoff(attempt)).await;
    }
}

fn discard_outdated(core: &PrimaryPoolInner, outdated: impl Fn(&ServerConnection) -> bool) {
    for line in 0..core.holders.len() {
        if let Some(conn) = core.connection(line).filter(|conn| outdated(conn)) {
            core.discard_connection(line, &conn, "the sentinels name another primary");
        }
    }
}
