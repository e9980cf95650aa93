//! Lua scripts: written once, known by their SHA-1, sent by `EVALSHA`.
//!
//! Always true:
//! 1. Whoever holds a command that calls one of our scripts can find the script's source by the command alone
//!    (computing the SHA registers the source), so a server that lost its scripts is given them again on demand.
//! 2. A step that stands in for a script runs on the embedded engine alone, and does what the script does.
//! 3. Inside a transaction a script is sent by `EVAL`: a `NOSCRIPT` there would leave the other commands of the
//!    transaction executed, and sending those again is not harmless.

use std::collections::HashMap;
use std::sync::{LazyLock, Once, OnceLock};

use parking_lot::RwLock;
use parlor_embedded::EmbeddedConnection;
use parlor_embedded::native::NativeScript;
use redis::{Arg, Cmd, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs, Value};

use crate::Store;

static REGISTERED_SCRIPTS: LazyLock<RwLock<HashMap<&'static [u8], &'static LuaScript>>> =
    LazyLock::new(Default::default);

/// A script in the Lua dialect of Redis, meant to be a `static`.
#[derive(Debug)]
pub struct LuaScript {
    name: &'static str,
    source: &'static str,
    sha: OnceLock<String>,
    registered: Once,
    native: Option<NativeScript>,
}

/// A [`Script`] from a file beside the source file that names it.
#[macro_export]
macro_rules! script {
    ($file:literal) => {
        $crate::LuaScript::new($file, include_str!($file))
    };
}

impl LuaScript {
    /// A script with the name it has in logs.
    pub const fn new(name: &'static str, source: &'static str) -> Self {
        Self {
            name,
            source,
            sha: OnceLock::new(),
            registered: Once::new(),
            native: None,
        }
    }

    /// With a step in Rust that does the same, for the embedded engine.
    #[must_use]
    pub const fn with_native(mut self, native: NativeScript) -> Self {
        self.native = Some(native);
        self
    }

    /// The name it has in logs.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The Lua text.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// The SHA-1 by which servers know it.
    pub fn sha(&'static self) -> &'static str {
        let sha = self
            .sha
            .get_or_init(|| redis::Script::new(self.source).get_hash().to_owned());
        // After it was stored, for the map borrows the stored text.
        self.registered.call_once(|| {
            REGISTERED_SCRIPTS.write().insert(sha.as_bytes(), self);
        });
        sha
    }

    /// A call with its keys.
    pub fn keys(&'static self, keys: impl ToRedisArgs) -> ScriptCall {
        let count = keys.num_of_args();
        // Most keys have three arguments or less.
        let mut cmd = Cmd::with_capacity(16 + 4 * count, 512 + 128 * count);
        cmd.arg("EVALSHA").arg(self.sha()).arg(count).arg(keys);
        ScriptCall(cmd)
    }
}

/// One call of a script, to be run or put into a pipeline.
#[derive(Debug, Clone)]
#[must_use = "a call does nothing until it is run or put into a pipeline"]
pub struct ScriptCall(Cmd);

impl ScriptCall {
    /// One more argument, or several if the value is a list.
    pub fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.0.arg(arg);
        self
    }

    /// Runs it.
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

impl From<ScriptCall> for Cmd {
    fn from(call: ScriptCall) -> Self {
        call.0
    }
}

/// The script to load when `reply` says that the script of `cmd` is not known; none if it says anything else.
pub(crate) fn script_to_load(cmd: &Cmd, reply: &Value) -> Option<&'static LuaScript> {
    match reply {
        Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
            called_script(cmd)
        }
        _ => None,
    }
}

/// The command that brings its script along, for transactions; none if `cmd` does not call one of ours.
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

/// The pipeline with every script brought along.
pub(crate) fn with_sources(pipe: &redis::Pipeline) -> Option<redis::Pipeline> {
    let calls = pipe
        .cmd_iter()
        .filter(|cmd| called_script(cmd).is_some())
        .count();
    if calls == 0 {
        return None;
    }
    let mut inlined_pipe = redis::Pipeline::with_capacity(pipe.len());
    for cmd in pipe.cmd_iter() {
        inlined_pipe.add_command(with_source(cmd).unwrap_or_else(|| cmd.clone()));
    }
    inlined_pipe.atomic();
    Some(inlined_pipe)
}

/// Whether `cmd` calls a script by its SHA.
pub(crate) fn is_evalsha(cmd: &Cmd) -> bool {
    matches!(cmd.args_iter().next(), Some(Arg::Simple(name)) if name.eq_ignore_ascii_case(b"EVALSHA"))
}

/// The script that `cmd` calls, if it is one of ours.
pub(crate) fn called_script(cmd: &Cmd) -> Option<&'static LuaScript> {
    if !is_evalsha(cmd) {
        return None;
    }
    match cmd.args_iter().nth(1)? {
        Arg::Simple(sha) => REGISTERED_SCRIPTS.read().get(sha).copied(),
        _ => None,
    }
}

/// `SCRIPT LOAD` of a source.
pub(crate) fn script_load_cmd(source: &str) -> Cmd {
    let mut cmd = redis::cmd("SCRIPT");
    cmd.arg("LOAD").arg(source);
    cmd
}

/// Loads a script into the embedded engine, with what stands in for it.
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
