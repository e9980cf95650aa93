//! `math.random` as in Redis: one sequence, the same after every start, that continues from script to script.

use mlua::{Lua, Table, Value};

use crate::scripting::host_functions::{add_function, number_arg};
use crate::scripting::run_state::SharedRunState;
use crate::scripting::script_error::ScriptError;

/// Largest number that the generator yields.
const LRAND48_MAX: u64 = i32::MAX as u64;

/// The 48-bit generator of POSIX `lrand48`.
pub(in crate::scripting) struct Lrand48(u64);

impl Default for Lrand48 {
    fn default() -> Self {
        Self(0x1234_ABCD_330E)
    }
}

impl Lrand48 {
    pub fn seeded(seed: i32) -> Self {
        Self(u64::from(seed.cast_unsigned()) << 16 | 0x330E)
    }

    /// The next number in `0..1`.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & 0xFFFF_FFFF_FFFF;
        let step = self.0 >> 17;
        (step % LRAND48_MAX) as f64 / LRAND48_MAX as f64
    }
}

/// Replaces `random` and `randomseed` in the library `math`.
pub(in crate::scripting) fn install(
    lua: &Lua,
    math: &Table,
    run_state: &SharedRunState,
) -> mlua::Result<()> {
    let shared = run_state.clone();
    add_function(lua, math, "random", move |_, args| {
        let unit = shared.lock().random.next();
        match args.len() {
            0 => Ok(unit),
            1 => {
                let upper = number_arg(args, 1, "random")?.trunc();
                if upper < 1.0 {
                    return Err(ScriptError::bad_argument(1, "random", "interval is empty"));
                }
                Ok((unit * upper).floor() + 1.0)
            }
            2 => {
                let (lower, upper) = (
                    number_arg(args, 1, "random")?.trunc(),
                    number_arg(args, 2, "random")?.trunc(),
                );
                if lower > upper {
                    return Err(ScriptError::bad_argument(2, "random", "interval is empty"));
                }
                Ok((unit * (upper - lower + 1.0)).floor() + lower)
            }
            _ => Err(ScriptError::library("wrong number of arguments")),
        }
    })?;
    let shared = run_state.clone();
    add_function(lua, math, "randomseed", move |_, args| {
        let seed = number_arg(args, 1, "randomseed")?;
        shared.lock().random = Lrand48::seeded(seed as i64 as i32);
        Ok(Value::Nil)
    })
}
