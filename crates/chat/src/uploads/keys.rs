//! The keys of uploads.
//!
//! Always true: an upload leaves the set when it arrived or when its time is over.

use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl};

/// What uploads own.
pub const CAPABILITY: Capability = Capability {
    name: "uploads",
    title: "Uploads",
    keys: &[PENDING],
};

const PENDING: KeySpec = KeySpec::new("uploads:pending", Kind::SortedSet, Ttl::Never)
    .value("member upload id, score = ms of expiry")
    .meaning("files that were announced and have not arrived")
    .source(&[Source::S2Future]);

impl Keyspace {
    /// Uploads that have not arrived.
    pub fn pending_uploads(&self) -> Key {
        self.key0(&PENDING)
    }
}
