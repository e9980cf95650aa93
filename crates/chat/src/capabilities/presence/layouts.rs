//! Layouts: how presence is written to the documented keys.
//!
//! Invariants:
//! 1. A layout consists of a few keys in the user's slot and Lua functions: `refresh_layout` writes what a heartbeat
//!    changes, `write_layout` writes every other change, `external_lease` and `extend_external_lease` read and extend
//!    what other services wrote.
//! 2. A layout changes and removes only what Parlor wrote: its own fields and members, and a string while it is the one
//!    that Parlor wrote last. A key of a foreign type stays as it is.

use parlor_store::LuaScript;

use super::scripts::native;
use crate::ids::UserId;
use crate::keys::{Key, Keyspace, PresenceLayout};

/// The scripts of one layout.
pub(super) struct PresenceScripts {
    pub(super) connect: LuaScript,
    pub(super) beat: LuaScript,
    pub(super) remove: LuaScript,
    pub(super) start_grace: LuaScript,
    pub(super) expire: LuaScript,
    pub(super) set_status: LuaScript,
    pub(super) extend_deadlines: LuaScript,
}

/// Assembles the scripts of a layout: the layout's heartbeat file, the shared head `user_state.lua`, the layout itself,
/// the script. The heartbeat script starts with its fast path. With native scripts, the embedded engine runs them instead of
/// the connect script and the heartbeat script.
macro_rules! layout_scripts {
    ($layout:literal $(, $connect:path, $beat:path)?) => {
        PresenceScripts {
            connect: layout_scripts!(of $layout, "connect_device")
                $(.with_native($connect))?,
            beat: layout_scripts!(of $layout, "beat_device", include_str!("scripts/beat_single_device.lua"))
                $(.with_native($beat))?,
            remove: layout_scripts!(of $layout, "remove_device"),
            start_grace: layout_scripts!(of $layout, "start_grace_period"),
            expire: layout_scripts!(of $layout, "expire_devices"),
            set_status: layout_scripts!(of $layout, "set_status"),
            extend_deadlines: layout_scripts!(of $layout, "extend_deadlines"),
        }
    };
    (of $layout:literal, $step:literal $(, $first:expr)?) => {
        LuaScript::new(
            concat!("presence/scripts/", $step, ".lua@", $layout),
            concat!(
                include_str!(concat!("scripts/layouts/", $layout, "_heartbeat.lua")),
                $($first,)?
                include_str!("scripts/user_state.lua"),
                include_str!(concat!("scripts/layouts/", $layout, ".lua")),
                include_str!(concat!("scripts/", $step, ".lua")),
            ),
        )
    };
}

static DEVICES: PresenceScripts = layout_scripts!(
    "devices",
    native::connect_first_device,
    native::beat_single_device
);
static DOCUMENT: PresenceScripts = layout_scripts!("document");
static SOCKETS: PresenceScripts = layout_scripts!("sockets");
static STATUS: PresenceScripts = layout_scripts!("status");

/// Lets the keys of the layout `sockets` expire: no other layout has keys without a TTL.
pub(super) static LIMIT_UNATTENDED_KEYS: LuaScript =
    layout_scripts!(of "sockets", "limit_unattended_keys");

/// The scripts of a layout.
pub(super) fn scripts_for(layout: PresenceLayout) -> &'static PresenceScripts {
    match layout {
        PresenceLayout::Devices => &DEVICES,
        PresenceLayout::Document => &DOCUMENT,
        PresenceLayout::Sockets => &SOCKETS,
        PresenceLayout::Status => &STATUS,
    }
}

/// The documented keys of a user in a layout, in the order of `KEYS` in `write_layout`.
pub(super) fn layout_keys(layout: PresenceLayout, keys: &Keyspace, user: &UserId) -> Vec<Key> {
    match layout {
        PresenceLayout::Devices => vec![keys.presence_devices(user)],
        PresenceLayout::Document => vec![keys.presence_document(user)],
        PresenceLayout::Sockets => vec![keys.presence_online(user), keys.presence_sockets(user)],
        PresenceLayout::Status => vec![keys.presence_status(user)],
    }
}
