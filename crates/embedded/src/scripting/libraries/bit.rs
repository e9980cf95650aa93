//! The Lua library `bit`: operations on 32-bit integers with signed results.

use mlua::{Lua, Table, Value};

use crate::scripting::host_functions::{add_function, number_arg};
use crate::scripting::script_error::ScriptError;

/// The lowest 32 bits of a number. Fractions round to even.
fn bits_arg(args: &[Value], position: usize, name: &str) -> Result<u32, ScriptError> {
    let number = number_arg(args, position, name)?.round_ties_even();
    Ok(number.rem_euclid(4_294_967_296.0) as u32)
}

fn to_signed(bits: u32) -> f64 {
    f64::from(bits.cast_signed())
}

type BinaryOp = fn(u32, u32) -> u32;
type UnaryOp = fn(u32) -> u32;

pub(in crate::scripting) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let folds: [(&'static str, BinaryOp); 3] = [
        ("band", |a, b| a & b),
        ("bor", |a, b| a | b),
        ("bxor", |a, b| a ^ b),
    ];
    for (name, fold) in folds {
        add_function(lua, &library, name, move |_, args| {
            let first = bits_arg(args, 1, name)?;
            let all = (2..=args.len()).try_fold(first, |all, at| {
                Ok::<_, ScriptError>(fold(all, bits_arg(args, at, name)?))
            })?;
            Ok(to_signed(all))
        })?;
    }
    let shifts: [(&'static str, BinaryOp); 5] = [
        ("lshift", |a, n| a << n),
        ("rshift", |a, n| a >> n),
        ("arshift", |a, n| (a.cast_signed() >> n).cast_unsigned()),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, shift) in shifts {
        add_function(lua, &library, name, move |_, args| {
            let bits = bits_arg(args, 1, name)?;
            Ok(to_signed(shift(bits, bits_arg(args, 2, name)? & 31)))
        })?;
    }
    let singles: [(&'static str, UnaryOp); 3] = [
        ("tobit", |a| a),
        ("bnot", |a| !a),
        ("bswap", u32::swap_bytes),
    ];
    for (name, single) in singles {
        add_function(lua, &library, name, move |_, args| {
            Ok(to_signed(single(bits_arg(args, 1, name)?)))
        })?;
    }
    add_function(lua, &library, "tohex", |_, args| tohex(args))?;
    Ok(library)
}

/// Formats a number with as many hexadecimal digits as the second argument says, in capitals if that is negative.
fn tohex(args: &[Value]) -> Result<String, ScriptError> {
    let number = bits_arg(args, 1, "tohex")?;
    let wanted = if args.len() < 2 {
        8
    } else {
        bits_arg(args, 2, "tohex")?.cast_signed()
    };
    let digits = (wanted.unsigned_abs() as usize).min(8);
    let text = if wanted < 0 {
        format!("{number:08X}")
    } else {
        format!("{number:08x}")
    };
    Ok(text[8 - digits..].to_owned())
}
