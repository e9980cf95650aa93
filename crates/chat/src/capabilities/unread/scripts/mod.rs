//! Lua scripts of unread counts and receipts.
//!
//! Invariants:
//! 1. The Lua text is the definition. The embedded engine runs the native version of a script in its place, and a test
//!    compares both; `docs/performance/send.md` shows what the native version saves.

pub(super) mod counter_field;
mod update_counters;

use parlor_store::{LuaScript, script};

pub(super) static PUBLISH_RECEIPT: LuaScript = script!("publish_receipt.lua");
pub(super) static RECONCILE_COUNTERS: LuaScript = LuaScript::new(
    "reconcile_counters.lua",
    concat!(
        include_str!("counter_field.lua"),
        include_str!("reconcile_counters.lua")
    ),
);
pub(super) static UPDATE_COUNTERS: LuaScript = LuaScript::new(
    "update_counters.lua",
    concat!(
        include_str!("counter_field.lua"),
        include_str!("update_counters.lua")
    ),
)
.with_native(update_counters::update_counters);

#[cfg(test)]
mod tests;
