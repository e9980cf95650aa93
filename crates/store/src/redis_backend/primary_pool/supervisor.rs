//! Supervises the connections of a pool: replaces discarded connections without a limit, detects dead ones, follows
//! failovers.
//!
//! ```text
//!                    ┌── failed: wait 50 ms × attempt, at most 2 s ──┐
//!                    ▼                                               │
//!  Disconnected ── connect: find the primary, check its role, load the scripts, reconcile the epoch
//!    ▲                                                               │ succeeded: installed, breaker closed
//!    │                                                               ▼
//!    ├── heartbeat failed or late, I/O error of a request ─────── Connected ◀┐
//!    ├── READONLY reply, or ROLE says that it is a replica ──────────┤  └────┘ heartbeat each second, and after a
//!    └── the sentinels name another primary ─────────────────────────┘         request that timed out
//! ```
//!
//! The pool reports its server as down when its last connection is discarded or its breaker opens.
//!
//! Invariants:
//! 1. While a pool exists, each of its holders either has a connection that answered the last heartbeat, or a task is
//!    establishing a connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisResult, Value};
use tokio::time::{sleep, timeout};

use super::PrimaryPoolInner;
use super::connections::ServerConnection;
use crate::redis_backend::retry::backoff;
use crate::redis_backend::sentinel::SentinelResolver;

/// Interval of heartbeats, which also read the server's time and epoch.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps one holder connected.
pub(crate) async fn maintain_connection(pool: Arc<PrimaryPoolInner>, holder_index: usize) {
    let mut attempt = 0;
    loop {
        if let Some(conn) = pool.connection_at(holder_index) {
            let reason = monitor_connection(&pool, holder_index, &conn).await;
            pool.discard_connection(holder_index, &conn, &reason);
            attempt = 1;
        }
        sleep(backoff(attempt)).await;
        attempt += 1;
        match pool.connect().await {
            Ok(conn) => pool.install_connection(holder_index, conn),
            Err(error) if !has_connection(&pool) => pool.report_down(&error.to_string()),
            Err(_) => {}
        }
        pool.first_attempt_ended.send_replace(true);
    }
}

fn has_connection(pool: &PrimaryPoolInner) -> bool {
    (0..pool.holders.len()).any(|holder_index| pool.connection_at(holder_index).is_some())
}

/// Monitors a connection. Returns the reason when the connection must be discarded.
async fn monitor_connection(
    pool: &PrimaryPoolInner,
    holder_index: usize,
    conn: &Arc<ServerConnection>,
) -> String {
    loop {
        if pool.is_disconnected(holder_index) {
            return "replaced".to_owned();
        }
        let heartbeat = tokio::select! {
            heartbeat = timeout(pool.connector.connect_timeout(), send_heartbeat(pool, holder_index, conn)) => heartbeat,
            () = wait_until_discarded(pool, holder_index) => continue,
        };
        match heartbeat {
            Ok(Ok(())) => pool.report_alive(),
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return "no heartbeat reply in time".to_owned(),
        }
        tokio::select! {
            () = pool.holders[holder_index].wake_supervisor.notified() => {}
            () = sleep(HEARTBEAT_INTERVAL) => {}
        }
    }
}

/// Returns when another task has discarded the connection. A heartbeat that hangs is then not awaited.
async fn wait_until_discarded(pool: &PrimaryPoolInner, holder_index: usize) {
    while !pool.is_disconnected(holder_index) {
        pool.holders[holder_index].wake_supervisor.notified().await;
    }
}

/// Sends a heartbeat and checks the role. On the epoch server it also reads the time and the epoch.
async fn send_heartbeat(
    pool: &PrimaryPoolInner,
    holder_index: usize,
    conn: &ServerConnection,
) -> RedisResult<()> {
    let mut con = conn.connection.clone();
    let mut pipe = redis::pipe();
    pipe.cmd("ROLE");
    if holder_index == 0 && pool.owner.is_epoch_server(&conn.server) {
        pipe.cmd("TIME").add_command(pool.shared.epoch.read_cmd());
    }
    let sent_at = Instant::now();
    let replies = con.send_packed_commands(&pipe, 0, pipe.len()).await?;
    let round_trip = Instant::now().duration_since(sent_at);
    let mut replies = replies.into_iter();
    // A user that may not run `ROLE` learns of a demotion from the first rejected write.
    if let Some(Value::Array(role)) = replies.next()
        && role.first() == Some(&Value::BulkString(b"slave".to_vec()))
    {
        return Err((ErrorKind::Client, "the server is a replica now").into());
    }
    if let Some(time) = replies.next() {
        pool.shared.clock.adjust_to_time_reply(time, round_trip);
    }
    // A server that is loading, or whose epoch key has a foreign type, returns an error to callers. Only a missing
    // epoch matters here.
    let epoch = match replies.next() {
        None | Some(Value::ServerError(_)) => return Ok(()),
        Some(epoch) => redis::from_redis_value::<Option<u64>>(epoch)?,
    };
    if !pool.shared.epoch.adopt_stored(epoch) {
        pool.owner
            .prepare_connection(&conn.server, &conn.info, &mut con)
            .await?;
    }
    Ok(())
}

/// Follows the announcements of a sentinel, so that a failover is noticed even if the old primary only hangs.
pub(crate) async fn follow_sentinel(pool: Arc<PrimaryPoolInner>, sentinel: Arc<SentinelResolver>) {
    let mut attempt = 0;
    loop {
        if let Ok((mut announcements, primary)) = sentinel.subscribe_failovers().await {
            attempt = 0;
            discard_outdated(&pool, |conn| conn.server != primary);
            while let Some(primary) = announcements.next().await {
                discard_outdated(&pool, |conn| conn.server != primary);
            }
        }
        attempt += 1;
        sleep(backoff(attempt)).await;
    }
}

fn discard_outdated(pool: &PrimaryPoolInner, outdated: impl Fn(&ServerConnection) -> bool) {
    for holder_index in 0..pool.holders.len() {
        if let Some(conn) = pool
            .connection_at(holder_index)
            .filter(|conn| outdated(conn))
        {
            pool.discard_connection(holder_index, &conn, "the sentinels name another primary");
        }
    }
}
