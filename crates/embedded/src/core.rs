//! Running commands: everything that happens under the engine's lock.
//!
//! Always true:
//! 1. A command, a script and a transaction see one moment, and either all of a transaction's commands are queued or
//!    none of them runs.
//! 2. Whether writes are allowed is decided once at the start, so nothing is refused half-way.

use redis::Value;

use crate::args::{Args, lossy};
use crate::db::Db;
use crate::error::{Error, Reply};
use crate::script::Scripts;
use crate::table::{self, Command, Run};

/// The database and the script host beside it.
pub(crate) struct Core {
    pub db: Db,
    pub scripts: Scripts,
}

impl Core {
    /// Runs one command.
    pub fn execute(&mut self, args: Args<'_>) -> Reply {
        let command = check(args)?;
        self.run(command, args)
    }

    fn run(&mut self, command: &Command, args: Args<'_>) -> Reply {
        match command.run {
            Run::Db(_) => call(&mut self.db, command, args),
            Run::Script => self.scripts.run(&mut self.db, command, args),
            Run::Connection => Err(Error::new(format!(
                "ERR {} belongs to a connection of its own; use an atomic pipeline or a subscriber",
                command.name
            ))),
        }
    }

    /// Runs commands as one transaction. As in Redis, a command that fails while running does not stop the others.
    pub fn transaction<'a>(
        &mut self,
        commands: &[impl AsRef<[&'a [u8]]>],
    ) -> Result<Vec<Value>, Error> {
        const ABORTED: Error =
            Error::fixed("EXECABORT Transaction discarded because of previous errors.");
        let checked: Result<Vec<_>, _> = commands.iter().map(|args| check(args.as_ref())).collect();
        let checked = checked.map_err(|_| ABORTED)?;
        let both = commands.iter().zip(checked);
        let run = both.map(|(args, command)| self.run(command, args.as_ref()));
        Ok(run
            .map(|reply| reply.unwrap_or_else(Error::into_value))
            .collect())
    }
}

/// The command that is asked for, if it exists and has the right number of arguments.
pub(crate) fn check(args: Args<'_>) -> Result<&'static Command, Error> {
    let name = args.first().copied().unwrap_or_default();
    let command = table::find(name).ok_or_else(|| unknown(args))?;
    if !command.takes(args.len()) {
        return Err(Error::wrong_arity(command.name));
    }
    Ok(command)
}

/// Runs a command of the database, from a client or from a script.
pub(crate) fn call(db: &mut Db, command: &Command, args: Args<'_>) -> Reply {
    db.needs(command.since, command.name)?;
    if command.writes {
        db.may_write()?;
    }
    match command.run {
        Run::Db(run) => run(db, args),
        Run::Script | Run::Connection => Err(Error::fixed(
            "ERR This Redis command is not allowed from script",
        )),
    }
}

fn unknown(args: Args<'_>) -> Error {
    const SHOWN: usize = 128;
    let cut = |arg: &[u8]| lossy(&arg[..arg.len().min(SHOWN)]);
    let name = args.first().map(|name| cut(name)).unwrap_or_default();
    let mut shown = String::new();
    for arg in args.iter().skip(1) {
        if shown.len() >= SHOWN {
            break;
        }
        let arg = cut(&arg[..arg.len().min(SHOWN - shown.len())]);
        shown += &format!("'{arg}' ");
    }
    Error::new(format!(
        "ERR unknown command '{name}', with args beginning with: {shown}"
    ))
}
