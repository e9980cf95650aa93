//! Keys of delivery positions.
//!
//! Invariant: the key caches the position in the member's row and only rises.

use crate::ids::{ConversationId, UserId};
use crate::keys::{Key, KeyGroup, KeyKind, KeySpec, KeyTtl, Keyspace, SchemaSource, TtlName};

/// Keys of delivery positions.
pub const KEY_GROUP: KeyGroup = KeyGroup {
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
.sources(&[SchemaSource::ChatServicePlanned]);

impl Keyspace {
    /// Key of the highest `seq` that was delivered to a user.
    pub fn delivered_seq(&self, conversation: &ConversationId, user: &UserId) -> Key {
        self.key2(&DELIVERED_SEQ, conversation, user)
    }
}
