//! The table `redis` that scripts see.

use mlua::{Lua, Table, Value};
use smallvec::SmallVec;

use super::ScriptLimits;
use super::convert::{LuaCallArg, LuaReply, tostring};
use super::host_functions::add_function;
use super::run_state::{SharedRunState, UNKNOWN_COMMAND, WRONG_ARG_COUNT};
use super::script_cache::sha_of_source;
use super::script_error::{ScriptError, error_table};
use crate::commands::table::find_command;

/// Version that scripts see: the Redis version whose behaviour this engine has.
const VERSION: &str = "7.0.15";
const VERSION_NUMBER: u32 = 7 << 16 | 15;

pub(super) fn create_redis_table(
    lua: &Lua,
    run_state: &SharedRunState,
    limits: ScriptLimits,
) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    add_call_functions(lua, &library, run_state, limits)?;
    add_reply_functions(lua, &library)?;
    add_setting_functions(lua, &library)?;
    add_function(lua, &library, "log", |_, args| log(args))?;
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

fn add_call_functions(
    lua: &Lua,
    library: &Table,
    run_state: &SharedRunState,
    limits: ScriptLimits,
) -> mlua::Result<()> {
    let shared = run_state.clone();
    add_function(lua, library, "call", move |lua, args| {
        let reply = call(&shared, args)?;
        Ok(reply_to_lua(lua, reply, limits)?)
    })?;
    let shared = run_state.clone();
    add_function(lua, library, "pcall", move |lua, args| {
        match call(&shared, args) {
            Ok(reply) => Ok(reply_to_lua(lua, reply, limits)?),
            Err(ScriptError::Command(text)) => Ok(error_table(lua, &text, true)?),
            Err(ScriptError::ApiMisuse(text)) => Ok(error_table(lua, &text, false)?),
            Err(other) => Err(other),
        }
    })
}

fn call(run_state: &SharedRunState, args: &[Value]) -> Result<redis::Value, ScriptError> {
    if args.is_empty() {
        return misuse("ERR Please specify at least one argument for this redis lib call");
    }
    let call_args: SmallVec<[LuaCallArg; 8]> =
        args.iter().map(LuaCallArg::of).collect::<Result<_, _>>()?;
    let args: SmallVec<[&[u8]; 8]> = call_args.iter().map(AsRef::as_ref).collect();
    let command =
        find_command(args[0]).ok_or_else(|| ScriptError::Command(UNKNOWN_COMMAND.to_owned()))?;
    if !command.accepts_arg_count(args.len()) {
        return Err(ScriptError::Command(WRONG_ARG_COUNT.to_owned()));
    }
    run_state.lock().call(command, &args)
}

/// Converts a command's reply for Lua. The memory limit is off meanwhile, because with a limit mlua guards every step,
/// which is most of the cost. A script that collects replies hits the limit at its next own allocation.
fn reply_to_lua(lua: &Lua, reply: redis::Value, limits: ScriptLimits) -> mlua::Result<Value> {
    use mlua::IntoLua;
    match reply {
        redis::Value::Int(number) => Ok(Value::Number(number as f64)),
        redis::Value::Nil => Ok(Value::Boolean(false)),
        reply => {
            lua.set_memory_limit(0)?;
            let value = LuaReply(reply).into_lua(lua);
            lua.set_memory_limit(limits.max_memory_bytes)?;
            value
        }
    }
}

fn add_reply_functions(lua: &Lua, library: &Table) -> mlua::Result<()> {
    const WRONG: &str = "ERR wrong number or type of arguments";
    add_function(lua, library, "error_reply", |lua, args| {
        let [Value::String(text)] = args else {
            return Ok(error_table(lua, WRONG, false)?);
        };
        let text = text.to_string_lossy();
        let text = text.strip_prefix('-').unwrap_or(&text);
        let code = if text.contains(' ') { "" } else { "ERR " };
        Ok(error_table(lua, &format!("{code}{text}"), false)?)
    })?;
    add_function(lua, library, "status_reply", |lua, args| {
        let [Value::String(text)] = args else {
            return Ok(error_table(lua, WRONG, false)?);
        };
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set("ok", text)?;
        Ok(Value::Table(table))
    })?;
    add_function(lua, library, "sha1hex", |_, args| {
        let sha = match args {
            [Value::String(text)] => sha_of_source(&text.as_bytes()),
            [number @ (Value::Integer(_) | Value::Number(_))] => {
                sha_of_source(tostring(number).as_bytes())
            }
            [_] => sha_of_source(b""),
            _ => return misuse("ERR wrong number of arguments"),
        };
        Ok(sha.to_string())
    })
}

fn add_setting_functions(lua: &Lua, library: &Table) -> mlua::Result<()> {
    add_function(lua, library, "setresp", |_, args| match args {
        [Value::Integer(2)] => Ok(()),
        [Value::Integer(3)] => misuse(
            "ERR redis.setresp(3) is not supported by the embedded engine; scripts get RESP2 replies",
        ),
        [_] => misuse("ERR RESP version must be 2 or 3."),
        _ => misuse("ERR redis.setresp() requires one argument."),
    })?;
    add_function(lua, library, "set_repl", |_, args| match args {
        [Value::Integer(0..=3)] => Ok(()),
        [_] => misuse(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ),
        _ => misuse("ERR redis.set_repl() requires two arguments."),
    })?;
    add_function(lua, library, "replicate_commands", |_, _| Ok(true))?;
    add_function(lua, library, "breakpoint", |_, _| Ok(false))?;
    add_function(lua, library, "debug", |_, _| Ok(()))
}

fn misuse<T>(text: &str) -> Result<T, ScriptError> {
    Err(ScriptError::ApiMisuse(text.to_owned()))
}

/// `redis.log(level, text, ...)`.
fn log(args: &[Value]) -> Result<(), ScriptError> {
    const TOO_FEW: &str = "ERR redis.log() requires two arguments or more.";
    let [level, texts @ ..] = args else {
        return misuse(TOO_FEW);
    };
    if texts.is_empty() {
        return misuse(TOO_FEW);
    }
    let (Value::Integer(_) | Value::Number(_)) = level else {
        return misuse("ERR First argument must be a number (log level).");
    };
    let text = |value: &Value| match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => Some(tostring(value)),
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
