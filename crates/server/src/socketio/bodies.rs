//! Bodies of events and acknowledgements that are not types of an operation.

use std::collections::HashMap;

use parlor_chat::conversations::{Conversation, MemberRole};
use parlor_chat::ids::{ConversationId, DeviceId, UserId};
use parlor_chat::messages::{Message, SentMessage};
use parlor_chat::presence::PresenceStatus;
use parlor_chat::typing::TypingUser;
use parlor_chat::unread::UnreadChange;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of the handshake, sent as Socket.IO's `auth`.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Handshake {
    /// Bearer token, without the word `Bearer`.
    #[serde(default)]
    pub token: String,
    /// Id of the device; use the same id for every connection of this device. Default: the socket id.
    #[serde(default)]
    #[schema(value_type = Option<DeviceId>)]
    pub device_id: Option<String>,
    /// With a service token: id of the user that the service acts for. Other callers may only name themselves.
    #[serde(default)]
    #[schema(value_type = Option<UserId>)]
    pub user_id: Option<String>,
    /// Conversations to join, with the position that the client has reached in each. Missed messages and changes are
    /// sent before live events.
    #[serde(default)]
    #[schema(value_type = HashMap<String, ResumePosition>)]
    pub resume: HashMap<String, ResumePosition>,
}

/// Position of a client in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ResumePosition {
    /// `seq` of the last received message; changes since that message was sent are sent again.
    SeqOnly(u64),
    /// `seq` of the last received message, and the highest received `rev`; changes after this `rev` are sent.
    SeqAndRev {
        /// `seq` of the last received message.
        seq: u64,
        /// Highest received `rev`.
        rev: u64,
    },
}

/// Error of a rejected handshake, sent with `connect_error`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ConnectErrorBody {
    /// Description for people; it may change.
    pub message: String,
    /// Stable error code.
    pub code: &'static str,
    /// The same error again: Socket.IO clients expose only `message` and this field, as `error.data`.
    pub data: ErrorBody,
}

/// Error of a rejected request.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// Stable error code; docs/errors.md lists all codes.
    pub code: &'static str,
    /// Description for people; it may change.
    pub message: String,
    /// Milliseconds to wait before a retry; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Acknowledgement of a rejected event.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ErrorAck {
    /// Always false.
    pub ok: bool,
    /// Why the event was rejected.
    pub error: ErrorBody,
}

/// Empty object.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
pub struct EmptyObject {}

/// Sets the status of the user.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
pub struct SetPresenceStatus {
    /// New status; `offline` makes a connected user invisible.
    pub status: PresenceStatus,
}

/// A conversation of the handshake's `resume` is joined. Missed messages and changes were sent before this event, as
/// `message:new`, `message:edited` and `message:deleted`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationResumed {
    /// Id of the conversation.
    pub conversation_id: ConversationId,
    /// `seq` of the last message of the conversation; live events start right after it.
    pub last_seq: u64,
    /// `rev` up to which changes were sent.
    pub rev: u64,
    /// Number of unread messages of the user in the conversation.
    pub unread: u64,
    /// Users who are typing in the conversation.
    pub typing: Vec<TypingUser>,
    /// Version of the members. Load the members again if it differs from the version that you know.
    pub members_version: u64,
    /// The conversation as it is now.
    pub conversation: Conversation,
    /// True if the client missed more than was sent: read further messages with `history`, and further changes by
    /// joining with this `rev` as `afterRev`.
    pub has_more: bool,
}

/// Reference to a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationRef {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

/// The user starts or stops typing in a conversation.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TypingRequest {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Display name of the user, if a service acts for the user; otherwise the name in the token is used.
    #[serde(default)]
    pub username: Option<String>,
}

/// Reply with the message after the change.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct MessageReply {
    /// The message.
    pub message: Message,
}

impl From<Message> for MessageReply {
    fn from(message: Message) -> Self {
        Self { message }
    }
}

impl From<SentMessage> for MessageReply {
    fn from(sent: SentMessage) -> Self {
        sent.message.into()
    }
}

/// New token for the connection.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub struct RefreshSession {
    /// Bearer token of the same user, without the word `Bearer`.
    pub token: String,
}

/// Position up to which the messages of a conversation were delivered to a member, or read by a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptUpdate {
    /// Id of the conversation.
    pub conversation_id: ConversationId,
    /// Id of the member.
    pub user_id: UserId,
    /// `seq` of the last delivered or read message.
    pub seq: u64,
}

/// A member of a conversation was added, removed or got another role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberUpdate {
    /// Id of the conversation.
    pub conversation_id: ConversationId,
    /// Id of the user.
    pub user_id: UserId,
    /// Role of the member; absent if the user was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<MemberRole>,
    /// Version of the members after the change. If you know a version more than one below it, you missed a change: load
    /// the members again.
    pub members_version: u64,
}

/// Change of the unread count of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum UnreadUpdate {
    /// The new count.
    Count(UnreadChange),
    /// A new last message, in a conversation with more than `unread.fanout_limit` members; sent at most once per
    /// second.
    LargeConversation(LastSeqUpdate),
}

/// Last message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastSeqUpdate {
    /// Id of the conversation.
    pub conversation_id: ConversationId,
    /// `seq` of the last message.
    pub last_seq: u64,
}

/// The server closes the connection right after this event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionClosed {
    /// Why the server closes the connection.
    pub reason: SessionCloseReason,
    /// With `shutdown`: milliseconds to wait before reconnecting. The server spreads these times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconnect_in_ms: Option<u64>,
}

/// Reason of `session:closed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionCloseReason {
    /// The user was blocked.
    Blocked,
    /// The session ended, or the device was removed.
    Logout,
    /// The user began a session on another device; only one session is allowed.
    Replaced,
    /// The server is shutting down; reconnect.
    Shutdown,
    /// The token expired without a `session:refresh`; reconnect with a new token.
    Expired,
}
