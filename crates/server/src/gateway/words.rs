//! What clients and the gateway say to each other beyond the operations: bodies, acknowledgements, news.

use std::collections::HashMap;

use parlor_chat::ids::{ConversationId, DeviceId, UserId};
use parlor_chat::messages::{Message, SentMessage};
use parlor_chat::presence::{PresenceStatus, UserStatus};
use parlor_chat::typing::TypingUser;
use parlor_chat::unread::UnreadChange;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a client shows when it connects, as Socket.IO's `auth`.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Handshake {
    /// The bearer token, without `Bearer`.
    #[serde(default)]
    pub token: String,
    /// What the device is called, the same with each connection; the socket's id if it is not said.
    #[serde(default)]
    #[schema(value_type = Option<DeviceId>)]
    pub device_id: Option<String>,
    /// With a service token: the user it acts for. Others may name only themselves.
    #[serde(default)]
    #[schema(value_type = Option<UserId>)]
    pub user_id: Option<String>,
    /// The conversations to join, each with the last message the client has: what it missed is told before anything else.
    #[serde(default)]
    #[schema(value_type = HashMap<String, Place>)]
    pub resume: HashMap<String, Place>,
}

/// How far a client has got in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Place {
    /// The `seq` of the last message it has; changes made since that one was sent are told.
    SeqOnly(u64),
    /// The same, and the highest `rev` it has seen: changes after it are told.
    SeqAndRev {
        /// The last message.
        seq: u64,
        /// The highest revision.
        rev: u64,
    },
}

/// Why a client was not let in: the error of `connect_error`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ConnectRefused {
    /// What people read.
    pub message: String,
    /// What programs go by.
    pub code: &'static str,
    /// The same once more, where Socket.IO's clients show it.
    pub data: Failure,
}

/// Why something was refused.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// What programs go by; docs/errors.md lists them.
    pub code: &'static str,
    /// What people read.
    pub message: String,
    /// When to try again, in milliseconds from now, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// An acknowledgement of something that was refused.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Refused {
    /// False.
    pub ok: bool,
    /// Why.
    pub error: Failure,
}

/// Nothing has to be said.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
pub struct Nothing {}

/// How a user wants to be seen.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
pub struct SetStatus {
    /// How; `offline` hides them although they are connected.
    pub status: PresenceStatus,
}

/// Users to be watched, or no longer.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Watched {
    /// Who.
    #[schema(value_type = Vec<UserId>, max_items = 1000)]
    pub user_ids: Vec<String>,
}

/// How users are seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Seen {
    /// The users.
    pub users: Vec<UserStatus>,
}

/// A conversation that the handshake's `resume` named: what the client missed of it was told before this, as
/// `message:new`, `message:edited` and `message:deleted`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationResumed {
    /// Which.
    pub conversation_id: ConversationId,
    /// The last message of the conversation: the live stream goes on right after it.
    pub last_seq: u64,
    /// The revision up to which changes are told.
    pub rev: u64,
    /// Unread messages of the caller there.
    pub unread: u64,
    /// Who types there.
    pub typing: Vec<TypingUser>,
    /// There is more than was told: messages are read on with `history`, changes by joining with this `rev` as `afterRev`.
    pub has_more: bool,
}

/// A conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// Which.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

/// The caller types in a conversation, or no longer.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TypingIn {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// What the user is called, where a service acts for them; else the token says it.
    #[serde(default)]
    pub username: Option<String>,
}

/// A message, as acknowledged.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct OneMessage {
    /// The message.
    pub message: Message,
}

impl From<Message> for OneMessage {
    fn from(message: Message) -> Self {
        Self { message }
    }
}

impl From<SentMessage> for OneMessage {
    fn from(sent: SentMessage) -> Self {
        sent.message.into()
    }
}

/// Another token for the connection, of the same user.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub struct Refresh {
    /// The bearer token, without `Bearer`.
    pub token: String,
}

/// How far somebody has got or read a conversation's messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reached {
    /// Where.
    pub conversation_id: ConversationId,
    /// Who.
    pub user_id: UserId,
    /// The last message.
    pub seq: u64,
}

/// What waits for the user in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum UnreadNews {
    /// Counted.
    Count(UnreadChange),
    /// There is a new last message, in a conversation of more than `unread.fanout_limit` members; at most once a second.
    LargeConversation(LastMessage),
}

/// The last message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastMessage {
    /// Where.
    pub conversation_id: ConversationId,
    /// Its number.
    pub last_seq: u64,
}

/// The server closes the connection right after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionClosed {
    /// Why.
    pub reason: ClosedReason,
    /// With `shutdown`: how long to wait before connecting again, so that not everybody comes at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconnect_in_ms: Option<u64>,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClosedReason {
    /// The user was blocked.
    Blocked,
    /// The session ended, or the device was removed.
    Logout,
    /// The user began a session on another device, and may have only one.
    Replaced,
    /// The server ends; connect again.
    Shutdown,
    /// The time of the token is over, and `session:refresh` did not come; connect again with a new one.
    Expired,
}
