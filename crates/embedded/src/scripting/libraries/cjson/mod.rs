//! The Lua library `cjson`: JSON as lua-cjson 2.1 reads and writes it, with its error texts.

mod decode;
mod encode;
mod lexer;

use std::sync::Arc;

use mlua::{Function, Lua, Table, Value};
use parking_lot::Mutex;

use crate::scripting::ScriptLimits;
use crate::scripting::convert::tostring;
use crate::scripting::host_functions::{create_host_function, number_arg, string_arg};
use crate::scripting::script_error::ScriptError;

/// Settings that scripts can change. As in Redis, a change stays for later scripts.
#[derive(Debug, Clone, Copy)]
struct CjsonConfig {
    /// Write an excessively sparse array as an object instead of rejecting it.
    sparse_convert: bool,
    /// Positions per item that make an array excessively sparse, 0 for never.
    sparse_ratio: u32,
    /// Length up to which an array is never excessively sparse.
    sparse_safe: u32,
    encode_depth: u32,
    decode_depth: u32,
    /// How to encode NaN and infinities.
    encode_invalid: InvalidNumberMode,
    /// Whether to decode NaN, infinities and hexadecimal numbers.
    decode_invalid: bool,
    /// Number of digits of an encoded number.
    precision: u32,
    /// Accepted for compatibility, without effect.
    keep_buffer: bool,
    /// Maximum size of an encoded text, in bytes.
    max_output_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InvalidNumberMode {
    Reject,
    Write,
    WriteNull,
}

/// Maximum depth of tables, whatever is set: each open table holds one of Lua's C stack slots.
const MAX_TABLE_DEPTH: usize = 2_000;

type SharedCjsonConfig = Arc<Mutex<CjsonConfig>>;

/// Creates the library table.
pub(in crate::scripting) fn library(lua: &Lua, limits: ScriptLimits) -> mlua::Result<Table> {
    let config = CjsonConfig {
        sparse_convert: false,
        sparse_ratio: 2,
        sparse_safe: 10,
        encode_depth: 1_000,
        decode_depth: 1_000,
        encode_invalid: InvalidNumberMode::Reject,
        decode_invalid: true,
        precision: 14,
        keep_buffer: true,
        max_output_bytes: limits.max_memory_bytes,
    };
    let next = lua.globals().raw_get("next")?;
    create_instance(lua, config, next)
}

/// Creates a library table with its own settings.
fn create_instance(lua: &Lua, config: CjsonConfig, next: Function) -> mlua::Result<Table> {
    let settings = SharedCjsonConfig::new(Mutex::new(config));
    let library = lua.create_table()?;
    let (shared, own) = (settings.clone(), next.clone());
    let encode = create_host_function(lua, move |lua, args: &[Value]| {
        let [value] = args else {
            return Err(ScriptError::bad_argument(
                1,
                "encode",
                "expected 1 argument",
            ));
        };
        let text = encode::encode_value(*shared.lock(), &own, value)?;
        Ok(lua.create_string(text)?)
    })?;
    let shared = settings.clone();
    let decode = create_host_function(lua, move |lua, args: &[Value]| {
        if args.len() != 1 {
            return Err(ScriptError::bad_argument(
                1,
                "decode",
                "expected 1 argument",
            ));
        }
        let text = string_arg(lua, args, 1, "decode")?;
        let text = text.as_bytes();
        decode::decode_text(lua, *shared.lock(), &text)
    })?;
    library.raw_set("encode", encode)?;
    library.raw_set("decode", decode)?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    library.raw_set(
        "new",
        lua.create_function(move |lua, ()| create_instance(lua, config, next.clone()))?,
    )?;
    add_number_settings(lua, &library, &settings)?;
    add_flag_settings(lua, &library, &settings)?;
    Ok(library)
}

/// Adds the functions of settings that are numbers.
fn add_number_settings(
    lua: &Lua,
    library: &Table,
    settings: &SharedCjsonConfig,
) -> mlua::Result<()> {
    type Setting = (&'static str, u32, fn(&mut CjsonConfig) -> &mut u32);
    const NO_LIMIT: u32 = i32::MAX as u32;
    let all: [Setting; 3] = [
        ("encode_max_depth", NO_LIMIT, |config| {
            &mut config.encode_depth
        }),
        ("decode_max_depth", NO_LIMIT, |config| {
            &mut config.decode_depth
        }),
        ("encode_number_precision", 14, |config| {
            &mut config.precision
        }),
    ];
    for (name, most, place) in all {
        let shared = settings.clone();
        let run = create_host_function(lua, move |_, args: &[Value]| {
            check_max_args(args, 1, name)?;
            number_setting(args, 1, name, (1, most), place(&mut shared.lock()))
        })?;
        library.raw_set(name, run)?;
    }
    let shared = settings.clone();
    let sparse = create_host_function(lua, move |_, args: &[Value]| {
        const NAME: &str = "encode_sparse_array";
        check_max_args(args, 3, NAME)?;
        let mut config = shared.lock();
        let convert = flag_setting(args, NAME, &mut config.sparse_convert)?;
        let ratio = number_setting(args, 2, NAME, (0, NO_LIMIT), &mut config.sparse_ratio)?;
        let safe = number_setting(args, 3, NAME, (0, NO_LIMIT), &mut config.sparse_safe)?;
        Ok((convert, ratio, safe))
    })?;
    library.raw_set("encode_sparse_array", sparse)
}

/// Adds the functions of settings that are on or off.
fn add_flag_settings(lua: &Lua, library: &Table, settings: &SharedCjsonConfig) -> mlua::Result<()> {
    let shared = settings.clone();
    let keep = create_host_function(lua, move |_, args: &[Value]| {
        check_max_args(args, 1, "encode_keep_buffer")?;
        flag_setting(args, "encode_keep_buffer", &mut shared.lock().keep_buffer)
    })?;
    let shared = settings.clone();
    let decode = create_host_function(lua, move |_, args: &[Value]| {
        check_max_args(args, 1, "decode_invalid_numbers")?;
        flag_setting(
            args,
            "decode_invalid_numbers",
            &mut shared.lock().decode_invalid,
        )
    })?;
    let shared = settings.clone();
    let encode = create_host_function(lua, move |lua, args: &[Value]| {
        check_max_args(args, 1, "encode_invalid_numbers")?;
        let mut config = shared.lock();
        if let Some(Value::String(word)) = args.first() {
            config.encode_invalid = match &*word.as_bytes() {
                b"off" => InvalidNumberMode::Reject,
                b"on" => InvalidNumberMode::Write,
                b"null" => InvalidNumberMode::WriteNull,
                other => return Err(bad_option("encode_invalid_numbers", other)),
            };
        } else {
            let mut on = config.encode_invalid == InvalidNumberMode::Write;
            flag_setting(args, "encode_invalid_numbers", &mut on)?;
            if !args.is_empty() {
                config.encode_invalid = if on {
                    InvalidNumberMode::Write
                } else {
                    InvalidNumberMode::Reject
                };
            }
        }
        Ok(match config.encode_invalid {
            InvalidNumberMode::Reject => Value::Boolean(false),
            InvalidNumberMode::Write => Value::Boolean(true),
            InvalidNumberMode::WriteNull => Value::String(lua.create_string("null")?),
        })
    })?;
    library.raw_set("encode_keep_buffer", keep)?;
    library.raw_set("decode_invalid_numbers", decode)?;
    library.raw_set("encode_invalid_numbers", encode)
}

fn check_max_args(args: &[Value], most: usize, name: &str) -> Result<(), ScriptError> {
    match args.len() > most {
        true => Err(ScriptError::bad_argument(
            most + 1,
            name,
            "found too many arguments",
        )),
        false => Ok(()),
    }
}

/// Returns a number setting. Sets it first if the argument is present.
fn number_setting(
    args: &[Value],
    at: usize,
    name: &str,
    range: (u32, u32),
    place: &mut u32,
) -> Result<u32, ScriptError> {
    if !matches!(args.get(at - 1), None | Some(Value::Nil)) {
        let given = number_arg(args, at, name)?.trunc();
        if given < f64::from(range.0) || given > f64::from(range.1) {
            let complaint = format!("expected integer between {} and {}", range.0, range.1);
            return Err(ScriptError::bad_argument(at, name, &complaint));
        }
        *place = given as u32;
    }
    Ok(*place)
}

/// Returns a flag setting. Sets it first if the argument is present.
fn flag_setting(args: &[Value], name: &str, place: &mut bool) -> Result<bool, ScriptError> {
    match args.first() {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(on)) => *place = *on,
        Some(Value::String(word)) => match &*word.as_bytes() {
            b"on" => *place = true,
            b"off" => *place = false,
            other => return Err(bad_option(name, other)),
        },
        Some(number @ (Value::Integer(_) | Value::Number(_))) => {
            return Err(bad_option(name, tostring(number).as_bytes()));
        }
        other => return Err(ScriptError::wrong_type(1, name, "string", other)),
    }
    Ok(*place)
}

fn bad_option(name: &str, option: &[u8]) -> ScriptError {
    ScriptError::bad_argument(
        1,
        name,
        &format!(
            "invalid option '{}'",
            crate::commands::args::to_error_text(option)
        ),
    )
}
