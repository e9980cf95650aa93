//! The channels between nodes.
//!
//! Invariant: a frame starts with a version byte. A node that does not know the version ignores the body and reads the
//! state again.

use crate::ids::{ConversationId, UserId};
use crate::keys::{Channel, KeyGroup, KeyKind, KeySpec, KeyTtl, Keyspace};

/// The channels of the bus.
pub const KEY_GROUP: KeyGroup = KeyGroup {
    name: "bus",
    title: "Bus",
    keys: &[CONVERSATION, USER, CONTROL, LARGE],
};

const CONVERSATION: KeySpec = KeySpec::internal(
    "parlor:bus:conv:{conv}",
    KeyKind::ShardChannel,
    KeyTtl::Never,
)
.value("frame with version byte")
.meaning("events of the conversation for its sockets on all nodes, in `seq` order");

const USER: KeySpec = KeySpec::internal(
    "parlor:bus:user:{user}",
    KeyKind::ShardChannel,
    KeyTtl::Never,
)
.value("frame with version byte")
.meaning("events of the user for the user's sockets on all nodes: unread counts, conversations");

const CONTROL: KeySpec = KeySpec::internal("parlor:control", KeyKind::Channel, KeyTtl::Never)
    .value("frame with version byte")
    .meaning("commands for all nodes: blocks, logouts, removed devices");

const LARGE: KeySpec = KeySpec::internal("parlor:large", KeyKind::Channel, KeyTtl::Never)
    .value("frame with version byte")
    .meaning("new messages and changed members in conversations above `unread.fanout_limit`; each node notifies the members that are connected to it");

impl Keyspace {
    /// Channel of the events of a conversation.
    pub fn conversation_channel(&self, conversation: &ConversationId) -> Channel {
        self.channel1(&CONVERSATION, conversation)
    }

    /// Channel of the events of a user.
    pub fn user_channel(&self, user: &UserId) -> Channel {
        self.channel1(&USER, user)
    }

    /// Channel of the commands for all nodes.
    pub fn control_channel(&self) -> Channel {
        self.channel0(&CONTROL)
    }

    /// Channel of new messages and changed members in large conversations, for all nodes.
    pub fn large_conversations_channel(&self) -> Channel {
        self.channel0(&LARGE)
    }
}
