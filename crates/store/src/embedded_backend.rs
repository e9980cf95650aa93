//! The embedded engine as the backend of a store.
//!
//! Invariants:
//! 1. A call runs inline on the caller's task. It waits only while the engine has backpressure, and at most for
//!    [`MAX_DISK_WAIT`].
//! 2. After an unclean start, the raised epoch reaches the disk no later than any other change of the run, also if the
//!    disk was full at the start. A clean stop therefore means that the raised epoch is on disk.

use std::sync::Arc;
use std::time::Duration;

use parlor_embedded::{Clock, EmbeddedConnection, EmbeddedEngine, EngineOptions, SystemClock};
use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, Pipeline, RedisFuture, RedisResult, ServerErrorKind, Value};
use tokio::time::timeout;

use crate::health::StoreShared;
use crate::options::{StoreOpenError, StoreOptions};
use crate::redis_backend::connector::timeout_error;
use crate::script;
use crate::task_group::TaskGroup;

/// Interval in which the clock is compared with the system clock.
const CLOCK_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for the disk. Then it counts as hanging.
const MAX_DISK_WAIT: Duration = Duration::from_secs(5);

/// Messages that may wait for the one subscriber that serves all subscriptions.
const MAX_QUEUED_MESSAGES: usize = 65_536;

/// Opens an engine. One task of `tasks` keeps the store's clock equal to the system clock.
pub(crate) async fn open(
    options: &StoreOptions,
    shared: &StoreShared,
    tasks: &TaskGroup,
) -> Result<EmbeddedConnection, StoreOpenError> {
    let engine = match &options.data_folder {
        Some(folder) if options.read_only => EmbeddedEngine::open_read_only(folder)?,
        _ => EmbeddedEngine::open(EngineOptions {
            data_folder: options.data_folder.clone(),
            clock: Arc::new(shared.clock.clone()),
            strict: options.strict,
            max_queued_messages: MAX_QUEUED_MESSAGES,
            max_flush_wait: MAX_DISK_WAIT,
            ..Default::default()
        })?,
    };
    let mut connection = engine.connection();
    let reconciled = reconcile_epoch(options, &mut connection, shared).await;
    reconciled.map_err(|source| StoreOpenError::Unreachable {
        url: options.url.to_string(),
        source,
    })?;
    let clock = shared.clock.clone();
    tasks.spawn(async move {
        loop {
            tokio::time::sleep(CLOCK_SYNC_INTERVAL).await;
            clock.adjust_to(SystemClock.now_ms(), Duration::ZERO);
        }
    });
    Ok(connection)
}

/// Reconciles the epoch. After a clean close the data keeps its origin, otherwise it gets a new one.
async fn reconcile_epoch(
    options: &StoreOptions,
    connection: &mut EmbeddedConnection,
    shared: &StoreShared,
) -> RedisResult<()> {
    if options.read_only {
        let epoch = shared.epoch.read_cmd().query_async(connection).await?;
        shared.epoch.adopt_stored(epoch);
        return Ok(());
    }
    let mut stored_origin = None;
    if connection.engine().previous_run_was_clean() {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(shared.epoch.key()).arg("origin");
        stored_origin = cmd.query_async(connection).await?;
    }
    let origin = stored_origin.unwrap_or_else(|| connection.engine().run_id());
    let mut connection = connection.with_deferred_writes();
    shared.epoch.reconcile(&mut connection, &origin).await
}

/// Waits until every change that was made before the call is on disk.
pub(crate) async fn wait_until_durable(connection: &EmbeddedConnection) -> RedisResult<()> {
    match timeout(MAX_DISK_WAIT, connection.engine().flush()).await {
        Ok(flushed) => Ok(flushed?),
        Err(_) => Err(timeout_error(
            "the disk of the data folder did not confirm a write in time",
        )),
    }
}

/// Runs a command without a future. Returns `None` if the command has to wait or if its script is not loaded.
pub(crate) fn try_execute(
    connection: &EmbeddedConnection,
    cmd: &Cmd,
) -> Option<RedisResult<Value>> {
    match connection.try_execute(cmd)? {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => None,
        reply => Some(reply),
    }
}

/// Runs a command. A registered script that the engine does not know is loaded, and the call is repeated.
pub(crate) fn execute<'a>(
    connection: &'a mut EmbeddedConnection,
    cmd: &'a Cmd,
) -> RedisFuture<'a, Value> {
    if !script::is_evalsha(cmd) {
        return connection.req_packed_command(cmd);
    }
    Box::pin(async move {
        let error = match connection.req_packed_command(cmd).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => error,
            reply => return reply,
        };
        let called = script::called_script(cmd).ok_or(error)?;
        script::load_into_embedded(connection, called).await?;
        connection.req_packed_command(cmd).await
    })
}

/// Runs a pipeline. Registered scripts that the engine does not know are loaded, and only their calls are repeated.
pub(crate) fn execute_pipeline<'a>(
    connection: &'a mut EmbeddedConnection,
    pipe: &'a Pipeline,
    offset: usize,
    count: usize,
) -> RedisFuture<'a, Vec<Value>> {
    if !pipe.cmd_iter().any(script::is_evalsha) {
        return connection.req_packed_commands(pipe, offset, count);
    }
    Box::pin(async move {
        if pipe.is_transaction() {
            let inlined = script::with_sources(pipe);
            return connection
                .req_packed_commands(inlined.as_ref().unwrap_or(pipe), offset, count)
                .await;
        }
        let mut replies = connection.req_packed_commands(pipe, offset, count).await?;
        for (cmd, reply) in pipe.cmd_iter().zip(&mut replies) {
            if let Some(called) = script::script_to_load(cmd, reply) {
                script::load_into_embedded(connection, called).await?;
                *reply = match connection.req_packed_command(cmd).await {
                    Ok(value) => value,
                    Err(error) => Value::ServerError(redis::ServerError::try_from(error)?),
                };
            }
        }
        Ok(replies)
    })
}
