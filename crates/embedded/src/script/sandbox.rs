//! The Lua state that scripts run in.
//!
//! Invariants:
//! 1. A script cannot create a global variable or replace a function of a library.
//! 2. Bytecode is never loaded, because Lua does not verify it.

use std::collections::HashMap;
use std::sync::Arc;

use mlua::chunk::{Chunk, ChunkMode};
use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use parking_lot::Mutex;

use super::cache::hex;
use super::fault::{ScriptError, error_for_pcall, uncaught_error_text};
use super::host::{
    InstructionBudget, ScriptRunState, SharedRunState, create_host_function, string_arg,
};
use super::{ScriptLimits, api, bits, json, random};

/// Instructions between two checks of the instruction budget.
const BUDGET_CHECK_INTERVAL: u32 = 1_000;

/// Tables that scripts may not change, by the address of the proxy in front of them.
type ReadOnlyProxies = Arc<Mutex<HashMap<usize, Table>>>;

/// The Lua state and the values that are needed to run scripts in it.
pub(super) struct LuaState {
    pub lua: Lua,
    /// Lua's own `xpcall`.
    pub xpcall: Function,
    /// Turns an uncaught error into an error reply.
    pub error_handler: Function,
    /// The globals behind the read-only proxy.
    pub globals: Table,
}

impl LuaState {
    pub fn new(
        host: &SharedRunState,
        fuel: &Arc<InstructionBudget>,
        limits: ScriptLimits,
    ) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let globals = lua.globals();
        let protected = globals.raw_get("xpcall")?;
        let shared = host.clone();
        let handler = lua.create_function(move |lua, error: Value| {
            let sha = hex(&shared.lock().sha);
            lua.create_string(uncaught_error_text(lua, &error, &sha))
        })?;
        globals.raw_set("redis", api::create_redis_table(&lua, host, limits)?)?;
        globals.raw_set("cjson", json::library(&lua, limits)?)?;
        globals.raw_set("bit", bits::library(&lua)?)?;
        random::install(&lua, &globals.raw_get("math")?, host)?;
        let prelude = lua
            .load(include_str!("prelude.lua"))
            .set_name("=prelude")
            .into_function()?;
        let front: Table = prelude.call((prelude_functions(&lua)?, &globals))?;
        lua.set_globals(front)?;
        let fuel = fuel.clone();
        lua.set_global_hook(
            HookTriggers::new().every_nth_instruction(BUDGET_CHECK_INTERVAL),
            move |lua, _| {
                fuel.consume(i64::from(BUDGET_CHECK_INTERVAL))
                    .map_err(|fault| fault.into_lua_error(lua))?;
                Ok(VmState::Continue)
            },
        )?;
        Ok(Self {
            lua,
            xpcall: protected,
            error_handler: handler,
            globals,
        })
    }

    /// Compiles a script.
    pub fn compile(&self, code: &[u8]) -> Result<Function, mlua::Error> {
        source_chunk(&self.lua, code, "@user_script").into_function()
    }
}

/// Creates a run state without a script.
pub(super) fn new_run_state(fuel: &Arc<InstructionBudget>) -> SharedRunState {
    Arc::new(Mutex::new(ScriptRunState::new(fuel.clone())))
}

fn source_chunk<'a>(lua: &Lua, code: &'a [u8], name: &str) -> Chunk<'a> {
    lua.load(code).set_name(name).set_mode(ChunkMode::Text)
}

/// Host functions for the prelude.
fn prelude_functions(lua: &Lua) -> mlua::Result<Table> {
    let fronts = ReadOnlyProxies::default();
    let table = lua.create_table()?;
    table.raw_set("caught", lua.create_function(error_for_pcall)?)?;
    table.raw_set(
        "compile",
        create_host_function(lua, |lua, args: &[Value]| load_string(lua, args, "load"))?,
    )?;
    table.raw_set(
        "loadstring",
        create_host_function(lua, |lua, args: &[Value]| {
            load_string(lua, args, "loadstring")
        })?,
    )?;
    table.raw_set(
        "refuse",
        create_host_function(lua, |_, _| Err::<(), _>(ScriptError::library(READ_ONLY)))?,
    )?;
    table.raw_set(
        "missing",
        create_host_function(lua, |_, args: &[Value]| {
            Err::<(), _>(undefined_global_error(args))
        })?,
    )?;
    table.raw_set("collectgarbage", create_host_function(lua, collectgarbage)?)?;
    let known = fronts.clone();
    let protect = lua.create_function(move |_, (front, behind): (Table, Table)| {
        known.lock().insert(front.to_pointer().addr(), behind);
        Ok(())
    })?;
    table.raw_set("protect", protect)?;
    let known = fronts.clone();
    table.raw_set(
        "rawget",
        create_host_function(lua, move |_, args: &[Value]| rawget(&known, args))?,
    )?;
    let known = fronts.clone();
    table.raw_set(
        "rawset",
        create_host_function(lua, move |_, args: &[Value]| rawset(&known, args))?,
    )?;
    table.raw_set(
        "setmetatable",
        create_host_function(lua, move |_, args: &[Value]| setmetatable(&fronts, args))?,
    )?;
    Ok(table)
}

