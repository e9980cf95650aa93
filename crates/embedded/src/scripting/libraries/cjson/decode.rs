//! Decodes JSON to Lua values.

use mlua::{Lua, Table, Value};

use super::lexer::{JsonLexer, JsonToken, JsonTokenKind};
use super::{CjsonConfig, MAX_TABLE_DEPTH};
use crate::scripting::script_error::ScriptError;

pub(super) fn decode_text(
    lua: &Lua,
    config: CjsonConfig,
    text: &[u8],
) -> Result<Value, ScriptError> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(ScriptError::library(
            "JSON parser does not support UTF-16 or UTF-32",
        ));
    }
    let mut reader = JsonDecoder {
        lua,
        config,
        lexer: JsonLexer::new(text, config.decode_invalid),
    };
    let value = reader.value()?;
    match reader.lexer.next() {
        JsonToken {
            kind: JsonTokenKind::End,
            ..
        } => Ok(value),
        other => Err(other.expected_error("the end")),
    }
}

/// A table that is read in part.
struct OpenTable {
    table: Table,
    position: InsertPosition,
}

/// Position of the next value in a table.
enum InsertPosition {
    Index(u64),
    Key(Vec<u8>),
}

struct JsonDecoder<'a> {
    lua: &'a Lua,
    config: CjsonConfig,
    lexer: JsonLexer<'a>,
}

impl JsonDecoder<'_> {
    /// Reads a whole value. Tables may nest deeper than the thread's stack allows, so open tables are on a list
    /// instead.
    fn value(&mut self) -> Result<Value, ScriptError> {
        let mut open: Vec<OpenTable> = Vec::new();
        let mut token = self.lexer.next();
        loop {
            let value = match token.kind {
                JsonTokenKind::String(text) => Value::String(self.lua.create_string(text)?),
                JsonTokenKind::Number(number) => Value::Number(number),
                JsonTokenKind::Boolean(yes) => Value::Boolean(yes),
                JsonTokenKind::Null => Value::NULL,
                JsonTokenKind::ObjectBegin => {
                    let table = self.table(open.len() + 1)?;
                    let first = self.lexer.next();
                    if !matches!(first.kind, JsonTokenKind::ObjectEnd) {
                        open.push(OpenTable {
                            table,
                            position: self.key(first)?,
                        });
                        token = self.lexer.next();
                        continue;
                    }
                    Value::Table(table)
                }
                JsonTokenKind::ArrayBegin => {
                    let table = self.table(open.len() + 1)?;
                    token = self.lexer.next();
                    if !matches!(token.kind, JsonTokenKind::ArrayEnd) {
                        open.push(OpenTable {
                            table,
                            position: InsertPosition::Index(1),
                        });
                        continue;
                    }
                    Value::Table(table)
                }
                _ => return Err(token.expected_error("value")),
            };
            match self.insert_and_close(&mut open, value)? {
                Some(whole) => return Ok(whole),
                None => token = self.lexer.next(),
            }
        }
    }

    /// Inserts a value into the innermost open table and closes every table that ends after it. Returns the outermost
    /// value when no table is open, `None` if another value follows.
    fn insert_and_close(
        &mut self,
        open: &mut Vec<OpenTable>,
        mut value: Value,
    ) -> Result<Option<Value>, ScriptError> {
        loop {
            let Some(top) = open.last_mut() else {
                return Ok(Some(value));
            };
            match &top.position {
                InsertPosition::Index(at) => top.table.raw_set(*at, value)?,
                InsertPosition::Key(key) => {
                    top.table.raw_set(self.lua.create_string(key)?, value)?;
                }
            }
            let after = self.lexer.next();
            match (&after.kind, &mut top.position) {
                (JsonTokenKind::ArrayEnd, InsertPosition::Index(_))
                | (JsonTokenKind::ObjectEnd, InsertPosition::Key(_)) => {
                    value = Value::Table(top.table.clone());
                    open.pop();
                }
                (JsonTokenKind::Comma, InsertPosition::Index(at)) => {
                    *at += 1;
                    return Ok(None);
                }
                (JsonTokenKind::Comma, position @ InsertPosition::Key(_)) => {
                    let key = self.lexer.next();
                    *position = self.key(key)?;
                    return Ok(None);
                }
                (_, InsertPosition::Index(_)) => {
                    return Err(after.expected_error("comma or array end"));
                }
                (_, InsertPosition::Key(_)) => {
                    return Err(after.expected_error("comma or object end"));
                }
            }
        }
    }

    fn table(&self, depth: usize) -> Result<Table, ScriptError> {
        if depth > (self.config.decode_depth as usize).min(MAX_TABLE_DEPTH) {
            let at = self.lexer.at();
            return Err(ScriptError::library(format!(
                "Found too many nested data structures ({depth}) at character {at}"
            )));
        }
        Ok(self.lua.create_table()?)
    }

    /// Reads an object key, which starts at `token`, and the colon after it.
    fn key(&mut self, token: JsonToken) -> Result<InsertPosition, ScriptError> {
        let JsonTokenKind::String(key) = token.kind else {
            return Err(token.expected_error("object key string"));
        };
        let colon = self.lexer.next();
        let JsonTokenKind::Colon = colon.kind else {
            return Err(colon.expected_error("colon"));
        };
        Ok(InsertPosition::Key(key))
    }
}
