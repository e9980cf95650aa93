//! Converts arguments and replies of scripts, in the shapes of RESP2.

use mlua::{BorrowedBytes, IntoLua, Lua, Table, Value};
use redis::Value as Resp;
use smallvec::SmallVec;

use super::script_error::{ScriptError, error_table, type_name};
use crate::commands::reply;
use crate::error::{CommandError, CommandResult};
use crate::numbers::{format_g, format_int};

/// Maximum nesting of a script's reply. Redis allows some thousands, but clients parse about a hundred.
const MAX_REPLY_DEPTH: usize = 128;
/// Maximum size of a script's reply, in which one string may occur many times.
const MAX_REPLY_BYTES: usize = 512 << 20;

/// Argument of `redis.call`: the bytes of a Lua string, or the text of a number.
pub(super) enum LuaCallArg {
    Text(BorrowedBytes),
    Number(SmallVec<[u8; 24]>),
}

impl AsRef<[u8]> for LuaCallArg {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Text(bytes) => bytes,
            Self::Number(text) => text,
        }
    }
}

impl LuaCallArg {
    pub fn of(value: &Value) -> Result<Self, ScriptError> {
        match value {
            Value::String(text) => Ok(Self::Text(text.as_bytes())),
            Value::Integer(number) => Ok(Self::Number(format_integer(*number))),
            Value::Number(number) => Ok(Self::Number(SmallVec::from_slice(
                format_float(*number, 17).as_bytes(),
            ))),
            _ => Err(ScriptError::ApiMisuse(
                "ERR Lua redis lib command arguments must be strings or integers".to_owned(),
            )),
        }
    }
}

/// Formats an integer as `%.17g` does.
fn format_integer(number: i64) -> SmallVec<[u8; 24]> {
    const MIN_EXPONENT_INT: u64 = 100_000_000_000_000_000;
    match number.unsigned_abs() {
        ..MIN_EXPONENT_INT => SmallVec::from_slice(&format_int(number)),
        _ => SmallVec::from_slice(format_float(number as f64, 17).as_bytes()),
    }
}

fn format_float(number: f64, digits: usize) -> String {
    match number.is_nan() && number.is_sign_negative() {
        true => "-nan".to_owned(),
        false => format_g(number, digits),
    }
}

/// A value as `tostring` prints it.
pub(super) fn tostring(value: &Value) -> String {
    match value {
        Value::Integer(number) => format_float(*number as f64, 14),
        Value::Number(number) => format_float(*number, 14),
        Value::String(text) => text.to_string_lossy(),
        other => other
            .to_string()
            .unwrap_or_else(|_| type_name(other).to_owned()),
    }
}

/// Reply of a command on its way into Lua.
pub(super) struct LuaReply(pub Resp);

impl IntoLua for LuaReply {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        match self.0 {
            Resp::Int(number) => Ok(Value::Number(number as f64)),
            Resp::BulkString(bytes) => lua.create_string(bytes).map(Value::String),
            Resp::Nil => Ok(Value::Boolean(false)),
            Resp::Okay => status(lua, "OK"),
            Resp::SimpleString(text) => status(lua, &text),
            Resp::Array(items) => lua
                .create_sequence_from(items.into_iter().map(LuaReply))
                .map(Value::Table),
            Resp::ServerError(error) => {
                let text = error.details().map_or_else(
                    || error.code().to_owned(),
                    |text| format!("{} {text}", error.code()),
                );
                error_table(lua, &text, true)
            }
            other => Err(mlua::Error::runtime(format!(
                "a command returned a value that RESP2 does not have: {other:?}"
            ))),
        }
    }
}

fn status(lua: &Lua, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("ok", text)?;
    Ok(Value::Table(table))
}

/// Converts the result of a script into a reply.
pub(super) fn lua_to_reply(value: Value) -> CommandResult {
    (LuaReplyReader {
        bytes_left: MAX_REPLY_BYTES,
    })
    .value(value, 0)?
}

struct LuaReplyReader {
    bytes_left: usize,
}

/// The outer error ends the whole reply, the inner error is a reply or a part of it.
type ReplyPart = Result<Result<Resp, CommandError>, CommandError>;

