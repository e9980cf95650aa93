//! The keys of delivery.
//!
//! Always true: the position is a cache over the member's row and only rises.

use crate::ids::{ConversationId, UserId};
use crate::keys::{Key, KeyGroup, KeyKind, KeySource, KeySpec, KeyTtl, Keyspace, TtlName};

/// What delivery owns.
pub const CAPABILITY: KeyGroup = KeyGroup {
    name: "delivery",
    title: "Delivery",
    keys: &[DELIVERED_SEQ],
};

const DELIVERED_SEQ: KeySpec = KeySpec::documented(
    "delivery:{conv}:{user}",
    KeyKind::String,
    KeyTtl::Configured(TtlName::Delivery),
)
.value("`seq`")
.meaning("highest `seq` that was delivered to the user")
.sources(&[KeySource::S2Future]);

impl Keyspace {
    /// How far a conversation's messages reached a user.
    pub fn delivered_seq(&self, conversation: &ConversationId, user: &UserId) -> Key {
        self.key2(&DELIVERED_SEQ, conversation, user)
    }
}
