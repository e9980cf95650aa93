//! All declared keys and channels.
//!
//! Invariant: Parlor uses no key or channel that is not listed here.

use crate::keys::{KeyGroup, KeyLayouts, KeySpec};
use crate::{
    blocks, bus, delivery, desk, jobs, limits, membership, messages, nodes, places, presence,
    search, sessions, stats, typing, unread, uploads,
};

/// All key groups, in the order of the reference.
pub static KEY_GROUPS: &[KeyGroup] = &[
    presence::keys::CAPABILITY,
    typing::keys::CAPABILITY,
    membership::keys::CAPABILITY,
    messages::keys::CAPABILITY,
    unread::keys::CAPABILITY,
    limits::keys::CAPABILITY,
    sessions::keys::CAPABILITY,
    desk::keys::CAPABILITY,
    stats::keys::CAPABILITY,
    jobs::keys::CAPABILITY,
    blocks::keys::CAPABILITY,
    delivery::keys::CAPABILITY,
    places::keys::CAPABILITY,
    uploads::keys::CAPABILITY,
    search::keys::CAPABILITY,
    bus::keys::CAPABILITY,
    nodes::keys::CAPABILITY,
];

/// All declarations of all layouts.
pub fn all() -> impl Iterator<Item = (&'static KeyGroup, &'static KeySpec)> {
    KEY_GROUPS
        .iter()
        .flat_map(|capability| capability.keys.iter().map(move |spec| (capability, spec)))
}

/// The declarations of the configured layouts.
pub fn active_specs(
    layouts: &KeyLayouts,
) -> impl Iterator<Item = (&'static KeyGroup, &'static KeySpec)> {
    all().filter(move |(_, spec)| spec.layout.is_active(layouts))
}
