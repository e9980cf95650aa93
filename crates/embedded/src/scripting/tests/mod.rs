//! Values that scripts see and return. The expected texts are those of Redis 7.0.15 for the same scripts.

use redis::Value as Resp;

mod errors;
mod libraries;
mod limits;
mod values;

use super::{ScriptEngine, ScriptLimits};
use crate::commands::table::CommandHandler;
use crate::db::Db;
use crate::engine::state::{call_command, lookup_command};
use crate::pubsub::PubSubRegistry;

struct Fixture {
    db: Db,
    scripts: ScriptEngine,
}

impl Fixture {
    fn new(strict: bool, limits: ScriptLimits) -> Self {
        let mut db = Db::new(strict, PubSubRegistry::default());
        db.begin_command(1_000, None);
        Self {
            db,
            scripts: ScriptEngine::with_limits(limits),
        }
    }

    fn run(&mut self, args: &[&str]) -> Result<Resp, String> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let reply = lookup_command(&args).and_then(|command| match command.handler {
            CommandHandler::Script => self.scripts.run(&mut self.db, command, &args),
            _ => call_command(&mut self.db, command, &args),
        });
        reply.map_err(|error| error.text().to_owned())
    }

    fn eval(&mut self, script: &str) -> Result<Resp, String> {
        self.run(&["EVAL", script, "0"])
    }
}

fn plain() -> Fixture {
    Fixture::new(false, ScriptLimits::default())
}

fn strict() -> Fixture {
    Fixture::new(true, ScriptLimits::default())
}

/// Error of a script, without the part that names script and line.
fn error(script: &str) -> String {
    let error = plain().eval(script).expect_err("the script fails");
    error
        .split(" script: ")
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn text(script: &str) -> String {
    match plain().eval(script) {
        Ok(Resp::BulkString(bytes)) => String::from_utf8(bytes).expect("text"),
        other => panic!("{other:?} instead of text for {script}"),
    }
}
