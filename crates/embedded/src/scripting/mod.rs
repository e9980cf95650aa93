//! Lua scripts: `EVAL`, `EVALSHA`, their read-only forms, and `SCRIPT`.
//!
//! Invariants:
//! 1. No other command runs between the commands of a script, and its time stands still.
//! 2. A script ends with an error if it fails or exceeds the instruction or memory limit. As in Redis, writes that it
//!    made before are kept; nothing is rolled back.
//! 3. The database is swapped back when a script ends, however it ends.
//! 4. A script cannot create a global variable or replace a function for later scripts. As in Redis, the settings of
//!    `cjson` and the sequence of `math.random` continue from script to script.
//!
//! Not supported: the libraries `struct` and `cmsgpack`, `redis.acl_check_cmd`, RESP3 replies, `SCRIPT HELP` and
//! `SCRIPT DEBUG`. Libraries are read-only proxies, which are empty for `pairs`, `next` and `cjson.encode`. Time inside
//! one call of Lua's own library, such as a search for a malicious pattern, does not count against the instruction
//! limit.

mod convert;
mod host_functions;
mod libraries;
mod lua_state;
pub mod native;
mod redis_api;
mod run_state;
mod script_args;
mod script_cache;
mod script_error;
mod shebang;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bstr::BStr;
use mlua::Value;
use parking_lot::Mutex;
use sha1_smol::Digest;

use crate::commands::args::{Args, is_option, to_error_text};
use crate::commands::reply;
use crate::commands::table::CommandSpec;
use crate::db::Db;
use crate::error::{CommandError, CommandResult, NO_SCRIPT};
use crate::scripting::native::{NativeScript, NativeScriptCall};
use lua_state::LuaState;
use run_state::{InstructionBudget, ScriptRunState, SharedRunState};
use script_args::ScriptArgs;
use script_cache::{CompiledScript, ScriptCache};

/// Scripts from `EVAL` that stay compiled.
const MAX_EVAL_SCRIPTS: usize = 500;

/// Limits of a script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScriptLimits {
    /// Instructions of the Lua VM that a script may run. A command counts as 20.
    pub max_instructions: u64,
    /// Bytes that all Lua values together may take.
    pub max_memory_bytes: usize,
}

impl Default for ScriptLimits {
    fn default() -> Self {
        Self {
            max_instructions: 20_000_000,
            max_memory_bytes: 64 << 20,
        }
    }
}

/// The script engine: one Lua 5.1 state and the scripts loaded into it.
pub(crate) struct ScriptEngine {
    lua_state: LuaState,
    cache: ScriptCache,
    run_state: SharedRunState,
    budget: Arc<InstructionBudget>,
    limits: ScriptLimits,
}

impl ScriptEngine {
    pub fn new() -> Self {
        Self::with_limits(ScriptLimits::default())
    }

    pub fn with_limits(limits: ScriptLimits) -> Self {
        let budget = Arc::new(InstructionBudget::new(limits.max_instructions));
        let run_state = Arc::new(Mutex::new(ScriptRunState::new(budget.clone())));
        let lua_state = LuaState::new(&run_state, &budget, limits)
            .expect("the prelude is built in and runs before any limit is set");
        Self {
            lua_state,
            cache: ScriptCache::new(MAX_EVAL_SCRIPTS),
            run_state,
            budget,
            limits,
        }
    }

    /// Runs `EVAL`, `EVALSHA`, one of their read-only forms, or `SCRIPT`.
    pub fn run(&mut self, db: &mut Db, command: &CommandSpec, args: Args<'_>) -> CommandResult {
        db.require_redis_version(command.since, command.name)?;
        match command.name {
            "EVAL" => self.eval(db, args, false),
            "EVAL_RO" => self.eval(db, args, true),
            "EVALSHA" => self.evalsha(db, args, false),
            "EVALSHA_RO" => self.evalsha(db, args, true),
            _ => self.script_command(args),
        }
    }

