//! The Lua library `cjson`: JSON as lua-cjson 2.1 reads and writes it, with its error texts.

mod decode;
mod encode;
mod lexer;

use std::sync::Arc;

use mlua::{Function, IntoLuaMulti, Lua, Table, Value};
use parking_lot::Mutex;

use crate::scripting::ScriptLimits;
use crate::scripting::convert::tostring;
use crate::scripting::host_functions::{add_function, number_arg, string_arg};
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
    add_function(lua, &library, "encode", move |lua, args| {
        let [value] = args else {
            return Err(one_argument_error("encode"));
        };
        let text = encode::encode_value(*shared.lock(), &own, value)?;
        Ok(lua.create_string(text)?)
    })?;
    let shared = settings.clone();
    add_function(lua, &library, "decode", move |lua, args| {
        if args.len() != 1 {
            return Err(one_argument_error("decode"));
        }
        let text = string_arg(lua, args, 1, "decode")?;
        decode::decode_text(lua, *shared.lock(), &text.as_bytes())
    })?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    library.raw_set(
        "new",
        lua.create_function(move |lua, ()| create_instance(lua, config, next.clone()))?,
    )?;
    add_settings(lua, &library, &settings)?;
    Ok(library)
}

fn one_argument_error(function: &str) -> ScriptError {
    ScriptError::bad_argument(1, function, "expected 1 argument")
}

/// Adds a function that sets a setting if it has arguments, and returns the setting.
fn add_setting<R: IntoLuaMulti>(
    lua: &Lua,
    library: &Table,
    settings: &SharedCjsonConfig,
    (name, max_args): (&'static str, usize),
    run: impl Fn(&Lua, &mut CjsonConfig, &[Value]) -> Result<R, ScriptError> + Send + 'static,
) -> mlua::Result<()> {
    let settings = settings.clone();
    add_function(lua, library, name, move |lua, args| {
        if args.len() > max_args {
            let complaint = "found too many arguments";
            return Err(ScriptError::bad_argument(max_args + 1, name, complaint));
        }
        run(lua, &mut settings.lock(), args)
    })
}

fn add_settings(lua: &Lua, library: &Table, settings: &SharedCjsonConfig) -> mlua::Result<()> {
    type NumberSetting = (&'static str, u32, fn(&mut CjsonConfig) -> &mut u32);
    type FlagSetting = (&'static str, fn(&mut CjsonConfig) -> &mut bool);
    const NO_LIMIT: u32 = i32::MAX as u32;
    const SPARSE: &str = "encode_sparse_array";
    let numbers: [NumberSetting; 3] = [
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
    for (name, max, field) in numbers {
        add_setting(lua, library, settings, (name, 1), move |_, config, args| {
            number_setting(args, 1, name, (1, max), field(config))
        })?;
    }
    let flags: [FlagSetting; 2] = [
        ("encode_keep_buffer", |config| &mut config.keep_buffer),
        ("decode_invalid_numbers", |config| {
            &mut config.decode_invalid
        }),
    ];
    for (name, field) in flags {
        add_setting(lua, library, settings, (name, 1), move |_, config, args| {
            flag_setting(args, name, field(config))
        })?;
    }
    add_setting(lua, library, settings, (SPARSE, 3), |_, config, args| {
        let convert = flag_setting(args, SPARSE, &mut config.sparse_convert)?;
        let ratio = number_setting(args, 2, SPARSE, (0, NO_LIMIT), &mut config.sparse_ratio)?;
        let safe = number_setting(args, 3, SPARSE, (0, NO_LIMIT), &mut config.sparse_safe)?;
        Ok((convert, ratio, safe))
    })?;
    let name = "encode_invalid_numbers";
    add_setting(
        lua,
        library,
        settings,
        (name, 1),
        move |lua, config, args| {
            let mode = &mut config.encode_invalid;
            if matches!(args.first(), Some(Value::String(word)) if *word == "null") {
                *mode = InvalidNumberMode::WriteNull;
            } else if !args.is_empty() {
                let mut on = *mode == InvalidNumberMode::Write;
                *mode = match flag_setting(args, name, &mut on)? {
                    true => InvalidNumberMode::Write,
                    false => InvalidNumberMode::Reject,
                };
            }
            Ok(match mode {
                InvalidNumberMode::Reject => Value::Boolean(false),
                InvalidNumberMode::Write => Value::Boolean(true),
                InvalidNumberMode::WriteNull => Value::String(lua.create_string("null")?),
            })
        },
    )
}

/// Returns a number setting. Sets it first if the argument is present.
fn number_setting(
    args: &[Value],
    at: usize,
    name: &str,
    range: (u32, u32),
    setting: &mut u32,
) -> Result<u32, ScriptError> {
    if !matches!(args.get(at - 1), None | Some(Value::Nil)) {
        let given = number_arg(args, at, name)?.trunc();
        if given < f64::from(range.0) || given > f64::from(range.1) {
            let complaint = format!("expected integer between {} and {}", range.0, range.1);
            return Err(ScriptError::bad_argument(at, name, &complaint));
        }
        *setting = given as u32;
    }
    Ok(*setting)
}

/// Returns a flag setting. Sets it first if the argument is present.
fn flag_setting(args: &[Value], name: &str, setting: &mut bool) -> Result<bool, ScriptError> {
    match args.first() {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(on)) => *setting = *on,
        Some(Value::String(word)) => match &*word.as_bytes() {
            b"on" => *setting = true,
            b"off" => *setting = false,
            other => return Err(bad_option(name, other)),
        },
        Some(number @ (Value::Integer(_) | Value::Number(_))) => {
            return Err(bad_option(name, tostring(number).as_bytes()));
        }
        other => return Err(ScriptError::wrong_type(1, name, "string", other)),
    }
    Ok(*setting)
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
