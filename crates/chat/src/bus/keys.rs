//! The channels between nodes.
//!
//! Always true: a frame starts with a version byte, and a node that does not know the version ignores the frame and fetches.

use crate::ids::{ConversationId, UserId};
use crate::keys::{Capability, Channel, KeySpec, Keyspace, Kind, Ttl};

/// What the bus owns.
pub const CAPABILITY: Capability = Capability {
    name: "bus",
    title: "Bus",
    keys: &[CONVERSATION, USER, CONTROL, LARGE],
};

const CONVERSATION: KeySpec =
    KeySpec::internal("parlor:bus:conv:{conv}", Kind::ShardChannel, Ttl::Never)
        .value("frame with version byte")
        .meaning("what the conversation's sockets must be told, in `seq` order");

const USER: KeySpec = KeySpec::internal("parlor:bus:user:{user}", Kind::ShardChannel, Ttl::Never)
    .value("frame with version byte")
    .meaning("what the user's sockets must be told: unread counts, sessions, conversations");

const CONTROL: KeySpec = KeySpec::internal("parlor:control", Kind::Channel, Ttl::Never)
    .value("frame with version byte")
    .meaning("what every node must do at once: blocks, logouts, removed devices");

const LARGE: KeySpec = KeySpec::internal("parlor:large", Kind::Channel, Ttl::Never)
    .value("frame with version byte")
    .meaning("messages in conversations above `unread.fanout_limit`: each node tells the members who are there");

impl Keyspace {
    /// The frames of a conversation.
    pub fn conversation_bus(&self, conversation: &ConversationId) -> Channel {
        self.channel1(&CONVERSATION, conversation)
    }

    /// The frames of a user.
    pub fn user_bus(&self, user: &UserId) -> Channel {
        self.channel1(&USER, user)
    }

    /// The frames for every node.
    pub fn control_bus(&self) -> Channel {
        self.channel0(&CONTROL)
    }

    /// The frames about large conversations, for every node.
    pub fn large_bus(&self) -> Channel {
        self.channel0(&LARGE)
    }
}
