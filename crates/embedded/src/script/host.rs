//! What the functions of the host share: the database while a script runs, and how such a function is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use mlua::{Function, IntoLuaMulti, Lua, LuaString, MultiValue, Value};
use parking_lot::Mutex;

use super::cache::Sha;
use super::fault::Fault;
use super::random::Random;
use crate::args::{Args, lossy};
use crate::db::Db;
use crate::error::Error;
use crate::table::{Command, Run};

/// How many instructions a command counts for.
const COMMAND_COSTS: i64 = 20;

/// What touches keys without naming them.
const EVERY_KEY: [&str; 6] = ["KEYS", "SCAN", "RANDOMKEY", "DBSIZE", "FLUSHALL", "FLUSHDB"];

/// The host as its functions hold it.
pub(super) type Shared = Arc<Mutex<Host>>;

/// What a running script works with.
pub(super) struct Host {
    /// The database while a script runs; an empty one stands here otherwise.
    pub db: Db,
    /// The running script's SHA-1.
    pub sha: Sha,
    /// Whether the script may not write.
    pub read_only: bool,
    /// The keys the script declared, if it is held to them.
    pub declared: Option<Vec<Vec<u8>>>,
    pub random: Random,
    pub fuel: Arc<Fuel>,
}

impl Host {
    pub fn new(fuel: Arc<Fuel>) -> Self {
        Self {
            db: Db::default(),
            sha: Sha::default(),
            read_only: false,
            declared: None,
            random: Random::default(),
            fuel,
        }
    }

    /// Runs a command for the script.
    pub fn call(&mut self, command: &Command, args: Args<'_>) -> Result<redis::Value, Fault> {
        self.fuel.burn(COMMAND_COSTS)?;
        if !matches!(command.run, Run::Db(_)) {
            return Err(Fault::Command(
                "ERR This Redis command is not allowed from script".to_owned(),
            ));
        }
        // Redis counts a message as a write, since replicas get it too.
        let writes = command.writes || matches!(command.name, "PUBLISH" | "SPUBLISH");
        if self.read_only && writes {
            return Err(Fault::Command(
                "ERR Write commands are not allowed from read-only scripts.".to_owned(),
            ));
        }
        if let Some(declared) = &self.declared {
            if EVERY_KEY.contains(&command.name) {
                return Err(Fault::Command(format!(
                    "ERR Script used {}, which looks at keys that are not among its KEYS; strict mode wants every key declared",
                    command.name
                )));
            }
            let stranger = command
                .keys_in(args)
                .into_iter()
                .find(|key| !declared.iter().any(|known| known == key));
            if let Some(key) = stranger {
                let text = format!(
                    "ERR Script used key '{}' in {}, which is not among its KEYS; strict mode wants every key declared",
                    lossy(key),
                    command.name
                );
                return Err(Fault::Command(text));
            }
        }
        crate::core::call(&mut self.db, command, args).map_err(|error| Fault::Command(told(&error)))
    }
}

/// The text of a command's error as a script gets it: Redis looks subcommands up before it runs them.
fn told(error: &Error) -> String {
    let text = error.text();
    if text.starts_with("ERR unknown subcommand") {
        return UNKNOWN.to_owned();
    }
    if text.starts_with("ERR wrong number of arguments for '") && text.contains('|') {
        return WRONG_COUNT.to_owned();
    }
    text.to_owned()
}

pub(super) const UNKNOWN: &str = "ERR Unknown Redis command called from script";
pub(super) const WRONG_COUNT: &str = "ERR Wrong number of args calling Redis command from script";

/// How much a script may still do.
pub(super) struct Fuel {
    left: AtomicI64,
    full: i64,
}

impl Fuel {
    pub fn new(full: u64) -> Self {
        let full = i64::try_from(full).unwrap_or(i64::MAX);
        Self {
            left: AtomicI64::new(full),
            full,
        }
    }

    pub fn fill(&self) {
        self.left.store(self.full, Ordering::Relaxed);
    }

    /// Counts instructions that were run.
    pub fn burn(&self, instructions: i64) -> Result<(), Fault> {
        if self.left.fetch_sub(instructions, Ordering::Relaxed) > instructions {
            return Ok(());
        }
        Err(Fault::Stop(format!(
            "ERR script stopped: it ran longer than {} instructions; what it wrote until then stays",
            self.full
        )))
    }
}

/// A function for scripts.
pub(super) fn function<R: IntoLuaMulti>(
    lua: &Lua,
    run: impl Fn(&Lua, &[Value]) -> Result<R, Fault> + Send + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, mut args: MultiValue| {
        run(lua, args.make_contiguous()).map_err(|fault| fault.raise(lua))
    })
}

/// A number argument, as Lua's library takes one: text that reads as a number is one.
pub(super) fn number(args: &[Value], position: usize, function: &str) -> Result<f64, Fault> {
    let arg = args.get(position - 1);
    let number = match arg {
        Some(Value::Integer(number)) => Some(*number as f64),
        Some(Value::Number(number)) => Some(*number),
        Some(Value::String(text)) => text.to_str().ok().and_then(|text| spelled(text.trim())),
        _ => None,
    };
    number.ok_or_else(|| Fault::type_of(position, function, "number", arg))
}

/// A number in Lua's spelling.
fn spelled(text: &str) -> Option<f64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16)
            .ok()
            .map(|number| number as f64),
        None => text.parse().ok(),
    }
}

/// A string argument, as Lua's library takes one: a number becomes its text.
pub(super) fn string(
    lua: &Lua,
    args: &[Value],
    position: usize,
    function: &str,
) -> Result<LuaString, Fault> {
    let arg = args.get(position - 1);
    match arg {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(number @ (Value::Integer(_) | Value::Number(_))) => {
            let text = super::convert::printed(number);
            Ok(lua.create_string(text)?)
        }
        _ => Err(Fault::type_of(position, function, "string", arg)),
    }
}
