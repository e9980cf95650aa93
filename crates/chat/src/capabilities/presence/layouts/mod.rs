//! Layouts: how presence is written to the documented keys.
//!
//! Invariant: a layout decides nothing. It consists of a few keys in the user's slot and two Lua functions:
//! `refresh_layout` writes what a heartbeat changes, `write_layout` writes every other change.

mod devices;
mod document;
mod sockets;
mod status;

use parlor_store::LuaScript;

use crate::ids::UserId;
use crate::keys::{Key, Keyspace, PresenceLayout};

/// One way to write presence to documented keys.
pub(super) trait Layout: Send + Sync {
    /// The scripts of this layout.
    fn scripts(&self) -> &'static PresenceScripts;

    /// The keys of a user, in the order of `KEYS` in `write_layout`.
    fn keys(&self, keys: &Keyspace, user: &UserId) -> Vec<Key>;
}

/// The layout of the settings.
pub(super) fn scripts_for(chosen: PresenceLayout) -> &'static dyn Layout {
    match chosen {
        PresenceLayout::Devices => &devices::Devices,
        PresenceLayout::Document => &document::Document,
        PresenceLayout::Sockets => &sockets::Sockets,
        PresenceLayout::Status => &status::Status,
    }
}

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

/// Assembles the scripts of a layout: `refresh_layout`, the shared head `user_state.lua`, `write_layout`, the script
/// itself. The heartbeat script starts with its fast path. With a layout name of `native`, connect and heartbeat have a
/// native version for the embedded engine.
macro_rules! layout_scripts {
    ($layout:literal $(, $native:ident)?) => {
        $crate::presence::layouts::PresenceScripts {
            connect: layout_scripts!(of $layout, "connect_device")
                $(.with_native($crate::presence::native::$native::connect))?,
            beat: layout_scripts!(of $layout, "beat_device", include_str!("../scripts/beat_single_device.lua"))
                $(.with_native($crate::presence::native::$native::beat))?,
            remove: layout_scripts!(of $layout, "remove_device"),
            start_grace: layout_scripts!(of $layout, "start_grace_period"),
            expire: layout_scripts!(of $layout, "expire_devices"),
            set_status: layout_scripts!(of $layout, "set_status"),
            extend_deadlines: layout_scripts!(of $layout, "extend_deadlines"),
        }
    };
    (of $layout:literal, $step:literal $(, $first:expr)?) => {
        parlor_store::LuaScript::new(
            concat!("presence/scripts/", $step, ".lua@", $layout),
            concat!(
                include_str!(concat!("../scripts/layouts/", $layout, "_heartbeat.lua")),
                $($first,)?
                include_str!("../scripts/user_state.lua"),
                include_str!(concat!("../scripts/layouts/", $layout, ".lua")),
                include_str!(concat!("../scripts/", $step, ".lua")),
            ),
        )
    };
}
use layout_scripts;
