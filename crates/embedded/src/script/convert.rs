//! Values on their way into a script and out of it, as protocol 2 of Redis has them.

use mlua::{BorrowedBytes, IntoLua, Lua, Table, Value};
use redis::Value as Resp;
use smallvec::SmallVec;

use super::fault::{Fault, failure};
use crate::error::{Error, Reply};
use crate::number::{Digits, format_g};
use crate::reply;

/// How deep a script's answer may nest. Redis allows some thousands, but clients read about a hundred.
const DEEPEST: usize = 128;
/// How large a script's answer may be: one string may stand in it many times.
const LARGEST: usize = 512 << 20;

/// An argument of `redis.call`: Lua's own bytes, or a number's text.
pub(super) enum Arg {
    Text(BorrowedBytes),
    Number(SmallVec<[u8; 24]>),
}

impl AsRef<[u8]> for Arg {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Text(bytes) => bytes,
            Self::Number(text) => text,
        }
    }
}

impl Arg {
    pub fn of(value: &Value) -> Result<Self, Fault> {
        match value {
            Value::String(text) => Ok(Self::Text(text.as_bytes())),
            Value::Integer(number) => Ok(Self::Number(integer(*number))),
            Value::Number(number) => Ok(Self::Number(SmallVec::from_slice(
                float(*number, 17).as_bytes(),
            ))),
            _ => Err(Fault::Misuse(
                "ERR Lua redis lib command arguments must be strings or integers".to_owned(),
            )),
        }
    }
}

/// A whole number as `%.17g` prints it.
fn integer(number: i64) -> SmallVec<[u8; 24]> {
    const PLAIN: u64 = 100_000_000_000_000_000;
    match number.unsigned_abs() {
        ..PLAIN => SmallVec::from_slice(&Digits::of(number)),
        _ => SmallVec::from_slice(float(number as f64, 17).as_bytes()),
    }
}

fn float(number: f64, digits: usize) -> String {
    match number.is_nan() && number.is_sign_negative() {
        true => "-nan".to_owned(),
        false => format_g(number, digits),
    }
}

/// A number as `tostring` prints it; nothing for other values.
pub(super) fn printed(number: &Value) -> String {
    match number {
        Value::Integer(number) => float(*number as f64, 14),
        Value::Number(number) => float(*number, 14),
        _ => String::new(),
    }
}

/// A command's reply, for Lua.
pub(super) struct Given(pub Resp);

impl IntoLua for Given {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        match self.0 {
            Resp::Int(number) => Ok(Value::Number(number as f64)),
            Resp::BulkString(bytes) => lua.create_string(bytes).map(Value::String),
            Resp::Nil => Ok(Value::Boolean(false)),
            Resp::Okay => status(lua, "OK"),
            Resp::SimpleString(text) => status(lua, &text),
            Resp::Array(items) => lua
                .create_sequence_from(items.into_iter().map(Given))
                .map(Value::Table),
            Resp::ServerError(error) => {
                let text = error.details().map_or_else(
                    || error.code().to_owned(),
                    |text| format!("{} {text}", error.code()),
                );
                failure(lua, &text, true)
            }
            other => Err(mlua::Error::runtime(format!(
                "a command answered what protocol 2 does not know: {other:?}"
            ))),
        }
    }
}

fn status(lua: &Lua, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("ok", text)?;
    Ok(Value::Table(table))
}

/// A script's answer as a reply.
pub(super) fn answer(value: Value) -> Reply {
    (Answer { left: LARGEST }).value(value, 0)?
}

struct Answer {
    left: usize,
}

/// The outer error ends the script's answer, the inner one is an answer or a part of it.
type Part = Result<Result<Resp, Error>, Error>;

