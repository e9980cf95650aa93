//! What goes wrong inside a script, and how it is told.
//!
//! Always true:
//! 1. A script sees what it would see in Redis: a string with the place for a library's complaint, a table with `err`
//!    for a command's.
//! 2. A script that was stopped cannot catch that.

use std::borrow::Cow;

use mlua::{Lua, Value};

use crate::number::format_g;

/// Why a function of the host did not return.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum ScriptError {
    /// A command failed: a table with `err` and the mark Redis sets on such.
    #[error("{0}")]
    Command(String),
    /// A function of `redis` was called wrongly: a table with `err`.
    #[error("{0}")]
    ApiMisuse(String),
    /// A library function was called wrongly: a string that begins with the place of the call.
    #[error("{0}")]
    Library(String),
    /// As [`Text`](Self::Text), with the place already there, or without one.
    #[error("{0}")]
    LibraryAt(String),
    /// The script is stopped.
    #[error("{0}")]
    Stopped(String),
    /// Lua itself failed.
    #[error(transparent)]
    Lua(#[from] mlua::Error),
}

impl ScriptError {
    pub fn library(text: impl Into<String>) -> Self {
        Self::Library(text.into())
    }

    /// The complaint of Lua's own library about an argument.
    pub fn bad_argument(position: usize, function: &str, complaint: &str) -> Self {
        Self::Library(format!(
            "bad argument #{position} to '{function}' ({complaint})"
        ))
    }

    /// The complaint about an argument's type; `None` stands for an argument that is not there.
    pub fn wrong_type(
        position: usize,
        function: &str,
        wanted: &str,
        found: Option<&Value>,
    ) -> Self {
        let found = found.map_or("no value", type_name);
        Self::bad_argument(
            position,
            function,
            &format!("{wanted} expected, got {found}"),
        )
    }

    /// The error to leave a host function with. Must be called inside of it, since the place is its caller's.
    pub fn into_lua_error(self, lua: &Lua) -> mlua::Error {
        match self {
            Self::Lua(error) => error,
            Self::Library(text) => {
                mlua::Error::external(Self::LibraryAt(caller_location(lua) + &text))
            }
            other => mlua::Error::external(other),
        }
    }

    fn from_lua_error(error: &mlua::Error) -> Self {
        match error.downcast_ref::<Self>() {
            Some(fault) => fault.clone(),
            None => match error {
                mlua::Error::CallbackError { cause, .. } => Self::from_lua_error(cause),
                mlua::Error::MemoryError(_) => Self::LibraryAt("not enough memory".to_owned()),
                mlua::Error::RuntimeError(text) => Self::LibraryAt(text.clone()),
                other => Self::LibraryAt(other.to_string()),
            },
        }
    }
}

/// The place of the function that called the running one, as `luaL_where` writes it.
fn caller_location(lua: &Lua) -> String {
    let place = lua.inspect_stack(1, |frame| {
        let source = frame.source().short_src.map(Cow::into_owned);
        frame
            .current_line()
            .map(|line| format!("{}:{line}: ", source.unwrap_or_default()))
    });
    place.flatten().unwrap_or_default()
}

/// What a script that catches an error sees of it; nil when it may not catch it.
pub(super) fn error_for_pcall(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let Value::Error(error) = error else {
        return Ok(error);
    };
    match ScriptError::from_lua_error(&error) {
        ScriptError::Command(text) => error_table(lua, &text, true),
        ScriptError::ApiMisuse(text) => error_table(lua, &text, false),
        ScriptError::Library(text) | ScriptError::LibraryAt(text) => {
            lua.create_string(text).map(Value::String)
        }
        ScriptError::Stopped(_) => Ok(Value::Nil),
        ScriptError::Lua(error) => lua.create_string(error.to_string()).map(Value::String),
    }
}

/// An error as a value: a table with `err`.
pub(super) fn error_table(lua: &Lua, text: &str, of_a_command: bool) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set("err", text)?;
    if of_a_command {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(Value::Table(table))
}

/// The error reply for an error that nobody caught. Must be called as the handler of `xpcall`, since it names the
/// place where that happened.
pub(super) fn uncaught_error_text(lua: &Lua, error: &Value, sha: &str) -> String {
    let text = match error {
        Value::Error(error) => match ScriptError::from_lua_error(error) {
            ScriptError::Command(text)
            | ScriptError::ApiMisuse(text)
            | ScriptError::Stopped(text) => text,
            ScriptError::Library(text) | ScriptError::LibraryAt(text) => format!("ERR {text}"),
            ScriptError::Lua(error) => format!("ERR {error}"),
        },
        Value::Table(table) => match table.raw_get("err") {
            Ok(Value::String(text)) => text.to_string_lossy(),
            Ok(Value::Nil) | Err(_) => "ERR the script raised a table without err".to_owned(),
            Ok(other) => tostring(&other),
        },
        other => format!("ERR {}", tostring(other)),
    };
    match error_location(lua) {
        Some((source, line)) => format!("{text} script: {sha}, on {source}:{line}."),
        None => text,
    }
}

/// Source and line of the function that raised the error, or of its caller when it was none of Lua's own.
fn error_location(lua: &Lua) -> Option<(String, i64)> {
    let frame = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let line = frame
                .current_line()
                .and_then(|line| i64::try_from(line).ok());
            let name = source.source.as_deref().unwrap_or_default();
            (name == "=[C]", name.to_owned(), line.unwrap_or(-1))
        })
    };
    let (native, source, line) = frame(1)?;
    if native {
        return frame(2).map(|(_, source, line)| (source, line));
    }
    Some((source, line))
}

/// A value as `tostring` prints it.
fn tostring(value: &Value) -> String {
    match value {
        Value::Integer(number) => format_g(*number as f64, 14),
        Value::Number(number) => format_g(*number, 14),
        Value::String(text) => text.to_string_lossy(),
        other => other
            .to_string()
            .unwrap_or_else(|_| type_name(other).to_owned()),
    }
}

/// The name Lua has for a value's type.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}
