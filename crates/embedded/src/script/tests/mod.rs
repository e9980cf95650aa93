//! What scripts see and answer. Texts are those Redis 7.0.15 gives to the same scripts.

use redis::Value as Resp;

mod errors;
mod libraries;
mod limits;
mod values;

use super::{Limits, Scripts};
use crate::core::{call, check};
use crate::db::Db;
use crate::pubsub::Hub;
use crate::table::Run;

struct Fixture {
    db: Db,
    scripts: Scripts,
}

impl Fixture {
    fn new(strict: bool, limits: Limits) -> Self {
        let mut db = Db::new(strict, 1, Hub::default());
        db.begin(1_000, None);
        Self {
            db,
            scripts: Scripts::with_limits(limits),
        }
    }

    fn run(&mut self, args: &[&str]) -> Result<Resp, String> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let reply = check(&args).and_then(|command| match command.run {
            Run::Script => self.scripts.run(&mut self.db, command, &args),
            _ => call(&mut self.db, command, &args),
        });
        reply.map_err(|error| error.text().to_owned())
    }

    fn eval(&mut self, script: &str) -> Result<Resp, String> {
        self.run(&["EVAL", script, "0"])
    }
}

fn plain() -> Fixture {
    Fixture::new(false, Limits::default())
}

fn strict() -> Fixture {
    Fixture::new(true, Limits::default())
}

/// The error of a script without the part that names script and place.
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
