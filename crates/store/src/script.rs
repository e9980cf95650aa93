//! Lua scripts: known by their SHA-1 and called by `EVALSHA`.
//!
//! Invariants:
//! 1. A command that calls a registered script leads to the script's source, because `sha()` registers the source. A
//!    server that has lost its scripts therefore gets them again on demand.
//! 2. A native script runs on the embedded engine only, and does what its Lua script does.
//! 3. A transaction sends its scripts by `EVAL`. A `NOSCRIPT` inside a transaction would leave its other commands
//!    executed, and repeating those is not safe.

use std::collections::HashMap;
use std::sync::{LazyLock, Once, OnceLock};

use parking_lot::RwLock;
use parlor_embedded::EmbeddedConnection;
use parlor_embedded::native::NativeScript;
use redis::{Arg, Cmd, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs, Value};

use crate::Store;

static REGISTERED_SCRIPTS: LazyLock<RwLock<HashMap<&'static [u8], &'static LuaScript>>> =
    LazyLock::new(Default::default);

/// A script in Redis's dialect of Lua, meant to be a `static`.
#[derive(Debug)]
pub struct LuaScript {
    name: &'static str,
    source: &'static str,
    sha: OnceLock<String>,
    registered: Once,
    native: Option<NativeScript>,
}

/// Creates a [`LuaScript`] from a file beside the source file.
#[macro_export]
macro_rules! script {
    ($file:literal) => {
        $crate::LuaScript::new($file, include_str!($file))
    };
}

impl LuaScript {
    /// Creates a script from its name and its Lua source.
    pub const fn new(name: &'static str, source: &'static str) -> Self {
        Self {
            name,
            source,
            sha: OnceLock::new(),
            registered: Once::new(),
            native: None,
        }
    }

    /// Attaches a native script that does the same on the embedded engine.
    #[must_use]
    pub const fn with_native(mut self, native: NativeScript) -> Self {
        self.native = Some(native);
        self
    }

    /// Name of the script in logs.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Lua source of the script.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// SHA-1 of the source, by which servers know the script.
    pub fn sha(&'static self) -> &'static str {
        let sha = self
            .sha
            .get_or_init(|| redis::Script::new(self.source).get_hash().to_owned());
        // Registered after `sha` is stored, because the map borrows the stored text.
        self.registered.call_once(|| {
            REGISTERED_SCRIPTS.write().insert(sha.as_bytes(), self);
        });
        sha
    }

    /// Creates a call with these keys.
    pub fn keys(&'static self, keys: impl ToRedisArgs) -> ScriptCall {
        let count = keys.num_of_args();
        // Most calls have at most three arguments per key.
        let mut cmd = Cmd::with_capacity(16 + 4 * count, 512 + 128 * count);
        cmd.arg("EVALSHA").arg(self.sha()).arg(count).arg(keys);
        ScriptCall(cmd)
    }
}

/// One call of a script, to run or to put into a pipeline.
#[derive(Debug, Clone)]
#[must_use = "a call does nothing until it is run or put into a pipeline"]
pub struct ScriptCall(Cmd);

impl ScriptCall {
    /// Adds one argument, or several if the value is a list.
    pub fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.0.arg(arg);
        self
    }

    /// Runs the call.
    pub async fn run<T: FromRedisValue>(self, store: &Store) -> RedisResult<T> {
        match store.try_execute(&self.0) {
            Some(reply) => Ok(redis::from_redis_value(reply?.extract_error()?)?),
            None => self.0.query_async(&mut store.clone()).await,
        }
    }

    /// The command, for a pipeline.
    pub fn cmd(self) -> Cmd {
        self.0
    }
}

/// Script to load if `reply` is a `NOSCRIPT` error of `cmd`. `None` for any other reply and for unregistered scripts.
pub(crate) fn script_to_load(cmd: &Cmd, reply: &Value) -> Option<&'static LuaScript> {
    match reply {
        Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
            called_script(cmd)
        }
        _ => None,
    }
}