const READ_ONLY: &str = "Attempt to modify a readonly table";

fn undefined_global_error(args: &[Value]) -> ScriptError {
    let name = match args.get(1) {
        Some(Value::String(name)) => name.to_string_lossy(),
        _ => "?".to_owned(),
    };
    ScriptError::library(format!(
        "Script attempted to access nonexistent global variable '{name}'"
    ))
}

/// `loadstring(code, name)`: returns a function, or nil and the error text.
fn load_string(
    lua: &Lua,
    args: &[Value],
    called: &str,
) -> Result<(Value, Option<String>), ScriptError> {
    let code = string_arg(lua, args, 1, called)?;
    let name = match args.get(1) {
        Some(Value::String(name)) => name.to_string_lossy(),
        _ => code.to_string_lossy(),
    };
    // In C a name ends at its first zero byte.
    let name = name.split('\0').next().unwrap_or_default();
    match source_chunk(lua, &code.as_bytes(), name).into_function() {
        Ok(function) => Ok((Value::Function(function), None)),
        Err(error) => Ok((Value::Nil, Some(compile_error_text(&error)))),
    }
}

/// Text of a compile error.
pub(super) fn compile_error_text(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// A script may ask how much memory is in use, but it cannot control the garbage collector.
fn collectgarbage(lua: &Lua, args: &[Value]) -> Result<Value, ScriptError> {
    let option = match args.first() {
        None | Some(Value::Nil) => "collect".to_owned(),
        Some(_) => string_arg(lua, args, 1, "collectgarbage")?.to_string_lossy(),
    };
    match option.as_str() {
        "count" => Ok(Value::Number(lua.used_memory() as f64 / 1024.0)),
        "step" => Ok(Value::Boolean(false)),
        "collect" | "stop" | "restart" | "setpause" | "setstepmul" => Ok(Value::Integer(0)),
        other => Err(ScriptError::bad_argument(
            1,
            "collectgarbage",
            &format!("invalid option '{other}'"),
        )),
    }
}

fn table_argument<'a>(args: &'a [Value], function: &str) -> Result<&'a Table, ScriptError> {
    match args.first() {
        Some(Value::Table(table)) => Ok(table),
        other => Err(ScriptError::wrong_type(1, function, "table", other)),
    }
}

fn rawget(fronts: &ReadOnlyProxies, args: &[Value]) -> Result<Value, ScriptError> {
    let table = table_argument(args, "rawget")?;
    let key = args
        .get(1)
        .ok_or_else(|| ScriptError::bad_argument(2, "rawget", "value expected"))?;
    let behind = fronts.lock().get(&table.to_pointer().addr()).cloned();
    Ok(behind.as_ref().unwrap_or(table).raw_get(key)?)
}

fn rawset(fronts: &ReadOnlyProxies, args: &[Value]) -> Result<Table, ScriptError> {
    let table = table_argument(args, "rawset")?;
    let [_, key, value, ..] = args else {
        return Err(ScriptError::bad_argument(
            args.len() + 1,
            "rawset",
            "value expected",
        ));
    };
    if fronts.lock().contains_key(&table.to_pointer().addr()) {
        return Err(ScriptError::LibraryAt(READ_ONLY.to_owned()));
    }
    match key {
        Value::Nil => return Err(ScriptError::LibraryAt("table index is nil".to_owned())),
        Value::Number(number) if number.is_nan() => {
            return Err(ScriptError::LibraryAt("table index is NaN".to_owned()));
        }
        _ => table.raw_set(key, value)?,
    }
    Ok(table.clone())
}

fn setmetatable(fronts: &ReadOnlyProxies, args: &[Value]) -> Result<Table, ScriptError> {
    let table = table_argument(args, "setmetatable")?;
    let metatable = match args.get(1) {
        Some(Value::Nil) => None,
        Some(Value::Table(metatable)) => Some(metatable.clone()),
        _ => {
            return Err(ScriptError::bad_argument(
                2,
                "setmetatable",
                "nil or table expected",
            ));
        }
    };
    if fronts.lock().contains_key(&table.to_pointer().addr()) {
        return Err(ScriptError::LibraryAt(READ_ONLY.to_owned()));
    }
    if let Some(old) = table.metatable()
        && !old.raw_get::<Value>("__metatable")?.is_nil()
    {
        return Err(ScriptError::library("cannot change a protected metatable"));
    }
    table.set_metatable(metatable)?;
    Ok(table.clone())
}
