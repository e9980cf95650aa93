//! All declared keys and channels.
//!
//! Invariant: Parlor uses no key or channel that is not listed here.

use super::planned;
use crate::keys::{KeyGroup, KeyLayouts, KeySpec};
use crate::{bus, conversations, limits, messages, nodes, presence, sessions, typing, unread};

/// The key groups that Parlor uses, in the order of the reference.
pub static KEY_GROUPS: &[KeyGroup] = &[
    presence::keys::KEY_GROUP,
    typing::keys::KEY_GROUP,
    conversations::keys::KEY_GROUP,
    messages::keys::KEY_GROUP,
    unread::keys::KEY_GROUP,
    limits::keys::KEY_GROUP,
    sessions::keys::KEY_GROUP,
    bus::keys::KEY_GROUP,
    nodes::keys::KEY_GROUP,
];

/// The declarations of all layouts, those of planned features last.
pub fn all_specs() -> impl Iterator<Item = (&'static KeyGroup, &'static KeySpec)> {
    KEY_GROUPS
        .iter()
        .chain(planned::KEY_GROUPS)
        .flat_map(|group| group.keys.iter().map(move |spec| (group, spec)))
}

/// The declarations of the configured layouts, those of planned features last.
pub fn active_specs(
    layouts: &KeyLayouts,
) -> impl Iterator<Item = (&'static KeyGroup, &'static KeySpec)> {
    all_specs().filter(move |(_, spec)| spec.layout.is_active(layouts))
}

/// True if the group belongs to a planned feature, so that nothing writes its keys.
pub fn is_planned(group: &KeyGroup) -> bool {
    planned::KEY_GROUPS
        .iter()
        .any(|planned| planned.name == group.name)
}
