//! The keys of membership.
//!
//! Always true: these are caches over the rows, filled only while the conversation's generation stands still.

use crate::ids::{ConversationId, UserId};
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl, TtlName};

/// What membership owns.
pub const CAPABILITY: Capability = Capability {
    name: "membership",
    title: "Membership and participants",
    keys: &[
        MEMBERSHIP,
        CHECKED,
        PARTICIPANTS,
        PARTICIPANTS_VERSION,
        GENERATION,
    ],
};

const MEMBERSHIP: KeySpec = KeySpec::new(
    "membership:{conv}:{user}",
    Kind::String,
    Ttl::Setting(TtlName::Membership),
)
.value("`1` member, `0` not a member")
.meaning("whether the user belongs to the conversation; a no is cached too")
.source(&[Source::S1]);

const CHECKED: KeySpec = KeySpec::internal(
    "parlor:membership:{conv}:{user}",
    Kind::String,
    Ttl::Setting(TtlName::Membership),
)
.value("the epoch in which the answer was checked")
.meaning(
    "says of which epoch the answer about membership is; one of another epoch is not believed",
);

const PARTICIPANTS: KeySpec = KeySpec::new(
    "conversation:{conv}:participants",
    Kind::Set,
    Ttl::Setting(TtlName::Participants),
)
.value("user ids")
.meaning("everybody in the conversation")
.source(&[Source::S2]);

const PARTICIPANTS_VERSION: KeySpec = KeySpec::internal(
    "parlor:participants:{conv}:v",
    Kind::String,
    Ttl::Setting(TtlName::Participants),
)
.value("`members_version` of the row, and the epoch it was checked in")
.meaning("which state of the rows the set of participants shows; another one is refilled");

const GENERATION: KeySpec =
    KeySpec::internal("parlor:gen:{conv}", Kind::Counter, Ttl::Fixed(24 * 3_600))
        .value("rises with every change of members")
        .meaning("keeps a slow reader from filling the caches with what it read before a change");

impl Keyspace {
    /// Whether a user belongs to a conversation.
    pub fn membership(&self, conversation: &ConversationId, user: &UserId) -> Key {
        self.key2(&MEMBERSHIP, conversation, user)
    }

    /// The epoch of the answer whether a user belongs to a conversation.
    pub fn membership_checked(&self, conversation: &ConversationId, user: &UserId) -> Key {
        self.key2(&CHECKED, conversation, user)
    }

    /// Everybody in a conversation.
    pub fn participants(&self, conversation: &ConversationId) -> Key {
        self.key1(&PARTICIPANTS, conversation)
    }

    /// Which state of the rows the set of participants shows.
    pub fn participants_version(&self, conversation: &ConversationId) -> Key {
        self.key1(&PARTICIPANTS_VERSION, conversation)
    }

    /// The generation of a conversation's caches.
    pub fn membership_generation(&self, conversation: &ConversationId) -> Key {
        self.key1(&GENERATION, conversation)
    }
}
