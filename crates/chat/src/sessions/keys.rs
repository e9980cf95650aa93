//! The keys of sessions.
//!
//! Always true: the hash is what other services read and may change; blocks and revocations outlive it as rows.

use crate::ids::UserId;
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl, TtlName};

/// What sessions own.
pub const CAPABILITY: Capability = Capability {
    name: "sessions",
    title: "Sessions",
    keys: &[SESSION, REVOKED],
};

const SESSION: KeySpec = KeySpec::new("user:{user}", Kind::Hash, Ttl::Setting(TtlName::Session))
    .value("`device_id` (never empty, default `api`), `login_time`, `last_seen` (unix ms in decimal), `status` (`login`, `anonymous`, `blocked`), `active` (`true`, `false` when blocked), `ip_address`")
    .meaning("the user's session, renewed by each request; blocked when `status` is `blocked` or `active` is `false`; a `DEL` or `HSET` of another service counts")
    .source(&[Source::S4]);

const REVOKED: KeySpec = KeySpec::internal(
    "parlor:revoked:{user}",
    Kind::String,
    Ttl::Setting(TtlName::Session),
)
.value("unix seconds, `|`, and the epoch in which the hash was checked against the rows")
.meaning("tokens issued up to then open no session; tells a session that was ended from one that the store lost");

impl Keyspace {
    /// The session of a user.
    pub fn session(&self, user: &UserId) -> Key {
        self.key1(&SESSION, user)
    }

    /// Up to when a user's tokens are revoked, and when the session was checked.
    pub fn revoked(&self, user: &UserId) -> Key {
        self.key1(&REVOKED, user)
    }
}
