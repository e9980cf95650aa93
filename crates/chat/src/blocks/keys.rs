//! The keys of blocked users.
//!
//! Always true: the set is a cache over the rows.

use crate::ids::UserId;
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl, TtlName};

/// What blocked users own.
pub const CAPABILITY: Capability = Capability {
    name: "blocks",
    title: "Blocked users",
    keys: &[BLOCKED],
};

const BLOCKED: KeySpec = KeySpec::new("blocked:{user}", Kind::Set, Ttl::Setting(TtlName::Blocked))
    .value("user ids")
    .meaning("whom the user blocked")
    .source(&[Source::S2Future]);

impl Keyspace {
    /// Whom a user blocked.
    pub fn blocked(&self, user: &UserId) -> Key {
        self.key1(&BLOCKED, user)
    }
}