impl LuaReplyReader {
    fn value(&mut self, value: Value, depth: usize) -> ReplyPart {
        self.charge_bytes(16)?;
        Ok(Ok(match value {
            Value::String(text) => {
                let bytes = text.as_bytes();
                self.charge_bytes(bytes.len())?;
                reply::bulk(&*bytes)
            }
            Value::Integer(number) => Resp::Int(number),
            Value::Number(number) => Resp::Int(truncate_to_i64(number)),
            Value::Boolean(true) => Resp::Int(1),
            Value::Table(table) => return self.table(&table, depth),
            _ => reply::NIL,
        }))
    }

    fn table(&mut self, table: &Table, depth: usize) -> ReplyPart {
        if depth >= MAX_REPLY_DEPTH {
            return Ok(Err(CommandError::from_static(
                "ERR reached lua stack limit",
            )));
        }
        if let Some(text) = string_field(table, "err") {
            return Ok(Err(CommandError::new(text)));
        }
        if let Some(text) = string_field(table, "ok") {
            let text = text.replace(['\r', '\n'], " ");
            return Ok(Ok(if text == "OK" {
                Resp::Okay
            } else {
                Resp::SimpleString(text)
            }));
        }
        if let Some(special) = self.resp3_table(table, depth)? {
            return Ok(Ok(special));
        }
        // A table with holes can report a length of hundreds of millions.
        let mut items = Vec::with_capacity(table.raw_len().min(1_024));
        for at in 1.. {
            match raw_field(table, at)? {
                Value::Nil => break,
                item => items.push(self.item(item, depth)?),
            }
        }
        Ok(Ok(Resp::Array(items)))
    }

    /// Converts tables that stand for a RESP3 type to the RESP2 form of that type.
    fn resp3_table(&mut self, table: &Table, depth: usize) -> Result<Option<Resp>, CommandError> {
        if !table_has_more_than_items(table) {
            return Ok(None);
        }
        let double = match raw_field(table, "double")? {
            Value::Number(number) => Some(number),
            Value::Integer(number) => Some(number as f64),
            _ => None,
        };
        if let Some(double) = double {
            return Ok(Some(reply::bulk(format_float(double, 17))));
        }
        if let Value::Table(map) = raw_field(table, "map")? {
            return self.pairs(&map, depth, true).map(Some);
        }
        if let Value::Table(set) = raw_field(table, "set")? {
            return self.pairs(&set, depth, false).map(Some);
        }
        if let Value::String(digits) = raw_field(table, "big_number")? {
            return Ok(Some(reply::bulk(&*digits.as_bytes())));
        }
        if let Value::Table(verbatim) = raw_field(table, "verbatim_string")?
            && let Value::String(text) = raw_field(&verbatim, "string")?
        {
            return Ok(Some(reply::bulk(&*text.as_bytes())));
        }
        Ok(None)
    }

    fn pairs(&mut self, table: &Table, depth: usize, values: bool) -> Result<Resp, CommandError> {
        let mut items = Vec::new();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(to_command_error)?;
            items.push(self.item(key, depth)?);
            if values {
                items.push(self.item(value, depth)?);
            }
        }
        Ok(Resp::Array(items))
    }

    fn item(&mut self, value: Value, depth: usize) -> Result<Resp, CommandError> {
        Ok(self
            .value(value, depth + 1)?
            .unwrap_or_else(CommandError::into_value))
    }

    fn charge_bytes(&mut self, bytes: usize) -> Result<(), CommandError> {
        const TOO_LARGE: CommandError =
            CommandError::from_static("ERR script stopped: its reply is larger than 512 MiB");
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(TOO_LARGE)?;
        Ok(())
    }
}

/// Lists are the common reply, and they need not be searched for the field names of RESP3 types.
fn table_has_more_than_items(table: &Table) -> bool {
    table.raw_len() == 0 && !table.is_empty()
}

fn raw_field(table: &Table, key: impl IntoLua) -> Result<Value, CommandError> {
    table.raw_get(key).map_err(to_command_error)
}

#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
fn to_command_error(error: mlua::Error) -> CommandError {
    CommandError::new(format!("ERR {error}"))
}

fn string_field(table: &Table, key: &str) -> Option<String> {
    match table.raw_get(key) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        _ => None,
    }
}

/// Truncates a number as an x86-64 processor does: a number out of range becomes `i64::MIN`.
fn truncate_to_i64(number: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}
