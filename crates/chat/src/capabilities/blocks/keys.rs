//! The keys of blocked users.
//!
//! Always true: the set is a cache over the rows.

use crate::ids::UserId;
use crate::keys::{Key, KeyGroup, KeyKind, KeySource, KeySpec, KeyTtl, Keyspace, TtlName};

/// What blocked users own.
pub const CAPABILITY: KeyGroup = KeyGroup {
    name: "blocks",
    title: "Blocked users",
    keys: &[BLOCKED],
};

const BLOCKED: KeySpec = KeySpec::documented(
    "blocked:{user}",
    KeyKind::Set,
    KeyTtl::Configured(TtlName::Blocked),
)
.value("user ids")
.meaning("users that the user has blocked")
.sources(&[KeySource::S2Future]);

impl Keyspace {
    /// Whom a user blocked.
    pub fn blocked(&self, user: &UserId) -> Key {
        self.key1(&BLOCKED, user)
    }
}