    fn eval(&mut self, db: &mut Db, args: Args<'_>, read_only: bool) -> CommandResult {
        let input = ScriptArgs::parse(args)?;
        let sha = script_cache::sha_of_source(args[1]);
        let script = match self.cache.get(&sha) {
            Some(script) => script.clone(),
            None => self.compile(sha, args[1], false)?,
        };
        self.run_script(db, sha, &script, &input, read_only)
    }

    fn evalsha(&mut self, db: &mut Db, args: Args<'_>, read_only: bool) -> CommandResult {
        if args[1].len() != 40 {
            return Err(NO_SCRIPT);
        }
        let input = ScriptArgs::parse(args)?;
        let sha = script_cache::parse_sha(args[1]).ok_or(NO_SCRIPT)?;
        let script = self.cache.get(&sha).ok_or(NO_SCRIPT)?;
        if let Some(native) = script.native.filter(|_| !read_only) {
            if db.is_strict() {
                input.check_slots()?;
            }
            if let Some(reply) = native(&mut NativeScriptCall::new(db, input.keys, input.argv))? {
                return Ok(reply);
            }
        }
        let script = script.clone();
        self.run_script(db, sha, &script, &input, read_only)
    }

    /// Loads a script and attaches a native script, which runs whenever `EVALSHA` calls the script.
    pub fn load_native(&mut self, body: &[u8], native: NativeScript) -> Result<(), CommandError> {
        self.load(body)?;
        self.cache
            .attach_native(&script_cache::sha_of_source(body), native);
        Ok(())
    }

    fn compile(
        &mut self,
        sha: Digest,
        body: &[u8],
        loaded: bool,
    ) -> Result<CompiledScript, CommandError> {
        let (shebang, code) = shebang::split_shebang(body)?;
        let compiled = self.lua_state.compile(code).map_err(|error| {
            let complaint = lua_state::compile_error_text(&error);
            CommandError::new(format!(
                "ERR Error compiling script (new function): {complaint}"
            ))
        })?;
        let script = CompiledScript {
            function: compiled,
            shebang,
            native: None,
        };
        self.cache.insert(sha, script.clone(), loaded);
        Ok(script)
    }

    /// Checks flags and keys, then runs the script.
    fn run_script(
        &self,
        db: &mut Db,
        sha: Digest,
        script: &CompiledScript,
        input: &ScriptArgs<'_>,
        read_only: bool,
    ) -> CommandResult {
        if let Some(shebang) = script.shebang {
            db.require_redis_version("7.0.0", "the first line #! of a script")?;
            if read_only && !shebang.no_writes {
                return Err(CommandError::from_static(
                    "ERR Can not execute a script with write flag using *_ro command.",
                ));
            }
        }
        let declared = if db.is_strict() {
            input.check_slots()?;
            Some(input.keys.iter().map(|key| key.to_vec()).collect())
        } else {
            None
        };
        let read_only = read_only || script.shebang.is_some_and(|shebang| shebang.no_writes);
        let db_guard = DbSwapGuard::new(&self.run_state, db);
        {
            let mut run_state = self.run_state.lock();
            run_state.sha = sha;
            run_state.read_only = read_only;
            run_state.declared_keys = declared;
        }
        let result = self.call_lua(script, input);
        drop(db_guard);
        result
    }

    fn call_lua(&self, script: &CompiledScript, input: &ScriptArgs<'_>) -> CommandResult {
        let LuaState {
            lua,
            xpcall,
            error_handler,
            globals,
        } = &self.lua_state;
        let strings =
            |args: Args<'_>| lua.create_sequence_from(args.iter().map(|arg| BStr::new(*arg)));
        let prepared = strings(input.keys)
            .and_then(|keys| globals.raw_set("KEYS", keys))
            .and_then(|()| globals.raw_set("ARGV", strings(input.argv)?));
        prepared.map_err(|error| CommandError::new(format!("ERR {error}")))?;
        self.budget.reset();
        let _ = lua.set_memory_limit(self.limits.max_memory_bytes);
        let outcome = xpcall.call::<(bool, Value)>((&script.function, error_handler));
        let _ = lua.set_memory_limit(0);
        // Lua 5.1 does not collect garbage when an allocation fails, so garbage would count against the next script.
        if lua.used_memory() > self.limits.max_memory_bytes / 2 {
            let _ = lua.gc_collect();
        }
        match outcome {
            Ok((true, value)) => convert::lua_to_reply(value),
            Ok((false, error)) => Err(self.lua_error_reply(&error)),
            Err(error) => Err(self.mlua_error_reply(&error)),
        }
    }

