//! Keys of unread counts and delivery positions.
//!
//! Invariants:
//! 1. One script in the user's hash slot writes the documented counters and the total together with the internal hash.
//! 2. The delivery key caches the position in the member's row and only rises.

use crate::ids::{ConversationId, UserId};
use crate::keys::{Key, KeyGroup, KeyKind, KeySpec, KeyTtl, Keyspace, SchemaSource, TtlName};

/// TTL of a user's unread state, counted from its last change, in seconds.
pub(super) const UNREAD_STATE_TTL_SECS: u64 = 30 * 86_400;

/// Keys of unread counts and delivery positions.
pub const KEY_GROUP: KeyGroup = KeyGroup {
    name: "unread",
    title: "Unread",
    keys: &[UNREAD_COUNTER, UNREAD_TOTAL, UNREAD_STATE, DELIVERED_SEQ],
};

const UNREAD_COUNTER: KeySpec =
    KeySpec::documented("unread:{user}:{conv}", KeyKind::Counter, KeyTtl::Never)
        .value("number")
        .meaning("unread messages of the user in the conversation; deleted when read")
        .sources(&[SchemaSource::ChatService]);

const UNREAD_TOTAL: KeySpec =
    KeySpec::documented("unread:{user}:total", KeyKind::Counter, KeyTtl::Never)
        .value("number")
        .meaning("unread messages of the user in all conversations that are not muted; it changes by the difference of the own sum, so counts of other services stay in it")
        .sources(&[SchemaSource::ChatService]);

const UNREAD_STATE: KeySpec =
    KeySpec::internal("parlor:unread:{user}", KeyKind::Hash, KeyTtl::Fixed(UNREAD_STATE_TTL_SECS))
        .value("field conversation = `1|joined|position|top|badge|own|muted|said|counted` or `1|left|version|at|top`; `:epoch`, `:total`")
        .meaning("the positions that the counts are derived from");

const DELIVERED_SEQ: KeySpec = KeySpec::documented(
    "delivery:{conv}:{user}",
    KeyKind::String,
    KeyTtl::Configured(TtlName::Delivery),
)
.value("`seq`")
.meaning("highest `seq` that was delivered to the user")
.sources(&[SchemaSource::ChatServicePlanned]);

impl Keyspace {
    /// Key of a user's unread count in a conversation.
    pub fn unread(&self, user: &UserId, conversation: &ConversationId) -> Key {
        self.key2(&UNREAD_COUNTER, user, conversation)
    }

    /// Key of a user's total unread count.
    pub fn unread_total(&self, user: &UserId) -> Key {
        self.key1(&UNREAD_TOTAL, user)
    }

    /// Key of the highest `seq` that was delivered to a user.
    pub fn delivered_seq(&self, conversation: &ConversationId, user: &UserId) -> Key {
        self.key2(&DELIVERED_SEQ, conversation, user)
    }

    /// `SCAN` patterns of all keys of unread counts.
    pub(super) fn unread_patterns(&self) -> [String; 2] {
        let mut prefix = String::new();
        for letter in self.settings().prefix.as_str().chars() {
            if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
                prefix.push('\\');
            }
            prefix.push(letter);
        }
        ["unread:*", "parlor:unread:*"].map(|name| format!("{prefix}{name}"))
    }

    /// Key of the positions that a user's counts are derived from.
    pub fn unread_state(&self, user: &UserId) -> Key {
        self.key1(&UNREAD_STATE, user)
    }
}
