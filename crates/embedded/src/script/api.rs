//! The table `redis`: what a script can ask of its host.

use mlua::{Lua, Table, Value};
use smallvec::SmallVec;

use super::Limits;
use super::convert::{Arg, Given};
use super::fault::{Fault, failure};
use super::host::{Shared, UNKNOWN, WRONG_COUNT, function};
use crate::table;

/// The version scripts are told: the one whose behaviour this engine has.
const VERSION: &str = "7.0.15";
const VERSION_NUMBER: u32 = 7 << 16 | 15;

/// The table `redis`.
pub(super) fn library(lua: &Lua, host: &Shared, limits: Limits) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    calls(lua, &library, host, limits)?;
    replies(lua, &library)?;
    settings(lua, &library)?;
    let log = function(lua, |_, args: &[Value]| log(args))?;
    library.raw_set("log", log)?;
    library.raw_set("REDIS_VERSION", VERSION)?;
    library.raw_set("REDIS_VERSION_NUM", VERSION_NUMBER)?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"]
        .into_iter()
        .enumerate()
    {
        library.raw_set(name, level)?;
    }
    for (name, flags) in [
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        library.raw_set(name, flags)?;
    }
    Ok(library)
}

fn calls(lua: &Lua, library: &Table, host: &Shared, limits: Limits) -> mlua::Result<()> {
    let shared = host.clone();
    let raising = function(lua, move |lua, args: &[Value]| {
        let reply = call(&shared, args)?;
        Ok(given(lua, reply, limits)?)
    })?;
    let shared = host.clone();
    let returning = function(lua, move |lua, args: &[Value]| match call(&shared, args) {
        Ok(reply) => Ok(given(lua, reply, limits)?),
        Err(Fault::Command(text)) => Ok(failure(lua, &text, true)?),
        Err(Fault::Misuse(text)) => Ok(failure(lua, &text, false)?),
        Err(other) => Err(other),
    })?;
    library.raw_set("call", raising)?;
    library.raw_set("pcall", returning)
}

fn call(host: &Shared, args: &[Value]) -> Result<redis::Value, Fault> {
    if args.is_empty() {
        return Err(Fault::Misuse(
            "ERR Please specify at least one argument for this redis lib call".to_owned(),
        ));
    }
    let held: SmallVec<[Arg; 8]> = args.iter().map(Arg::of).collect::<Result<_, _>>()?;
    let args: SmallVec<[&[u8]; 8]> = held.iter().map(AsRef::as_ref).collect();
    let command = table::find(args[0]).ok_or_else(|| Fault::Command(UNKNOWN.to_owned()))?;
    if !command.takes(args.len()) {
        return Err(Fault::Command(WRONG_COUNT.to_owned()));
    }
    host.lock().call(command, &args)
}

/// A command's reply for Lua. Without a limit mlua need not guard every step, which is most of the cost; a script that
/// collects replies meets the limit with its next own allocation.
fn given(lua: &Lua, reply: redis::Value, limits: Limits) -> mlua::Result<Value> {
    use mlua::IntoLua;
    match reply {
        redis::Value::Int(number) => Ok(Value::Number(number as f64)),
        redis::Value::Nil => Ok(Value::Boolean(false)),
        reply => {
            lua.set_memory_limit(0)?;
            let value = Given(reply).into_lua(lua);
            lua.set_memory_limit(limits.memory)?;
            value
        }
    }
}

fn replies(lua: &Lua, library: &Table) -> mlua::Result<()> {
    const WRONG: &str = "ERR wrong number or type of arguments";
    let error = function(lua, |lua, args: &[Value]| {
        let [Value::String(text)] = args else {
            return Ok(failure(lua, WRONG, false)?);
        };
        let text = text.to_string_lossy();
        let text = text.strip_prefix('-').unwrap_or(&text);
        let text = if text.contains(' ') {
            text.to_owned()
        } else {
            format!("ERR {text}")
        };
        Ok(failure(lua, &text, false)?)
    })?;
    let status = function(lua, |lua, args: &[Value]| {
        let [Value::String(text)] = args else {
            return Ok(failure(lua, WRONG, false)?);
        };
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set("ok", text)?;
        Ok(Value::Table(table))
    })?;
    let sha1hex = function(lua, |lua, args: &[Value]| {
        let [value] = args else {
            return Err(Fault::Misuse("ERR wrong number of arguments".to_owned()));
        };
        let text = match value {
            Value::String(text) => text.clone(),
            number => lua.create_string(super::convert::printed(number))?,
        };
        Ok(super::cache::hex(&super::cache::sha_of(&text.as_bytes())))
    })?;
    library.raw_set("error_reply", error)?;
    library.raw_set("status_reply", status)?;
    library.raw_set("sha1hex", sha1hex)
}

fn settings(lua: &Lua, library: &Table) -> mlua::Result<()> {
    let setresp = function(lua, |_, args: &[Value]| {
        match args {
        [Value::Integer(2)] => Ok(()),
        [Value::Integer(3)] => Err(Fault::Misuse(
            "ERR redis.setresp(3) is not supported by the embedded engine; scripts get replies of protocol 2".to_owned(),
        )),
        [_] => Err(Fault::Misuse("ERR RESP version must be 2 or 3.".to_owned())),
        _ => Err(Fault::Misuse("ERR redis.setresp() requires one argument.".to_owned())),
    }
    })?;
    let set_repl = function(lua, |_, args: &[Value]| match args {
        [Value::Integer(0..=3)] => Ok(()),
        [_] => Err(Fault::Misuse(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."
                .to_owned(),
        )),
        _ => Err(Fault::Misuse(
            "ERR redis.set_repl() requires two arguments.".to_owned(),
        )),
    })?;
    library.raw_set("setresp", setresp)?;
    library.raw_set("set_repl", set_repl)?;
    library.raw_set("replicate_commands", function(lua, |_, _| Ok(true))?)?;
    library.raw_set("breakpoint", function(lua, |_, _| Ok(false))?)?;
    library.raw_set("debug", function(lua, |_, _| Ok(()))?)
}

/// `redis.log(level, text, ...)`.
fn log(args: &[Value]) -> Result<(), Fault> {
    let misuse = |text: &str| Err(Fault::Misuse(text.to_owned()));
    let [level, texts @ ..] = args else {
        return misuse("ERR redis.log() requires two arguments or more.");
    };
    if texts.is_empty() {
        return misuse("ERR redis.log() requires two arguments or more.");
    }
    let (Value::Integer(_) | Value::Number(_)) = level else {
        return misuse("ERR First argument must be a number (log level).");
    };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.to_string_lossy()),
        Value::Integer(_) | Value::Number(_) => Some(super::convert::printed(value)),
        _ => None,
    };
    let text = texts.iter().filter_map(text).collect::<Vec<_>>().join(" ");
    match level {
        Value::Integer(0) => tracing::trace!(target: "parlor_embedded::script", "{text}"),
        Value::Integer(1) => tracing::debug!(target: "parlor_embedded::script", "{text}"),
        Value::Integer(2) => tracing::info!(target: "parlor_embedded::script", "{text}"),
        Value::Integer(3) => tracing::warn!(target: "parlor_embedded::script", "{text}"),
        _ => return misuse("ERR Invalid debug level."),
    }
    Ok(())
}
