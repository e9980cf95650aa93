//! The keys of places.
//!
//! Always true: a user has one place at most.

use crate::keys::{Key, KeyGroup, KeyKind, KeySource, KeySpec, KeyTtl, Keyspace};

/// What places own.
pub const CAPABILITY: KeyGroup = KeyGroup {
    name: "places",
    title: "Places",
    keys: &[PLACES],
};

const PLACES: KeySpec = KeySpec::documented("geo:users", KeyKind::Geo, KeyTtl::Never)
    .value("member user id")
    .meaning("positions of users, used to find users nearby")
    .sources(&[KeySource::S2Future]);

impl Keyspace {
    /// Where users are.
    pub fn places(&self) -> Key {
        self.key0(&PLACES)
    }
}
