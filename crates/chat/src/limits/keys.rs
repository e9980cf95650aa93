//! The keys of limits.
//!
//! Always true: a limiter's key goes by itself when it has nothing left to say.

use crate::ids::{LimiterId, UserId};
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl, TtlName};

/// What limits own.
pub const CAPABILITY: Capability = Capability {
    name: "limits",
    title: "Rate limits",
    keys: &[MESSAGES, FIXED, SLIDING, GCRA],
};

const MESSAGES: KeySpec = KeySpec::new(
    "rate:message:{user}",
    Kind::Counter,
    Ttl::Setting(TtlName::MessageWindow),
)
.value("number")
.meaning("messages the user sent in this window; 20 by default (`limits.messages`)")
.source(&[Source::S2]);

const FIXED: KeySpec = KeySpec::new(
    "rate_limit:{id}",
    Kind::SortedSet,
    Ttl::Described("the window"),
)
.value("score = ms, member = ms and a random part")
.meaning("requests accepted in this fixed window; the first of them sets its end, once")
.source(&[Source::S4]);

const SLIDING: KeySpec = KeySpec::new(
    "sliding_limit:{id}",
    Kind::SortedSet,
    Ttl::Described("the window"),
)
.value("score = ms, member = ms and a random part")
.meaning("requests accepted in the last window")
.source(&[Source::S4]);

const GCRA: KeySpec = KeySpec::new(
    "gcra:{id}",
    Kind::String,
    Ttl::Described("until it is full again"),
)
.value("theoretical arrival time, ms, with five decimals where it is not whole")
.meaning("a steady rate with a burst")
.source(&[Source::Ours]);

impl Keyspace {
    /// Messages of a user in this window.
    pub fn message_rate(&self, user: &UserId) -> Key {
        self.key1(&MESSAGES, user)
    }

    /// A fixed window.
    pub fn fixed_window(&self, id: &LimiterId) -> Key {
        self.key1(&FIXED, id)
    }

    /// A sliding window.
    pub fn sliding_window(&self, id: &LimiterId) -> Key {
        self.key1(&SLIDING, id)
    }

    /// A steady rate.
    pub fn gcra(&self, id: &LimiterId) -> Key {
        self.key1(&GCRA, id)
    }
}