    /// Error reply for the text that the error handler returned, or for an error value that came without it.
    fn lua_error_reply(&self, error: &Value) -> CommandError {
        match error {
            Value::String(text) if *text == "not enough memory" => self.out_of_memory(),
            Value::String(text) => CommandError::new(text.to_string_lossy()),
            other => CommandError::new(format!("ERR {}", script_error::type_name(other))),
        }
    }

    fn mlua_error_reply(&self, error: &mlua::Error) -> CommandError {
        match error {
            mlua::Error::MemoryError(_) => self.out_of_memory(),
            other => CommandError::new(format!("ERR {other}")),
        }
    }

    fn out_of_memory(&self) -> CommandError {
        CommandError::new(format!(
            "ERR script stopped: it needs more than {} bytes of memory; writes it made before are kept",
            self.limits.max_memory_bytes
        ))
    }

    fn script_command(&mut self, args: Args<'_>) -> CommandResult {
        const BAD_FLUSH: CommandError =
            CommandError::from_static("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        const NOT_BUSY: CommandError =
            CommandError::from_static("NOTBUSY No scripts in execution right now.");
        let name = args[1].to_ascii_lowercase();
        let is_flush_mode = |mode: &&[u8]| is_option(mode, "SYNC") || is_option(mode, "ASYNC");
        match (&name[..], &args[2..]) {
            (b"load", [source]) => self.load(source),
            (b"exists", shas @ [_, ..]) => Ok(reply::array(shas.iter().map(|sha| {
                let sha = script_cache::parse_sha(sha);
                reply::flag(sha.is_some_and(|sha| self.cache.contains(&sha)))
            }))),
            (b"flush", modes @ ([] | [_])) if modes.iter().all(is_flush_mode) => {
                self.cache.clear();
                let _ = self.lua_state.lua.gc_collect();
                Ok(reply::OK)
            }
            (b"flush", _) => Err(BAD_FLUSH),
            // A running script holds the engine's mutex, so no caller can get here while one runs.
            (b"kill", []) => Err(NOT_BUSY),
            (b"load" | b"exists" | b"kill", _) => Err(CommandError::wrong_arity(&format!(
                "script|{}",
                to_error_text(&name)
            ))),
            _ => Err(CommandError::new(format!(
                "ERR unknown subcommand '{}'. Try SCRIPT HELP.",
                to_error_text(args[1])
            ))),
        }
    }

    fn load(&mut self, body: &[u8]) -> CommandResult {
        let sha = script_cache::sha_of_source(body);
        if !self.cache.mark_loaded(&sha) {
            if !self.cache.can_load() {
                return Err(CommandError::from_static(
                    "ERR too many scripts are loaded; pass values as ARGV instead of writing them into scripts, or use SCRIPT FLUSH",
                ));
            }
            self.compile(sha, body, true)?;
        }
        Ok(reply::bulk(sha.to_string()))
    }
}

/// Swaps the database into the run state, and back on drop.
struct DbSwapGuard<'a> {
    run_state: &'a SharedRunState,
    db: &'a mut Db,
}

impl<'a> DbSwapGuard<'a> {
    fn new(run_state: &'a SharedRunState, db: &'a mut Db) -> Self {
        std::mem::swap(&mut run_state.lock().db, db);
        Self { run_state, db }
    }
}

impl Drop for DbSwapGuard<'_> {
    fn drop(&mut self) {
        std::mem::swap(&mut self.run_state.lock().db, self.db);
    }
}
