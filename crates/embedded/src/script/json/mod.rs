//! The library `cjson`: JSON as lua-cjson 2.1 reads and writes it, with its error texts.

mod decode;
mod encode;
mod lexer;

use std::sync::Arc;

use mlua::{Function, Lua, Table, Value};
use parking_lot::Mutex;

use super::Limits;
use super::convert::printed;
use super::fault::Fault;
use super::host::{function, number, string};

/// What scripts can set. As in Redis it stays set for later scripts.
#[derive(Debug, Clone, Copy)]
struct Config {
    /// Write an array with too many holes as an object instead of refusing it.
    sparse_convert: bool,
    /// How many places per item make an array too sparse; 0 for never.
    sparse_ratio: u32,
    /// Up to which length an array is never too sparse.
    sparse_safe: u32,
    encode_depth: u32,
    decode_depth: u32,
    /// What to do with NaN and infinities.
    encode_invalid: Invalid,
    /// Whether to read NaN, infinities and hexadecimal numbers.
    decode_invalid: bool,
    /// How many digits of a number are written.
    precision: u32,
    /// Accepted and without effect.
    keep_buffer: bool,
    /// How large a text may get.
    largest: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refuse,
    Write,
    Null,
}

/// How deep tables may nest, whatever is set: each holds one of the slots Lua lends to its host.
const DEEPEST: usize = 2_000;

type Settings = Arc<Mutex<Config>>;

/// The library as a table.
pub(super) fn library(lua: &Lua, limits: Limits) -> mlua::Result<Table> {
    let config = Config {
        sparse_convert: false,
        sparse_ratio: 2,
        sparse_safe: 10,
        encode_depth: 1_000,
        decode_depth: 1_000,
        encode_invalid: Invalid::Refuse,
        decode_invalid: true,
        precision: 14,
        keep_buffer: true,
        largest: limits.memory,
    };
    let next = lua.globals().raw_get("next")?;
    instance(lua, config, next)
}

/// A library with settings of its own.
fn instance(lua: &Lua, config: Config, next: Function) -> mlua::Result<Table> {
    let settings = Settings::new(Mutex::new(config));
    let library = lua.create_table()?;
    let (shared, own) = (settings.clone(), next.clone());
    let encode = function(lua, move |lua, args: &[Value]| {
        let [value] = args else {
            return Err(Fault::argument(1, "encode", "expected 1 argument"));
        };
        let text = encode::text(*shared.lock(), &own, value)?;
        Ok(lua.create_string(text)?)
    })?;
    let shared = settings.clone();
    let decode = function(lua, move |lua, args: &[Value]| {
        if args.len() != 1 {
            return Err(Fault::argument(1, "decode", "expected 1 argument"));
        }
        let text = string(lua, args, 1, "decode")?;
        let text = text.as_bytes();
        decode::value(lua, *shared.lock(), &text)
    })?;
    library.raw_set("encode", encode)?;
    library.raw_set("decode", decode)?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    library.raw_set(
        "new",
        lua.create_function(move |lua, ()| instance(lua, config, next.clone()))?,
    )?;
    numbers(lua, &library, &settings)?;
    switches(lua, &library, &settings)?;
    Ok(library)
}

/// Settings that are a number.
fn numbers(lua: &Lua, library: &Table, settings: &Settings) -> mlua::Result<()> {
    type Setting = (&'static str, u32, fn(&mut Config) -> &mut u32);
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
        let run = function(lua, move |_, args: &[Value]| {
            at_most(args, 1, name)?;
            whole(args, 1, name, (1, most), place(&mut shared.lock()))
        })?;
        library.raw_set(name, run)?;
    }
    let shared = settings.clone();
    let sparse = function(lua, move |_, args: &[Value]| {
        const NAME: &str = "encode_sparse_array";
        at_most(args, 3, NAME)?;
        let mut config = shared.lock();
        let convert = switch(args, NAME, &mut config.sparse_convert)?;
        let ratio = whole(args, 2, NAME, (0, NO_LIMIT), &mut config.sparse_ratio)?;
        let safe = whole(args, 3, NAME, (0, NO_LIMIT), &mut config.sparse_safe)?;
        Ok((convert, ratio, safe))
    })?;
    library.raw_set("encode_sparse_array", sparse)
}

