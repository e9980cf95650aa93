//! Layouts: how the one state of presence is shown in the documents' keys.
//!
//! Always true: a layout decides nothing. It is a few keys in the user's slot and two Lua functions: `renew`, which writes what
//! a beat changes, and `project`, which writes whatever changed.

mod devices;
mod document;
mod sockets;
mod status;

use parlor_store::Script;

use crate::ids::UserId;
use crate::keys::{Key, Keyspace, PresenceLayout};

/// One way to show presence in keys.
pub(super) trait Layout: Send + Sync {
    /// The scripts with this layout's projection in them.
    fn scripts(&self) -> &'static Scripts;

    /// The keys of a user, in the order in which the projection names them.
    fn keys(&self, keys: &Keyspace, user: &UserId) -> Vec<Key>;
}

/// The layout of the settings.
pub(super) fn layout(chosen: PresenceLayout) -> &'static dyn Layout {
    match chosen {
        PresenceLayout::Devices => &devices::Devices,
        PresenceLayout::Document => &document::Document,
        PresenceLayout::Sockets => &sockets::Sockets,
        PresenceLayout::Status => &status::Status,
    }
}

/// The steps of a user's state.
pub(super) struct Scripts {
    pub(super) connect: Script,
    pub(super) beat: Script,
    pub(super) leave: Script,
    pub(super) lose: Script,
    pub(super) lapse: Script,
    pub(super) set: Script,
    pub(super) revive: Script,
}

/// The scripts of a layout: what a beat renews in it, the shared head, the layout's projection, the step. A beat tries the
/// usual case first. With a layout of `native`, that stands in for the usual connect and beat on the embedded engine.
macro_rules! scripts {
    ($layout:literal $(, $native:ident)?) => {
        $crate::presence::layouts::Scripts {
            connect: scripts!(of $layout, "connect")
                $(.native($crate::presence::native::$native::connect))?,
            beat: scripts!(of $layout, "beat", include_str!("../usual.lua"))
                $(.native($crate::presence::native::$native::beat))?,
            leave: scripts!(of $layout, "leave"),
            lose: scripts!(of $layout, "lose"),
            lapse: scripts!(of $layout, "lapse"),
            set: scripts!(of $layout, "set"),
            revive: scripts!(of $layout, "revive"),
        }
    };
    (of $layout:literal, $step:literal $(, $first:expr)?) => {
        parlor_store::Script::new(
            concat!("presence/", $step, ".lua@", $layout),
            concat!(
                include_str!(concat!($layout, ".renew.lua")),
                $($first,)?
                include_str!("../state.lua"),
                include_str!(concat!($layout, ".lua")),
                include_str!(concat!("../", $step, ".lua")),
            ),
        )
    };
}
use scripts;
