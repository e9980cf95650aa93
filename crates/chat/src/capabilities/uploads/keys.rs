//! The keys of uploads.
//!
//! Always true: an upload leaves the set when it arrived or when its time is over.

use crate::keys::{Key, KeyGroup, KeyKind, KeySource, KeySpec, KeyTtl, Keyspace};

/// What uploads own.
pub const CAPABILITY: KeyGroup = KeyGroup {
    name: "uploads",
    title: "Uploads",
    keys: &[PENDING],
};

const PENDING: KeySpec = KeySpec::documented("uploads:pending", KeyKind::SortedSet, KeyTtl::Never)
    .value("member upload id, score = ms of expiry")
    .meaning("announced uploads that have not arrived yet")
    .sources(&[KeySource::S2Future]);

impl Keyspace {
    /// Uploads that have not arrived.
    pub fn pending_uploads(&self) -> Key {
        self.key0(&PENDING)
    }
}
