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

use super::ScriptLimits;
use super::host_functions::{add_function, string_arg};
use super::libraries::{bit, cjson, math_random};
use super::redis_api::create_redis_table;
use super::run_state::{InstructionBudget, SharedRunState};
use super::script_error::{ScriptError, error_for_pcall, uncaught_error_text};

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
        run_state: &SharedRunState,
        budget: &Arc<InstructionBudget>,
        limits: ScriptLimits,
    ) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let globals = lua.globals();
        let xpcall = globals.raw_get("xpcall")?;
        let shared = run_state.clone();
        let error_handler = lua.create_function(move |lua, error: Value| {
            let sha = shared.lock().sha.to_string();
            lua.create_string(uncaught_error_text(lua, &error, &sha))
        })?;
        globals.raw_set("redis", create_redis_table(&lua, run_state, limits)?)?;
        globals.raw_set("cjson", cjson::library(&lua, limits)?)?;
        globals.raw_set("bit", bit::library(&lua)?)?;
        math_random::install(&lua, &globals.raw_get("math")?, run_state)?;
        let prelude = lua
            .load(include_str!("prelude.lua"))
            .set_name("=prelude")
            .into_function()?;
        let visible_globals: Table = prelude.call((prelude_functions(&lua)?, &globals))?;
        lua.set_globals(visible_globals)?;
        let budget = budget.clone();
        lua.set_global_hook(
            HookTriggers::new().every_nth_instruction(BUDGET_CHECK_INTERVAL),
            move |lua, _| {
                budget
                    .consume(i64::from(BUDGET_CHECK_INTERVAL))
                    .map_err(|error| error.into_lua_error(lua))?;
                Ok(VmState::Continue)
            },
        )?;
        Ok(Self {
            lua,
            xpcall,
            error_handler,
            globals,
        })
    }

    pub fn compile(&self, code: &[u8]) -> Result<Function, mlua::Error> {
        source_chunk(&self.lua, code, "@user_script").into_function()
    }
}

fn source_chunk<'a>(lua: &Lua, code: &'a [u8], name: &str) -> Chunk<'a> {
    lua.load(code).set_name(name).set_mode(ChunkMode::Text)
}

/// Host functions for the prelude.
fn prelude_functions(lua: &Lua) -> mlua::Result<Table> {
    let proxies = ReadOnlyProxies::default();
    let host = lua.create_table()?;
    host.raw_set("error_for_pcall", lua.create_function(error_for_pcall)?)?;
    let shared = proxies.clone();
    let register_proxy = lua.create_function(move |_, (proxy, target): (Table, Table)| {
        shared.lock().insert(proxy.to_pointer().addr(), target);
        Ok(())
    })?;
    host.raw_set("register_proxy", register_proxy)?;
    add_function(lua, &host, "compile", |lua, args| {
        load_string(lua, args, "load")
    })?;
    add_function(lua, &host, "loadstring", |lua, args| {
        load_string(lua, args, "loadstring")
    })?;
    add_function(lua, &host, "reject_write", |_, _| {
        Err::<(), _>(ScriptError::library(READ_ONLY))
    })?;
    add_function(lua, &host, "undefined_global", |_, args| {
        Err::<(), _>(undefined_global_error(args))
    })?;
    add_function(lua, &host, "collectgarbage", collectgarbage)?;
    let shared = proxies.clone();
    add_function(lua, &host, "rawget", move |_, args| rawget(&shared, args))?;
    let shared = proxies.clone();
    add_function(lua, &host, "rawset", move |_, args| rawset(&shared, args))?;
    add_function(lua, &host, "setmetatable", move |_, args| {
        setmetatable(&proxies, args)
    })?;
    Ok(host)
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
    function: &str,
) -> Result<(Value, Option<String>), ScriptError> {
    let code = string_arg(lua, args, 1, function)?;
    let name = match args.get(1) {
        Some(Value::String(name)) => name.to_string_lossy(),
        _ => code.to_string_lossy(),
    };
    // In C a name ends at its first zero byte.
    let name = name.split('\0').next().unwrap_or_default();
    match source_chunk(lua, &code.as_bytes(), name).into_function() {
        Ok(loaded) => Ok((Value::Function(loaded), None)),
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

fn rawget(proxies: &ReadOnlyProxies, args: &[Value]) -> Result<Value, ScriptError> {
    let table = table_argument(args, "rawget")?;
    let key = args
        .get(1)
        .ok_or_else(|| ScriptError::bad_argument(2, "rawget", "value expected"))?;
    let target = proxies.lock().get(&table.to_pointer().addr()).cloned();
    Ok(target.as_ref().unwrap_or(table).raw_get(key)?)
}

fn rawset(proxies: &ReadOnlyProxies, args: &[Value]) -> Result<Table, ScriptError> {
    let table = table_argument(args, "rawset")?;
    let [_, key, value, ..] = args else {
        return Err(ScriptError::bad_argument(
            args.len() + 1,
            "rawset",
            "value expected",
        ));
    };
    if proxies.lock().contains_key(&table.to_pointer().addr()) {
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

fn setmetatable(proxies: &ReadOnlyProxies, args: &[Value]) -> Result<Table, ScriptError> {
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
    if proxies.lock().contains_key(&table.to_pointer().addr()) {
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
