//! Errors inside a script and how the script sees them.
//!
//! Invariants:
//! 1. A script sees what it would see in Redis: a string with the source location for an error of a library, a table
//!    with `err` for an error of a command.
//! 2. A script cannot catch the error that stops it.

use std::borrow::Cow;

use mlua::{Lua, Value};

use super::convert::tostring;

/// Why a host function failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum ScriptError {
    /// A command failed. The script gets a table with `err` and the flag that Redis sets for command errors.
    #[error("{0}")]
    Command(String),
    /// A function of `redis` was called wrongly. The script gets a table with `err`.
    #[error("{0}")]
    ApiMisuse(String),
    /// A library function was called wrongly. The script gets a string that begins with the location of the call.
    #[error("{0}")]
    Library(String),
    /// As [`Library`](Self::Library), but the text already has its location, or needs none.
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

    /// Error of Lua's own library about an argument.
    pub fn bad_argument(position: usize, function: &str, complaint: &str) -> Self {
        Self::Library(format!(
            "bad argument #{position} to '{function}' ({complaint})"
        ))
    }

    /// Error about the type of an argument. `None` stands for a missing argument.
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

    /// The mlua error that a host function returns. Must be called inside that function, because it adds the location
    /// of the function's caller.
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
            Some(error) => error.clone(),
            None => match error {
                mlua::Error::CallbackError { cause, .. } => Self::from_lua_error(cause),
                mlua::Error::MemoryError(_) => Self::LibraryAt("not enough memory".to_owned()),
                mlua::Error::RuntimeError(text) => Self::LibraryAt(text.clone()),
                other => Self::LibraryAt(other.to_string()),
            },
        }
    }
}

/// Location of the function that called the running one, as `luaL_where` formats it.
fn caller_location(lua: &Lua) -> String {
    let location = lua.inspect_stack(1, |frame| {
        let source = frame.source().short_src.map(Cow::into_owned);
        frame
            .current_line()
            .map(|line| format!("{}:{line}: ", source.unwrap_or_default()))
    });
    location.flatten().unwrap_or_default()
}

/// The value that a script gets when it catches an error; nil if it may not catch the error.
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

/// An error as a Lua value: a table with `err`.
pub(super) fn error_table(lua: &Lua, text: &str, from_command: bool) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set("err", text)?;
    if from_command {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(Value::Table(table))
}

/// Text of the error reply for an uncaught error. Must be called in the handler of `xpcall`, because it adds the
/// location of the error.
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

/// Source and line of the function that raised the error, or of its caller if the function is not a Lua function.
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

/// Lua's name for the type of a value.
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
