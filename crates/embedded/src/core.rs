//! Running commands: everything that happens under the engine's lock.
//!
//! Always true:
//! 1. A command, a script and a transaction see one moment, and either all of a transaction's commands are queued or
//!    none of them runs.
//! 2. Whether writes are allowed is decided once at the start, so nothing is refused half-way.

use redis::Value;

use crate::args::{Args, to_error_text};
use crate::db::Db;
use crate::error::{CommandError, CommandResult};
use crate::script::ScriptEngine;
use crate::table::{self, CommandHandler, CommandSpec};

/// The database and the script host beside it.
pub(crate) struct EngineState {
    pub db: Db,
    pub scripts: ScriptEngine,
}

impl EngineState {
    /// Runs one command.
    pub fn execute(&mut self, args: Args<'_>) -> CommandResult {
        let command = lookup_command(args)?;
        self.dispatch(command, args)
    }

    fn dispatch(&mut self, command: &CommandSpec, args: Args<'_>) -> CommandResult {
        match command.handler {
            CommandHandler::Db(_) => call_command(&mut self.db, command, args),
            CommandHandler::Script => self.scripts.run(&mut self.db, command, args),
            CommandHandler::Connection => Err(CommandError::new(format!(
                "ERR {} is not available on an in-process connection; use an atomic pipeline for MULTI and `subscriber()` for SUBSCRIBE",
                command.name
            ))),
        }
    }

    /// Runs commands as one transaction. As in Redis, a command that fails while running does not stop the others.
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
        let both = commands.iter().zip(checked);
        let run = both.map(|(args, command)| self.dispatch(command, args.as_ref()));
        Ok(run
            .map(|reply| reply.unwrap_or_else(CommandError::into_value))
            .collect())
    }
}

/// The command that is asked for, if it exists and has the right number of arguments.
pub(crate) fn lookup_command(args: Args<'_>) -> Result<&'static CommandSpec, CommandError> {
    let name = args.first().copied().unwrap_or_default();
    let command = table::find(name).ok_or_else(|| unknown_command_error(args))?;
    if !command.accepts_arg_count(args.len()) {
        return Err(CommandError::wrong_arity(command.name));
    }
    Ok(command)
}

/// Runs a command of the database, from a client or from a script.
pub(crate) fn call_command(db: &mut Db, command: &CommandSpec, args: Args<'_>) -> CommandResult {
    db.require_redis_version(command.since, command.name)?;
    if command.is_write {
        db.check_writable()?;
    }
    match command.handler {
        CommandHandler::Db(run) => run(db, args),
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
