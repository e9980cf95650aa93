//! The keys of typing.
//!
//! Always true: a typer has a documented key of their own and a member of the conversation's index, so that listing costs O(typers).
//! All keys of a conversation lie in its slot.

use crate::ids::{ConversationId, UserId};
use crate::keys::{
    Capability, Key, KeySpec, Keyspace, Kind, Layout, Source, Ttl, TtlName, TypingLayout,
};

/// What typing owns.
pub const CAPABILITY: Capability = Capability {
    name: "typing",
    title: "Typing",
    keys: &[DOCUMENT, FLAG, TYPERS, NAMES],
};

const TYPING: KeySpec = KeySpec::new(
    "typing:{conv}:{user}",
    Kind::String,
    Ttl::Setting(TtlName::Typing),
)
.meaning("there while the user types in the conversation");

const DOCUMENT: KeySpec = TYPING
    .value(r#"`{"userId","username","timestamp"}`, time in ms"#)
    .source(&[Source::S0])
    .layout(Layout::Typing(TypingLayout::Document));

const FLAG: KeySpec = TYPING
    .value("`1`")
    .source(&[Source::S2])
    .layout(Layout::Typing(TypingLayout::Flag));

const TYPERS: KeySpec = KeySpec::internal(
    "parlor:typing:{conv}",
    Kind::SortedSet,
    Ttl::Setting(TtlName::Typing),
)
.value("member user id, score = ms at which it ends")
.meaning("who types in the conversation");

const NAMES: KeySpec = KeySpec::internal(
    "parlor:typing:{conv}:names",
    Kind::Hash,
    Ttl::Setting(TtlName::Typing),
)
.value("field = user id, value = what they are called; only of those who have a name")
.meaning("the names of those who type, which the index has no room for");

impl Keyspace {
    /// That a user types in a conversation.
    pub fn typing(&self, conversation: &ConversationId, user: &UserId) -> Key {
        self.key2(&TYPING, conversation, user)
    }

    /// Who types in a conversation.
    pub fn typers(&self, conversation: &ConversationId) -> Key {
        self.key1(&TYPERS, conversation)
    }

    /// What those who type in a conversation are called.
    pub fn typer_names(&self, conversation: &ConversationId) -> Key {
        self.key1(&NAMES, conversation)
    }
}
