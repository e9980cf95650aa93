//! The embedded engine behind the store's handle.
//!
//! Always true: a call runs inline on the caller's task, without a time-out; there is nobody to wait for.

use std::sync::Arc;
use std::time::Duration;

use parlor_embedded::{Connection, Engine, Subscriber};
use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, Pipeline, RedisFuture, RedisResult, ServerErrorKind, Value};

use crate::clock::system_ms;
use crate::options::{OpenError, Options};
use crate::script;
use crate::shared::Shared;
use crate::tasks::Tasks;

/// How often the clock is compared with the machine's.
const CLOCK: Duration = Duration::from_secs(1);

/// Messages that wait for the one subscriber that carries all subscriptions.
const QUEUE: usize = 65_536;

/// An open embedded store.
pub(crate) struct Embedded {
    engine: Engine,
    connection: Connection,
    tasks: Tasks,
}

impl Embedded {
    pub(crate) async fn open(options: &Options, shared: &Arc<Shared>) -> Result<Self, OpenError> {
        let engine = match &options.data {
            Some(folder) if options.read_only => Engine::open_read_only(folder)?,
            _ => Engine::open(parlor_embedded::Options {
                path: options.data.clone(),
                clock: Arc::new(shared.clock.clone()),
                strict: options.strict,
                subscriber_queue: QUEUE,
                ..Default::default()
            })?,
        };
        let mut connection = engine.connection();
        let settled = settle(options, &engine, &mut connection, shared).await;
        settled.map_err(|source| OpenError::Away {
            url: options.url.to_string(),
            source,
        })?;
        let tasks = Tasks::default();
        let clock = shared.clock.clone();
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(CLOCK).await;
                clock.follow(system_ms(), Duration::ZERO);
            }
        });
        Ok(Self {
            engine,
            connection,
            tasks,
        })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn subscriber(&self) -> Subscriber {
        self.engine.subscriber()
    }

    pub(crate) async fn close(&self) {
        self.tasks.end();
        self.engine.close().await;
    }
}

/// The data is what it was when the engine was closed cleanly; otherwise it has a new origin.
async fn settle(
    options: &Options,
    engine: &Engine,
    connection: &mut Connection,
    shared: &Shared,
) -> RedisResult<()> {
    if options.read_only {
        let epoch = shared.epoch.read_cmd().query_async(connection).await?;
        shared.epoch.take(epoch);
        return Ok(());
    }
    let mut held = None;
    if engine.clean_start() {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(shared.epoch.key()).arg("origin");
        held = cmd.query_async(connection).await?;
    }
    let origin = held.unwrap_or_else(|| engine.run_id().to_owned());
    shared.epoch.settle(connection, &origin).await
}

/// A command for a caller who need not wait; none where it cannot be run as it is.
pub(crate) fn at_once(connection: &Connection, cmd: &Cmd) -> Option<RedisResult<Value>> {
    match connection.at_once(cmd)? {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => None,
        reply => Some(reply),
    }
}

/// A command; a script of ours that the engine does not know is loaded and called again.
pub(crate) fn command<'a>(connection: &'a mut Connection, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
    if !script::is_call(cmd) {
        return connection.req_packed_command(cmd);
    }
    Box::pin(async move {
        let error = match connection.req_packed_command(cmd).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => error,
            reply => return reply,
        };
        let called = script::called(cmd).ok_or(error)?;
        script::load_embedded(connection, called).await?;
        connection.req_packed_command(cmd).await
    })
}

/// A pipeline; scripts of ours that the engine does not know are loaded, and just their calls repeated.
pub(crate) fn pipeline<'a>(
    connection: &'a mut Connection,
    pipe: &'a Pipeline,
    offset: usize,
    count: usize,
) -> RedisFuture<'a, Vec<Value>> {
    if !pipe.cmd_iter().any(script::is_call) {
        return connection.req_packed_commands(pipe, offset, count);
    }
    Box::pin(async move {
        if pipe.is_transaction() {
            let inlined = script::inline_all(pipe);
            return connection
                .req_packed_commands(inlined.as_ref().unwrap_or(pipe), offset, count)
                .await;
        }
        let mut replies = connection.req_packed_commands(pipe, offset, count).await?;
        for (cmd, reply) in pipe.cmd_iter().zip(&mut replies) {
            if let Some(called) = script::missing(cmd, reply) {
                script::load_embedded(connection, called).await?;
                *reply = match connection.req_packed_command(cmd).await {
                    Ok(value) => value,
                    Err(error) => Value::ServerError(redis::ServerError::try_from(error)?),
                };
            }
        }
        Ok(replies)
    })
}