impl Answer {
    fn value(&mut self, value: Value, depth: usize) -> Part {
        self.spend(16)?;
        Ok(Ok(match value {
            Value::String(text) => {
                let bytes = text.as_bytes();
                self.spend(bytes.len())?;
                reply::bulk(&*bytes)
            }
            Value::Integer(number) => Resp::Int(number),
            Value::Number(number) => Resp::Int(truncated(number)),
            Value::Boolean(true) => Resp::Int(1),
            Value::Table(table) => return self.table(&table, depth),
            _ => reply::NIL,
        }))
    }

    fn table(&mut self, table: &Table, depth: usize) -> Part {
        if depth >= DEEPEST {
            return Ok(Err(Error::fixed("ERR reached lua stack limit")));
        }
        if let Some(text) = text_at(table, "err") {
            return Ok(Err(Error::new(text)));
        }
        if let Some(text) = text_at(table, "ok") {
            let text = text.replace(['\r', '\n'], " ");
            return Ok(Ok(if text == "OK" {
                Resp::Okay
            } else {
                Resp::SimpleString(text)
            }));
        }
        if let Some(special) = self.special(table, depth)? {
            return Ok(Ok(special));
        }
        // A table with holes can claim a length of hundreds of millions.
        let mut items = Vec::with_capacity(table.raw_len().min(1_024));
        for at in 1.. {
            match field(table, at)? {
                Value::Nil => break,
                item => items.push(self.item(item, depth)?),
            }
        }
        Ok(Ok(Resp::Array(items)))
    }

    /// Tables that stand for a type of protocol 3, in the form protocol 2 has for them.
    fn special(&mut self, table: &Table, depth: usize) -> Result<Option<Resp>, Error> {
        if !table_has_more_than_items(table) {
            return Ok(None);
        }
        if let Value::Integer(_) | Value::Number(_) = field(table, "double")? {
            let number = match field(table, "double")? {
                Value::Number(number) => number,
                Value::Integer(number) => number as f64,
                _ => 0.0,
            };
            return Ok(Some(reply::bulk(float(number, 17))));
        }
        if let Value::Table(map) = field(table, "map")? {
            return self.pairs(&map, depth, true).map(Some);
        }
        if let Value::Table(set) = field(table, "set")? {
            return self.pairs(&set, depth, false).map(Some);
        }
        if let Value::String(digits) = field(table, "big_number")? {
            return Ok(Some(reply::bulk(&*digits.as_bytes())));
        }
        if let Value::Table(verbatim) = field(table, "verbatim_string")?
            && let Value::String(text) = field(&verbatim, "string")?
        {
            return Ok(Some(reply::bulk(&*text.as_bytes())));
        }
        Ok(None)
    }

    fn pairs(&mut self, table: &Table, depth: usize, values: bool) -> Result<Resp, Error> {
        let mut items = Vec::new();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(lua_failed)?;
            items.push(self.item(key, depth)?);
            if values {
                items.push(self.item(value, depth)?);
            }
        }
        Ok(Resp::Array(items))
    }

    fn item(&mut self, value: Value, depth: usize) -> Result<Resp, Error> {
        Ok(self
            .value(value, depth + 1)?
            .unwrap_or_else(Error::into_value))
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        const TOO_LARGE: Error =
            Error::fixed("ERR script stopped: its answer is larger than 512 MiB");
        self.left = self.left.checked_sub(bytes).ok_or(TOO_LARGE)?;
        Ok(())
    }
}

/// Lists are the common answer, and they need not be searched for the names of rare types.
fn table_has_more_than_items(table: &Table) -> bool {
    table.raw_len() == 0 && !table.is_empty()
}

fn field(table: &Table, key: impl IntoLua) -> Result<Value, Error> {
    table.raw_get(key).map_err(lua_failed)
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn lua_failed(error: mlua::Error) -> Error {
    Error::new(format!("ERR {error}"))
}

fn text_at(table: &Table, key: &str) -> Option<String> {
    match table.raw_get(key) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        _ => None,
    }
}

/// A number without its fraction, as the processors Redis runs on convert it: what does not fit is the smallest.
fn truncated(number: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}
