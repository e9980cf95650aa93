//! Keys of rate limits.
//!
//! Invariant: the key of a limiter expires when no request counts any more.

use crate::ids::{LimiterId, UserId};
use crate::keys::{Key, KeyGroup, KeyKind, KeySpec, KeyTtl, Keyspace, SchemaSource, TtlName};

/// The keys of rate limits.
pub const KEY_GROUP: KeyGroup = KeyGroup {
    name: "limits",
    title: "Rate limits",
    keys: &[MESSAGES, FIXED, SLIDING, GCRA],
};

const MESSAGES: KeySpec = KeySpec::documented(
    "rate:message:{user}",
    KeyKind::Counter,
    KeyTtl::Configured(TtlName::MessageWindow),
)
.value("number")
.meaning("messages of the user in this window; at most 20 by default (`limits.messages`)")
.sources(&[SchemaSource::ChatService]);

const FIXED: KeySpec = KeySpec::documented(
    "rate_limit:{id}",
    KeyKind::SortedSet,
    KeyTtl::PerCall("the window"),
)
.value("score = ms, member = ms and a random part")
.meaning("requests accepted in this fixed window; the first request sets the end of the window")
.sources(&[SchemaSource::HomeAssistant]);

const SLIDING: KeySpec = KeySpec::documented(
    "sliding_limit:{id}",
    KeyKind::SortedSet,
    KeyTtl::PerCall("the window"),
)
.value("score = ms, member = ms and a random part")
.meaning("requests accepted in the last window")
.sources(&[SchemaSource::HomeAssistant]);

const GCRA: KeySpec = KeySpec::documented(
    "gcra:{id}",
    KeyKind::String,
    KeyTtl::PerCall("until the limit is completely free again"),
)
.value("theoretical arrival time, ms, with five decimals where it is not whole")
.meaning("state of a steady rate with bursts (GCRA)")
.sources(&[SchemaSource::Parlor]);

impl Keyspace {
    /// Counter of the messages of a user in this window.
    pub fn message_counter(&self, user: &UserId) -> Key {
        self.key1(&MESSAGES, user)
    }

    /// Accepted requests in the fixed window of a limiter.
    pub fn fixed_window(&self, id: &LimiterId) -> Key {
        self.key1(&FIXED, id)
    }

    /// Accepted requests in the sliding window of a limiter.
    pub fn sliding_window(&self, id: &LimiterId) -> Key {
        self.key1(&SLIDING, id)
    }

    /// Theoretical arrival time of a limiter (GCRA).
    pub fn gcra_state(&self, id: &LimiterId) -> Key {
        self.key1(&GCRA, id)
    }
}
