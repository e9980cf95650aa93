//! Runs commands. Everything in this module runs under the engine's mutex.
//!
//! Invariants:
//! 1. No other command runs during a command, a script or a transaction, and its time stands still.
//! 2. A transaction runs only if each of its commands exists and has an accepted argument count. Otherwise none of them
//!    runs.
//! 3. The write permission is set once, when the command, script or transaction starts, so it cannot change half-way.

use redis::Value;

use crate::commands::args::{Args, to_error_text};
use crate::commands::table::{CommandEffect, CommandHandler, CommandSpec, find_command};
use crate::db::Db;
use crate::error::{CommandError, CommandResult};
use crate::scripting::ScriptEngine;

pub(crate) struct EngineState {
    pub db: Db,
    pub scripts: ScriptEngine,
}

impl EngineState {
    pub fn execute(&mut self, args: Args<'_>) -> CommandResult {
        let command = lookup_command(args)?;
        self.dispatch(command, args)
    }

    fn dispatch(&mut self, command: &CommandSpec, args: Args<'_>) -> CommandResult {
        match command.handler {
            CommandHandler::Function(_) => call_command(&mut self.db, command, args),
            CommandHandler::Script => self.scripts.run(&mut self.db, command, args),
            CommandHandler::Connection => Err(CommandError::new(format!(
                "ERR {} is not available on an in-process connection; use an atomic pipeline for MULTI and `subscriber()` for SUBSCRIBE",
                command.name
            ))),
        }
    }

    /// Runs commands as one transaction. As in Redis, an error of one command does not stop the commands after it.
    pub fn execute_transaction<'a>(
        &mut self,
        commands: &[impl AsRef<[&'a [u8]]>],
    ) -> Result<Vec<Value>, CommandError> {
        const EXEC_ABORTED: CommandError = CommandError::from_static(
            "EXECABORT Transaction discarded because of previous errors.",
        );
        let checked: Result<Vec<_>, _> = commands
            .iter()
            .map(|args| lookup_command(args.as_ref()))
            .collect();
        let checked = checked.map_err(|_| EXEC_ABORTED)?;
        let commands_with_args = checked.into_iter().zip(commands);
        Ok(commands_with_args
            .map(|(command, args)| self.dispatch(command, args.as_ref()))
            .map(|reply| reply.unwrap_or_else(CommandError::into_value))
            .collect())
    }
}

/// Looks the command up and checks its argument count.
pub(crate) fn lookup_command(args: Args<'_>) -> Result<&'static CommandSpec, CommandError> {
    let name = args.first().copied().unwrap_or_default();
    let command = find_command(name).ok_or_else(|| unknown_command_error(args))?;
    if !command.accepts_arg_count(args.len()) {
        return Err(CommandError::wrong_arity(command.name));
    }
    Ok(command)
}

/// Runs a database command for a client or for a script.
pub(crate) fn call_command(db: &mut Db, command: &CommandSpec, args: Args<'_>) -> CommandResult {
    db.require_redis_version(command.since, command.name)?;
    if command.effect == CommandEffect::Write {
        db.check_writable()?;
    }
    match command.handler {
        CommandHandler::Function(function) => function(db, args),
        CommandHandler::Script | CommandHandler::Connection => Err(CommandError::from_static(
            "ERR This Redis command is not allowed from script",
        )),
    }
}

fn unknown_command_error(args: Args<'_>) -> CommandError {
    const MAX_SHOWN_BYTES: usize = 128;
    let cut = |arg: &[u8]| to_error_text(&arg[..arg.len().min(MAX_SHOWN_BYTES)]);
    let name = args.first().map(|name| cut(name)).unwrap_or_default();
    let mut shown = String::new();
    for arg in args.iter().skip(1) {
        if shown.len() >= MAX_SHOWN_BYTES {
            break;
        }
        let arg = cut(&arg[..arg.len().min(MAX_SHOWN_BYTES - shown.len())]);
        shown += &format!("'{arg}' ");
    }
    CommandError::new(format!(
        "ERR unknown command '{name}', with args beginning with: {shown}"
    ))
}
