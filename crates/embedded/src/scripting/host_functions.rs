//! Creates functions that scripts can call, and reads their arguments.

use mlua::{IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

use super::convert::tostring;
use super::script_error::ScriptError;

/// Adds a function that scripts can call to a library.
pub(super) fn add_function<R: IntoLuaMulti>(
    lua: &Lua,
    library: &Table,
    name: &str,
    run: impl Fn(&Lua, &[Value]) -> Result<R, ScriptError> + Send + 'static,
) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, mut args: MultiValue| {
        run(lua, args.make_contiguous()).map_err(|error| error.into_lua_error(lua))
    })?;
    library.raw_set(name, function)
}

/// A number argument. As in Lua's library, a string that contains a number is accepted.
pub(super) fn number_arg(
    args: &[Value],
    position: usize,
    function: &str,
) -> Result<f64, ScriptError> {
    let arg = args.get(position - 1);
    let number = match arg {
        Some(Value::Integer(number)) => Some(*number as f64),
        Some(Value::Number(number)) => Some(*number),
        Some(Value::String(text)) => text
            .to_str()
            .ok()
            .and_then(|text| parse_number_literal(text.trim())),
        _ => None,
    };
    number.ok_or_else(|| ScriptError::wrong_type(position, function, "number", arg))
}

/// Parses a number literal of Lua.
fn parse_number_literal(text: &str) -> Option<f64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16)
            .ok()
            .map(|number| number as f64),
        None => text.parse().ok(),
    }
}

/// A string argument. As in Lua's library, a number becomes its text.
pub(super) fn string_arg(
    lua: &Lua,
    args: &[Value],
    position: usize,
    function: &str,
) -> Result<LuaString, ScriptError> {
    let arg = args.get(position - 1);
    match arg {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(number @ (Value::Integer(_) | Value::Number(_))) => {
            let text = tostring(number);
            Ok(lua.create_string(text)?)
        }
        _ => Err(ScriptError::wrong_type(position, function, "string", arg)),
    }
}
