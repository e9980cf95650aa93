//! The keys of delivery.
//!
//! Always true: the position is a cache over the member's row and only rises.

use crate::ids::{ConversationId, UserId};
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl, TtlName};

/// What delivery owns.
pub const CAPABILITY: Capability = Capability {
    name: "delivery",
    title: "Delivery",
    keys: &[DELIVERY],
};

const DELIVERY: KeySpec = KeySpec::new(
    "delivery:{conv}:{user}",
    Kind::String,
    Ttl::Setting(TtlName::Delivery),
)
.value("`seq`")
.meaning("the highest sequence delivered to the user")
.source(&[Source::S2Future]);

impl Keyspace {
    /// How far a conversation's messages reached a user.
    pub fn delivery(&self, conversation: &ConversationId, user: &UserId) -> Key {
        self.key2(&DELIVERY, conversation, user)
    }
}
