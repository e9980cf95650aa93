//! Keys of the membership caches.
//!
//! Invariant: these keys are caches of the rows. They are written only if the conversation's generation has not changed
//! since the rows were read.

use crate::ids::{ConversationId, UserId};
use crate::keys::{Key, KeyGroup, KeyKind, KeySpec, KeyTtl, Keyspace, SchemaSource, TtlName};

/// TTL of the generation: longer than any read of rows takes.
pub(super) const GENERATION_TTL_SECONDS: u64 = 24 * 3_600;

/// Keys of the membership caches.
pub const KEY_GROUP: KeyGroup = KeyGroup {
    name: "membership",
    title: "Membership and participants",
    keys: &[
        MEMBERSHIP,
        MEMBERSHIP_EPOCH,
        PARTICIPANTS,
        PARTICIPANTS_VERSION,
        MEMBERSHIP_GENERATION,
    ],
};

const MEMBERSHIP: KeySpec = KeySpec::documented(
    "membership:{conv}:{user}",
    KeyKind::String,
    KeyTtl::Configured(TtlName::Membership),
)
.value("`1` member, `0` not a member")
.meaning("whether the user is a member of the conversation; a negative answer is cached too")
.sources(&[SchemaSource::Rooms]);

const MEMBERSHIP_EPOCH: KeySpec = KeySpec::internal(
    "parlor:membership:{conv}:{user}",
    KeyKind::String,
    KeyTtl::Configured(TtlName::Membership),
)
.value("four times the store epoch of the check, plus 0 not a member, 1 member, 2 no such conversation")
.meaning(
    "the answer that Parlor has checked; the documented key is used only if it agrees, because other services write it too",
);

const PARTICIPANTS: KeySpec = KeySpec::documented(
    "conversation:{conv}:participants",
    KeyKind::Set,
    KeyTtl::Configured(TtlName::Participants),
)
.value("user ids")
.meaning("all members of the conversation")
.sources(&[SchemaSource::ChatService]);

const PARTICIPANTS_VERSION: KeySpec = KeySpec::internal(
    "parlor:participants:{conv}:v",
    KeyKind::String,
    KeyTtl::Configured(TtlName::Participants),
)
.value("`members_version` of the row, and the store epoch in which it was read")
.meaning("version of the rows in the set of participants; a set of another version is refilled");

const MEMBERSHIP_GENERATION: KeySpec = KeySpec::internal(
    "parlor:gen:{conv}",
    KeyKind::Counter,
    KeyTtl::Fixed(GENERATION_TTL_SECONDS),
)
.value("number that increases with every change of members")
.meaning("prevents a slow reader from caching rows that it read before a change");

impl Keyspace {
    /// Key of the cached answer whether a user is a member of a conversation.
    pub fn membership(&self, conversation: &ConversationId, user: &UserId) -> Key {
        self.key2(&MEMBERSHIP, conversation, user)
    }

    /// Key of the answer that was checked, and of the epoch of the check.
    pub fn membership_epoch(&self, conversation: &ConversationId, user: &UserId) -> Key {
        self.key2(&MEMBERSHIP_EPOCH, conversation, user)
    }

    /// Key of the set of all members of a conversation.
    pub fn participants(&self, conversation: &ConversationId) -> Key {
        self.key1(&PARTICIPANTS, conversation)
    }

    /// Key of the version of the rows in that set.
    pub fn participants_version(&self, conversation: &ConversationId) -> Key {
        self.key1(&PARTICIPANTS_VERSION, conversation)
    }

    /// Key of the generation of a conversation's caches.
    pub fn membership_generation(&self, conversation: &ConversationId) -> Key {
        self.key1(&MEMBERSHIP_GENERATION, conversation)
    }
}
