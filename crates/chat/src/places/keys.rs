//! The keys of places.
//!
//! Always true: a user has one place at most.

use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl};

/// What places own.
pub const CAPABILITY: Capability = Capability {
    name: "places",
    title: "Places",
    keys: &[PLACES],
};

const PLACES: KeySpec = KeySpec::new("geo:users", Kind::Geo, Ttl::Never)
    .value("member user id")
    .meaning("where users are, for finding those nearby")
    .source(&[Source::S2Future]);

impl Keyspace {
    /// Where users are.
    pub fn places(&self) -> Key {
        self.key0(&PLACES)
    }
}
