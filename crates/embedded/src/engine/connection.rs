//! The engine as a connection of the redis crate.
//!
//! Invariants:
//! 1. A command runs on the caller's thread, under the mutex, and never between two commands of a transaction.
//! 2. The caller waits for backpressure before it takes the mutex, never while it holds it.

use parking_lot::MutexGuard;
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value};
use smallvec::SmallVec;

use crate::commands::table::{CommandEffect, CommandHandler, find_command};
use crate::engine::EmbeddedEngine;
use crate::engine::state::EngineState;
use crate::error::CommandError;
use crate::scripting::native::NativeScript;

/// Commands of a pipeline that run between two checks for backpressure.
const COMMANDS_PER_CAPACITY_CHECK: usize = 64;

/// Handle to the engine that accepts the redis crate's commands, pipelines and scripts. Cloning is cheap, and any
/// number of clones may be used at the same time.
#[derive(Clone)]
pub struct EmbeddedConnection {
    engine: EmbeddedEngine,
    volatile_updates: bool,
    /// Whether writes are accepted while the disk fails.
    defers_writes: bool,
}

impl EmbeddedConnection {
    /// The engine of this connection.
    pub fn engine(&self) -> &EmbeddedEngine {
        &self.engine
    }

    pub(crate) fn new(engine: EmbeddedEngine) -> Self {
        Self {
            engine,
            volatile_updates: false,
            defers_writes: false,
        }
    }

    /// Returns a connection whose updates are volatile.
    ///
    /// If a command on this connection overwrites an existing string, hash field or score, or changes a deadline, the
    /// change stays in memory and is not written to disk. After a restart the key has an older value and an older
    /// deadline. If that older deadline has passed, the whole key is gone, including items that other connections
    /// added, unless one of them set a new deadline.
    ///
    /// Keys and items that a command creates or deletes are written to disk as usual, and so are changes of lists.
    ///
    /// While the disk is full or hangs, these commands are not rejected, as with
    /// [`with_deferred_writes`](Self::with_deferred_writes).
    #[must_use]
    pub fn with_volatile_updates(&self) -> Self {
        Self {
            engine: self.engine.clone(),
            volatile_updates: true,
            defers_writes: true,
        }
    }

    /// Returns a connection whose writes are accepted while the disk is full or hangs, up to
    /// [`EngineOptions::max_unflushed_bytes`](crate::EngineOptions::max_unflushed_bytes). They reach the disk with the next
    /// flush that succeeds. An engine that ends before that was not closed cleanly.
    #[must_use]
    pub fn with_deferred_writes(&self) -> Self {
        Self {
            engine: self.engine.clone(),
            volatile_updates: self.volatile_updates,
            defers_writes: true,
        }
    }

    /// Loads a script (`SCRIPT LOAD`) and attaches a native script, which runs whenever `EVALSHA` calls the script. The
    /// native script must do exactly what the Lua script does.
    pub fn load_native_script(&self, source: &str, native: NativeScript) -> RedisResult<()> {
        let loaded = self.lock().scripts.load_native(source.as_bytes(), native);
        loaded.map_err(RedisError::from)
    }

    fn lock(&self) -> MutexGuard<'_, EngineState> {
        let mut state = match self.defers_writes {
            true => self.engine.lock_for_deferrable_writes(),
            false => self.engine.lock(),
        };
        state.db.journal.set_volatile_updates(self.volatile_updates);
        state
    }

    /// Runs a command without a future, which would cost more than many commands do. Returns `None`, and has not run
    /// the command, if the command may write and there is backpressure.
    pub fn try_execute(&self, command: &Cmd) -> Option<RedisResult<Value>> {
        let args = match collect_args(command) {
            Ok(args) => args,
            Err(error) => return Some(Err(error)),
        };
        if self.engine.has_backpressure() && may_write(&args) {
            return None;
        }
        Some(self.lock().execute(&args).map_err(RedisError::from))
    }

    async fn execute(&self, command: &Cmd) -> RedisResult<Value> {
        let args = collect_args(command)?;
        self.wait_for_write_capacity(std::slice::from_ref(&args))
            .await;
        self.lock().execute(&args).map_err(RedisError::from)
    }

    /// Waits while there is backpressure, if one of these commands may write. Reads never wait.
    async fn wait_for_write_capacity(&self, commands: &[ArgVec<'_>]) {
        if self.engine.has_backpressure() && commands.iter().any(|args| may_write(args)) {
            self.engine.wait_for_write_capacity().await;
        }
    }

    async fn execute_pipeline(&self, commands: &[ArgVec<'_>]) -> Vec<Value> {
        let mut replies = Vec::with_capacity(commands.len());
        for chunk in commands.chunks(COMMANDS_PER_CAPACITY_CHECK) {
            self.wait_for_write_capacity(chunk).await;
            for args in chunk {
                // The mutex is taken for each command, so each command has its own time, as over the network.
                let reply = self.lock().execute(args);
                replies.push(reply.unwrap_or_else(CommandError::into_value));
            }
        }
        replies
    }
}

type ArgVec<'a> = SmallVec<[&'a [u8]; 8]>;

fn may_write(args: &[&[u8]]) -> bool {
    let command = args.first().and_then(|name| find_command(name));
    command.is_some_and(|command| {
        command.effect == CommandEffect::Write || matches!(command.handler, CommandHandler::Script)
    })
}

/// Maximum size of one command. Together with the limit of 512 MiB for a string, it ensures that every row fits into
/// the SQLite file.
const MAX_COMMAND_BYTES: usize = 256 * 1024 * 1024;

fn collect_args(command: &Cmd) -> RedisResult<ArgVec<'_>> {
    const TOO_LARGE: CommandError =
        CommandError::from_static("ERR the command is larger than 256 MiB");
    let argument = |arg| match arg {
        Arg::Simple(bytes) => Ok(bytes),
        Arg::Cursor => Ok(&b"0"[..]),
        _ => Err(RedisError::from((
            ErrorKind::Client,
            "unknown kind of argument",
        ))),
    };
    let words = command.args_iter();
    // Allocates once: some script calls have a hundred arguments.
    let mut args = ArgVec::with_capacity(words.len());
    for arg in words {
        args.push(argument(arg)?);
    }
    match args.iter().map(|arg| arg.len()).sum::<usize>() {
        ..=MAX_COMMAND_BYTES => Ok(args),
        _ => Err(TOO_LARGE.into()),
    }
}

impl ConnectionLike for EmbeddedConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.execute(cmd))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let commands: Vec<_> = pipeline
                .cmd_iter()
                .map(collect_args)
                .collect::<RedisResult<_>>()?;
            if pipeline.is_transaction() {
                self.wait_for_write_capacity(&commands).await;
                let replies = self.lock().execute_transaction(&commands)?;
                return Ok(vec![Value::Array(replies)]);
            }
            let replies = self.execute_pipeline(&commands).await;
            Ok(replies.into_iter().skip(offset).take(count).collect())
        })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::{EmbeddedEngine, EngineOptions};

    #[tokio::test]
    async fn a_command_over_256_mib_is_rejected() {
        let engine = EmbeddedEngine::open(EngineOptions::default()).unwrap();
        let value = vec![b'v'; super::MAX_COMMAND_BYTES];
        let mut set = redis::cmd("SET");
        let reply = set
            .arg("key")
            .arg(value)
            .exec_async(&mut engine.connection())
            .await;
        assert!(reply.unwrap_err().to_string().contains("256 MiB"));
    }
}
