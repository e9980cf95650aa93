//! JSON as Lua values.

use mlua::{Lua, Table, Value};

use super::lexer::{Kind, Lexer, Token};
use super::{Config, DEEPEST};
use crate::script::fault::Fault;

/// The value a text holds.
pub(super) fn value(lua: &Lua, config: Config, text: &[u8]) -> Result<Value, Fault> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Fault::text("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut reader = Reader {
        lua,
        config,
        lexer: Lexer::new(text, config.decode_invalid),
    };
    let value = reader.value()?;
    match reader.lexer.next() {
        Token {
            kind: Kind::End, ..
        } => Ok(value),
        other => Err(other.instead_of("the end")),
    }
}

/// A table of which a part is read.
struct Open {
    table: Table,
    place: Place,
}

/// Where the next value goes.
enum Place {
    Index(u64),
    Key(Vec<u8>),
}

struct Reader<'a> {
    lua: &'a Lua,
    config: Config,
    lexer: Lexer<'a>,
}

impl Reader<'_> {
    /// Reads a whole value. Tables nest deeper than the thread's stack may reach, so the open ones are kept here.
    fn value(&mut self) -> Result<Value, Fault> {
        let mut open: Vec<Open> = Vec::new();
        let mut token = self.lexer.next();
        loop {
            let begun = match token.kind {
                Kind::String(text) => Value::String(self.lua.create_string(text)?),
                Kind::Number(number) => Value::Number(number),
                Kind::Boolean(yes) => Value::Boolean(yes),
                Kind::Null => Value::NULL,
                Kind::ObjectBegin => {
                    let table = self.table(open.len() + 1)?;
                    let first = self.lexer.next();
                    if !matches!(first.kind, Kind::ObjectEnd) {
                        open.push(Open {
                            table,
                            place: self.key(first)?,
                        });
                        token = self.lexer.next();
                        continue;
                    }
                    Value::Table(table)
                }
                Kind::ArrayBegin => {
                    let table = self.table(open.len() + 1)?;
                    token = self.lexer.next();
                    if !matches!(token.kind, Kind::ArrayEnd) {
                        open.push(Open {
                            table,
                            place: Place::Index(1),
                        });
                        continue;
                    }
                    Value::Table(table)
                }
                _ => return Err(token.instead_of("value")),
            };
            match self.close(&mut open, begun)? {
                Some(whole) => return Ok(whole),
                None => token = self.lexer.next(),
            }
        }
    }

    /// Puts a value into the table it belongs to, and closes the tables that end behind it. The value that is left
    /// when none is open; nothing when another value follows.
    fn close(&mut self, open: &mut Vec<Open>, mut value: Value) -> Result<Option<Value>, Fault> {
        loop {
            let Some(top) = open.last_mut() else {
                return Ok(Some(value));
            };
            match &top.place {
                Place::Index(at) => top.table.raw_set(*at, value)?,
                Place::Key(key) => top.table.raw_set(self.lua.create_string(key)?, value)?,
            }
            let after = self.lexer.next();
            match (&after.kind, &mut top.place) {
                (Kind::ArrayEnd, Place::Index(_)) | (Kind::ObjectEnd, Place::Key(_)) => {
                    value = Value::Table(top.table.clone());
                    open.pop();
                }
                (Kind::Comma, Place::Index(at)) => {
                    *at += 1;
                    return Ok(None);
                }
                (Kind::Comma, place @ Place::Key(_)) => {
                    let key = self.lexer.next();
                    *place = self.key(key)?;
                    return Ok(None);
                }
                (_, Place::Index(_)) => return Err(after.instead_of("comma or array end")),
                (_, Place::Key(_)) => return Err(after.instead_of("comma or object end")),
            }
        }
    }

    fn table(&self, depth: usize) -> Result<Table, Fault> {
        if depth > (self.config.decode_depth as usize).min(DEEPEST) {
            let at = self.lexer.at();
            return Err(Fault::text(format!(
                "Found too many nested data structures ({depth}) at character {at}"
            )));
        }
        Ok(self.lua.create_table()?)
    }

    /// The key that a token is, with the colon behind it read.
    fn key(&mut self, token: Token) -> Result<Place, Fault> {
        let Kind::String(key) = token.kind else {
            return Err(token.instead_of("object key string"));
        };
        let colon = self.lexer.next();
        let Kind::Colon = colon.kind else {
            return Err(colon.instead_of("colon"));
        };
        Ok(Place::Key(key))
    }
}
