//! The keys of unread counts.
//!
//! Always true: the documented counters are written from the internal hash, together with the total, in one step in the user's slot.

use crate::ids::{ConversationId, UserId};
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl};

/// What unread counts own.
pub const CAPABILITY: Capability = Capability {
    name: "unread",
    title: "Unread",
    keys: &[UNREAD, TOTAL, STATE],
};

const UNREAD: KeySpec = KeySpec::new("unread:{user}:{conv}", Kind::Counter, Ttl::Never)
    .value("number")
    .meaning("unread messages of the user in the conversation; deleted when read")
    .source(&[Source::S2]);

const TOTAL: KeySpec = KeySpec::new("unread:{user}:total", Kind::Counter, Ttl::Never)
    .value("number")
    .meaning("the badge: the sum over the user's conversations that are not muted")
    .source(&[Source::S2]);

const STATE: KeySpec =
    KeySpec::internal("parlor:unread:{user}", Kind::Hash, Ttl::Fixed(30 * 86_400))
        .value("field conversation = `1|joined|position|top|badge|own|muted|said|counted` or `1|left|version|at|top`; `:epoch`, `:total`")
        .meaning("the positions that the counts are derived from");

impl Keyspace {
    /// Unread messages of a user in a conversation.
    pub fn unread(&self, user: &UserId, conversation: &ConversationId) -> Key {
        self.key2(&UNREAD, user, conversation)
    }

    /// Unread messages of a user in all.
    pub fn unread_total(&self, user: &UserId) -> Key {
        self.key1(&TOTAL, user)
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
        self.key1(&STATE, user)
    }
}
