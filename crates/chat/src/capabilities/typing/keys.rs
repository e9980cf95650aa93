//! Keys of typing indicators.
//!
//! Invariant: a typing user has a documented key and a member in the conversation's index, so listing costs O(typing
//! users). All keys of a conversation are in its slot.

use crate::ids::{ConversationId, UserId};
use crate::keys::{
    Key, KeyGroup, KeyKind, KeyLayout, KeySpec, KeyTtl, Keyspace, SchemaSource, TtlName,
    TypingLayout,
};

/// The keys of typing indicators.
pub const KEY_GROUP: KeyGroup = KeyGroup {
    name: "typing",
    title: "Typing",
    keys: &[DOCUMENT, FLAG, INDEX, NAMES],
};

const TYPING: KeySpec = KeySpec::documented(
    "typing:{conv}:{user}",
    KeyKind::String,
    KeyTtl::Configured(TtlName::Typing),
)
.meaning("exists while the user is typing in the conversation");

const DOCUMENT: KeySpec = TYPING
    .value(r#"`{"userId","username","timestamp"}`, time in ms"#)
    .sources(&[SchemaSource::ChatApp])
    .layout(KeyLayout::Typing(TypingLayout::Document));

const FLAG: KeySpec = TYPING
    .value("`1`")
    .sources(&[SchemaSource::ChatService])
    .layout(KeyLayout::Typing(TypingLayout::Flag));

const INDEX: KeySpec = KeySpec::internal(
    "parlor:typing:{conv}",
    KeyKind::SortedSet,
    KeyTtl::Configured(TtlName::Typing),
)
.value("member user id, score = ms at which the typing ends")
.meaning("the users who are typing in the conversation");

const NAMES: KeySpec = KeySpec::internal(
    "parlor:typing:{conv}:names",
    KeyKind::Hash,
    KeyTtl::Configured(TtlName::Typing),
)
.value("field = user id, value = display name; only users who have a name")
.meaning("display names of the users who are typing in the conversation");

impl Keyspace {
    /// Documented key of a user who is typing in a conversation.
    pub fn typing_user(&self, conversation: &ConversationId, user: &UserId) -> Key {
        self.key2(&TYPING, conversation, user)
    }

    /// Index of the users who are typing in a conversation.
    pub fn typing_index(&self, conversation: &ConversationId) -> Key {
        self.key1(&INDEX, conversation)
    }

    /// Display names of the users who are typing in a conversation.
    pub fn typing_names(&self, conversation: &ConversationId) -> Key {
        self.key1(&NAMES, conversation)
    }
}