/// Settings that are on or off.
fn switches(lua: &Lua, library: &Table, settings: &Settings) -> mlua::Result<()> {
    let shared = settings.clone();
    let keep = function(lua, move |_, args: &[Value]| {
        at_most(args, 1, "encode_keep_buffer")?;
        switch(args, "encode_keep_buffer", &mut shared.lock().keep_buffer)
    })?;
    let shared = settings.clone();
    let decode = function(lua, move |_, args: &[Value]| {
        at_most(args, 1, "decode_invalid_numbers")?;
        switch(
            args,
            "decode_invalid_numbers",
            &mut shared.lock().decode_invalid,
        )
    })?;
    let shared = settings.clone();
    let encode = function(lua, move |lua, args: &[Value]| {
        at_most(args, 1, "encode_invalid_numbers")?;
        let mut config = shared.lock();
        if let Some(Value::String(word)) = args.first() {
            config.encode_invalid = match &*word.as_bytes() {
                b"off" => Invalid::Refuse,
                b"on" => Invalid::Write,
                b"null" => Invalid::Null,
                other => return Err(bad_option("encode_invalid_numbers", other)),
            };
        } else {
            let mut on = config.encode_invalid == Invalid::Write;
            switch(args, "encode_invalid_numbers", &mut on)?;
            if !args.is_empty() {
                config.encode_invalid = if on { Invalid::Write } else { Invalid::Refuse };
            }
        }
        Ok(match config.encode_invalid {
            Invalid::Refuse => Value::Boolean(false),
            Invalid::Write => Value::Boolean(true),
            Invalid::Null => Value::String(lua.create_string("null")?),
        })
    })?;
    library.raw_set("encode_keep_buffer", keep)?;
    library.raw_set("decode_invalid_numbers", decode)?;
    library.raw_set("encode_invalid_numbers", encode)
}

fn at_most(args: &[Value], most: usize, name: &str) -> Result<(), Fault> {
    match args.len() > most {
        true => Err(Fault::argument(most + 1, name, "found too many arguments")),
        false => Ok(()),
    }
}

/// Reads a number setting, and sets it first when it is given.
fn whole(
    args: &[Value],
    at: usize,
    name: &str,
    range: (u32, u32),
    place: &mut u32,
) -> Result<u32, Fault> {
    if !matches!(args.get(at - 1), None | Some(Value::Nil)) {
        let given = number(args, at, name)?.trunc();
        if given < f64::from(range.0) || given > f64::from(range.1) {
            let complaint = format!("expected integer between {} and {}", range.0, range.1);
            return Err(Fault::argument(at, name, &complaint));
        }
        *place = given as u32;
    }
    Ok(*place)
}

/// Reads a switch, and sets it first when it is given.
fn switch(args: &[Value], name: &str, place: &mut bool) -> Result<bool, Fault> {
    match args.first() {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(on)) => *place = *on,
        Some(Value::String(word)) => match &*word.as_bytes() {
            b"on" => *place = true,
            b"off" => *place = false,
            other => return Err(bad_option(name, other)),
        },
        Some(number @ (Value::Integer(_) | Value::Number(_))) => {
            return Err(bad_option(name, printed(number).as_bytes()));
        }
        other => return Err(Fault::type_of(1, name, "string", other)),
    }
    Ok(*place)
}

fn bad_option(name: &str, option: &[u8]) -> Fault {
    Fault::argument(
        1,
        name,
        &format!("invalid option '{}'", crate::args::lossy(option)),
    )
}
