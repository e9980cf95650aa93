//! The Lua libraries that Redis adds to Lua's own.

pub(super) mod bit;
pub(super) mod cjson;
pub(super) mod math_random;
