//! The keys of unread counts.
//!
//! Always true: the documented counters are written from the internal hash, together with the total, in one step in the user's slot.

use crate::ids::{ConversationId, UserId};
use crate::keys::{Key, KeyGroup, KeyKind, KeySource, KeySpec, KeyTtl, Keyspace};

/// What unread counts own.
pub const CAPABILITY: KeyGroup = KeyGroup {
    name: "unread",
    title: "Unread",
    keys: &[UNREAD_COUNTER, UNREAD_TOTAL, UNREAD_STATE],
};

const UNREAD_COUNTER: KeySpec =
    KeySpec::documented("unread:{user}:{conv}", KeyKind::Counter, KeyTtl::Never)
        .value("number")
        .meaning("unread messages of the user in the conversation; deleted when read")
        .sources(&[KeySource::S2]);

const UNREAD_TOTAL: KeySpec =
    KeySpec::documented("unread:{user}:total", KeyKind::Counter, KeyTtl::Never)
        .value("number")
        .meaning("unread messages of the user in all conversations that are not muted")
        .sources(&[KeySource::S2]);

const UNREAD_STATE: KeySpec =
    KeySpec::internal("parlor:unread:{user}", KeyKind::Hash, KeyTtl::Fixed(30 * 86_400))
        .value("field conversation = `1|joined|position|top|badge|own|muted|said|counted` or `1|left|version|at|top`; `:epoch`, `:total`")
        .meaning("the positions that the counts are derived from");

impl Keyspace {
    /// Unread messages of a user in a conversation.
    pub fn unread(&self, user: &UserId, conversation: &ConversationId) -> Key {
        self.key2(&UNREAD_COUNTER, user, conversation)
    }

    /// Unread messages of a user in all.
    pub fn unread_total(&self, user: &UserId) -> Key {
        self.key1(&UNREAD_TOTAL, user)
    }

    /// Every key of unread counts, as patterns of `SCAN`.
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

    /// The positions a user's counts are derived from.
    pub fn unread_state(&self, user: &UserId) -> Key {
        self.key1(&UNREAD_STATE, user)
    }
}