/// `cmd` with the script's source instead of its SHA-1, for transactions. `None` if `cmd` calls no registered script.
pub(crate) fn with_source(cmd: &Cmd) -> Option<Cmd> {
    let source = called_script(cmd)?.source;
    let mut inlined = Cmd::with_capacity(cmd.args_iter().len(), source.len() + 128);
    inlined.arg("EVAL").arg(source);
    for arg in cmd.args_iter().skip(2) {
        if let Arg::Simple(arg) = arg {
            inlined.arg(arg);
        }
    }
    Some(inlined)
}

/// The pipeline with the source of every registered script that it calls. `None` if it calls none.
pub(crate) fn with_sources(pipe: &redis::Pipeline) -> Option<redis::Pipeline> {
    if !pipe.cmd_iter().any(|cmd| called_script(cmd).is_some()) {
        return None;
    }
    let mut inlined_pipe = redis::Pipeline::with_capacity(pipe.len());
    for cmd in pipe.cmd_iter() {
        inlined_pipe.add_command(with_source(cmd).unwrap_or_else(|| cmd.clone()));
    }
    inlined_pipe.atomic();
    Some(inlined_pipe)
}

/// Whether `cmd` is `EVALSHA`.
pub(crate) fn is_evalsha(cmd: &Cmd) -> bool {
    matches!(cmd.args_iter().next(), Some(Arg::Simple(name)) if name.eq_ignore_ascii_case(b"EVALSHA"))
}

/// The registered script that `cmd` calls, if any.
pub(crate) fn called_script(cmd: &Cmd) -> Option<&'static LuaScript> {
    if !is_evalsha(cmd) {
        return None;
    }
    match cmd.args_iter().nth(1)? {
        Arg::Simple(sha) => REGISTERED_SCRIPTS.read().get(sha).copied(),
        _ => None,
    }
}

/// The command `SCRIPT LOAD` with a source.
pub(crate) fn script_load_cmd(source: &str) -> Cmd {
    let mut cmd = redis::cmd("SCRIPT");
    cmd.arg("LOAD").arg(source);
    cmd
}

/// Loads a script into the embedded engine, with its native script if it has one.
pub(crate) async fn load_into_embedded(
    connection: &mut EmbeddedConnection,
    script: &LuaScript,
) -> RedisResult<()> {
    match script.native {
        Some(native) => connection.load_native_script(script.source, native),
        None => script_load_cmd(script.source).exec_async(connection).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ONE: LuaScript = LuaScript::new("one", "return 1");

    #[test]
    fn a_call_names_the_script_by_its_sha_and_counts_the_keys() {
        let packed = ONE.keys(&["a", "b"]).arg(7).cmd().get_packed_command();
        let packed = String::from_utf8_lossy(&packed).replace("\r\n", " ");
        assert_eq!(
            packed,
            "*6 $7 EVALSHA $40 e0e1f9fabfc9d4800c877a703b823ac0578ff8db $1 2 $1 a $1 b $1 7 "
        );
    }

    #[test]
    fn a_call_in_a_transaction_brings_its_source_along() {
        let mut pipe = redis::pipe();
        pipe.atomic()
            .cmd("GET")
            .arg("a")
            .add_command(ONE.keys("a").arg("x").cmd());
        let inlined = with_sources(&pipe).expect("the pipeline calls a script");
        let names: Vec<_> = inlined
            .cmd_iter()
            .map(|cmd| cmd.args_iter().next())
            .collect();
        assert_eq!(
            names,
            [
                Some(Arg::Simple(&b"GET"[..])),
                Some(Arg::Simple(&b"EVAL"[..]))
            ]
        );
        assert!(inlined.is_transaction());
        assert!(with_sources(redis::pipe().atomic().cmd("GET").arg("a")).is_none());
    }
}
