//! Encodes Lua values as JSON.

use mlua::{Function, Table, Value};

use super::{CjsonConfig, InvalidNumberMode, MAX_TABLE_DEPTH};
use crate::numbers::format_g;
use crate::scripting::script_error::{ScriptError, type_name};

/// Encodes a value. `next` is Lua's own function of that name.
pub(super) fn encode_value(
    config: CjsonConfig,
    next: &Function,
    value: &Value,
) -> Result<Vec<u8>, ScriptError> {
    let mut writer = JsonEncoder {
        config,
        out: Vec::with_capacity(64),
    };
    // Tables may nest deeper than the thread's stack allows, so open tables are on a list instead.
    let mut open = Vec::new();
    open.extend(writer.begin_value(value, 1)?);
    while let Some(top) = open.last_mut() {
        let Some(item) = writer.next_item(top, next)? else {
            writer.out.push(top.end());
            open.pop();
            continue;
        };
        let depth = open.len() + 1;
        open.extend(writer.begin_value(&item, depth)?);
    }
    Ok(writer.out)
}

struct JsonEncoder {
    config: CjsonConfig,
    out: Vec<u8>,
}

/// A table that is written in part.
struct OpenTable {
    table: Table,
    position: TablePosition,
    first: bool,
}

enum TablePosition {
    /// In an array: the next index, and the length.
    Index(u64, u64),
    /// In an object: the key that was written last.
    Key(Value),
}

impl OpenTable {
    fn end(&self) -> u8 {
        if let TablePosition::Index(..) = self.position {
            b']'
        } else {
            b'}'
        }
    }
}

fn cannot_serialise(value: &Value, why: &str) -> ScriptError {
    ScriptError::library(format!("Cannot serialise {}: {why}", type_name(value)))
}

impl JsonEncoder {
    /// Writes a value, or the beginning of a table.
    fn begin_value(
        &mut self,
        value: &Value,
        depth: usize,
    ) -> Result<Option<OpenTable>, ScriptError> {
        if self.out.len() > self.config.max_output_bytes {
            return Err(ScriptError::LibraryAt("not enough memory".to_owned()));
        }
        match value {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(number) => self.number(*number as f64, value)?,
            Value::Number(number) => self.number(*number, value)?,
            Value::Boolean(true) => self.out.extend(b"true"),
            Value::Boolean(false) => self.out.extend(b"false"),
            Value::Table(table) => return self.table(table, value, depth).map(Some),
            Value::Nil => self.out.extend(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend(b"null"),
            other => return Err(cannot_serialise(other, "type not supported")),
        }
        Ok(None)
    }

    fn table(
        &mut self,
        table: &Table,
        value: &Value,
        depth: usize,
    ) -> Result<OpenTable, ScriptError> {
        if depth > (self.config.encode_depth as usize).min(MAX_TABLE_DEPTH) {
            return Err(ScriptError::library(format!(
                "Cannot serialise, excessive nesting ({depth})"
            )));
        }
        let (begin, position) = match self.array_length(table, value)? {
            Some(length) if length > 0 => (b'[', TablePosition::Index(1, length)),
            _ => (b'{', TablePosition::Key(Value::Nil)),
        };
        self.out.push(begin);
        Ok(OpenTable {
            table: table.clone(),
            position,
            first: true,
        })
    }

    /// Writes the separator and the key, and returns the next value of a table, `None` at the end.
    fn next_item(
        &mut self,
        open: &mut OpenTable,
        next: &Function,
    ) -> Result<Option<Value>, ScriptError> {
        let first = std::mem::take(&mut open.first);
        match &mut open.position {
            TablePosition::Index(at, length) => {
                if *at > *length {
                    return Ok(None);
                }
                if !first {
                    self.out.push(b',');
                }
                let item = open.table.raw_get(*at)?;
                *at += 1;
                Ok(Some(item))
            }
            TablePosition::Key(last) => {
                let (key, value): (Value, Value) = next.call((&open.table, &*last))?;
                if key.is_nil() {
                    return Ok(None);
                }
                if !first {
                    self.out.push(b',');
                }
                self.key(&key)?;
                *last = key;
                Ok(Some(value))
            }
        }
    }

    fn key(&mut self, key: &Value) -> Result<(), ScriptError> {
        match key {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(_) | Value::Number(_) => {
                self.out.push(b'"');
                self.begin_value(key, 0)?;
                self.out.push(b'"');
            }
            other => {
                return Err(cannot_serialise(
                    other,
                    "table key must be a number or string",
                ));
            }
        }
        self.out.push(b':');
        Ok(())
    }

    /// Length of a table that is an array, `None` for other tables.
    fn array_length(&self, table: &Table, value: &Value) -> Result<Option<u64>, ScriptError> {
        let (mut longest, mut items) = (0, 0_u64);
        for pair in table.pairs::<Value, Value>() {
            match pair?.0 {
                Value::Integer(at) if at > 0 => longest = longest.max(at.cast_unsigned()),
                _ => return Ok(None),
            }
            items += 1;
        }
        let (ratio, safe) = (
            u64::from(self.config.sparse_ratio),
            u64::from(self.config.sparse_safe),
        );
        if ratio > 0 && longest > items * ratio && longest > safe {
            return match self.config.sparse_convert {
                true => Ok(None),
                false => Err(cannot_serialise(value, "excessively sparse array")),
            };
        }
        Ok(Some(longest))
    }

    fn number(&mut self, number: f64, value: &Value) -> Result<(), ScriptError> {
        if !number.is_finite() {
            match self.config.encode_invalid {
                InvalidNumberMode::Reject => {
                    return Err(cannot_serialise(value, "must not be NaN or Inf"));
                }
                InvalidNumberMode::WriteNull => self.out.extend(b"null"),
                InvalidNumberMode::Write if number.is_nan() => self.out.extend(b"nan"),
                InvalidNumberMode::Write => self.out.extend(format_g(number, 14).as_bytes()),
            }
            return Ok(());
        }
        // Integers that need no exponent are the common case.
        if self.config.precision == 14
            && number.fract() == 0.0
            && number.abs() < 1e14
            && !number.is_sign_negative()
        {
            self.out.extend((number as i64).to_string().as_bytes());
        } else {
            self.out
                .extend(format_g(number, self.config.precision as usize).as_bytes());
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        let mut rest = text;
        while let Some(plain) = rest.iter().position(|&byte| needs_escape(byte)) {
            self.out.extend(&rest[..plain]);
            self.escape(rest[plain]);
            rest = &rest[plain + 1..];
        }
        self.out.extend(rest);
        self.out.push(b'"');
    }

    fn escape(&mut self, byte: u8) {
        let short = match byte {
            8 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            12 => b'f',
            b'\r' => b'r',
            b'"' | b'\\' | b'/' => byte,
            _ => {
                self.out.extend(format!("\\u{byte:04x}").as_bytes());
                return;
            }
        };
        self.out.extend([b'\\', short]);
    }
}

fn needs_escape(byte: u8) -> bool {
    byte < 32 || matches!(byte, b'"' | b'\\' | b'/' | 127)
}
