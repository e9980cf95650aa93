//! Lua scripts of messages.
//!
//! Invariants:
//! 1. The Lua text is the definition. The embedded engine runs the native version of a script in its place, and a test
//!    compares both; `docs/performance/send.md` shows what the native version saves.

mod append_messages;

use parlor_store::{LuaScript, script};

pub(super) static APPEND_MESSAGES: LuaScript = LuaScript::new(
    "append_messages.lua",
    concat!(
        include_str!("../../typing/scripts/own_key.lua"),
        include_str!("append_messages.lua")
    ),
)
.with_native(append_messages::append_messages);
pub(super) static INSTALL_RECENT_LIST: LuaScript = script!("install_recent_list.lua");
pub(super) static PUBLISH_CHANGE: LuaScript = script!("publish_change.lua");
pub(super) static READ_RECENT_PAGE: LuaScript = script!("read_recent_page.lua");
