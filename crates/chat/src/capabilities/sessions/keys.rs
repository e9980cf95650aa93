//! The keys of sessions.
//!
//! Invariant: other services may read and change the hash. Blocks and revocations are also rows, which remain if the
//! hash is lost.

use crate::ids::UserId;
use crate::keys::{
    Key, KeyGroup, KeyKind, KeyLayout, KeySpec, KeyTtl, Keyspace, SchemaSource, SessionLayout,
    TtlName,
};

/// The keys of sessions.
pub const KEY_GROUP: KeyGroup = KeyGroup {
    name: "sessions",
    title: "Sessions",
    keys: &[SESSION, SESSION_CHECK],
};

const SESSION: KeySpec = KeySpec::documented("user:{user}", KeyKind::Hash, KeyTtl::Configured(TtlName::Session))
    .value("`device_id` (never empty, default `api`), `login_time`, `last_seen` (unix ms in decimal), `status` (`login`, `anonymous`, `blocked`), `active` (`true`, `false` when blocked), `ip_address`")
    .meaning("session of the user, renewed by requests (at most every 30 s per node); the user is blocked if `status` is `blocked` or `active` is `false`; other services may end it with `DEL` or change it with `HSET`; a hash without `device_id` is not a session and is left alone")
    .sources(&[SchemaSource::HomeAssistant])
    .layout(KeyLayout::Session(SessionLayout::Hash));

const SESSION_CHECK: KeySpec = KeySpec::internal(
    "parlor:revoked:{user}",
    KeyKind::String,
    KeyTtl::Configured(TtlName::Session),
)
.value("unix seconds, store epoch, and `login_time`, `active`, `status` and `device_id` of the hash, separated by `|`")
.meaning("tokens issued up to this time are revoked; the epoch in which the hash was compared with the rows distinguishes a deleted session from one that the store has lost; the fields show changes by other services")
.layout(KeyLayout::Session(SessionLayout::Hash));

impl Keyspace {
    /// Session of a user.
    pub fn session(&self, user: &UserId) -> Key {
        self.key1(&SESSION, user)
    }

    /// Time up to which tokens of a user are revoked, the store epoch in which the session was compared with the rows,
    /// and the fields that it had then.
    pub fn session_check(&self, user: &UserId) -> Key {
        self.key1(&SESSION_CHECK, user)
    }
}
