//! Method table: the operation of each gRPC method.
//!
//! Invariants:
//! 1. Every operation of [`ALL_OPERATIONS`](parlor_chat::api::operation::ALL_OPERATIONS) is in [`METHOD_OPERATIONS`], or in
//!    [`OPERATIONS_WITHOUT_METHOD`] with the reason.

use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::{
    CreateConversation, DeleteConversation, GetConversation, GetMember, IsMember, JoinConversation,
    LeaveConversation, ListConversations, ListMembers, PutMember, RemoveMember, UpdateConversation,
};
use parlor_chat::limits::CheckLimit;
use parlor_chat::messages::{
    CatchUpConversation, DeleteMessage, EditMessage, GetMessage, ListMessages, SendMessage,
};
use parlor_chat::presence::{
    CountPresence, GetPresence, Heartbeat, ListDevices, QueryPresence, RemoveDevice, SetPresence,
    WatchPresence,
};
use parlor_chat::sessions::{
    BeginSession, BeginVisitorSession, EndSession, EndUserSession, GetSession, GetUserSession,
    UpdateUserSession, ValidateSession,
};
use parlor_chat::typing::{ListTyping, SetTyping};
use parlor_chat::unread::{GetUnread, ListReceipts, MarkDelivered, MarkRead, MarkUnread};

use super::proto::v1::{
    chat_service_server, limit_service_server, session_service_server, user_status_service_server,
};

/// Services of Parlor.
pub const PARLOR_SERVICES: &[&str] = &[
    user_status_service_server::SERVICE_NAME,
    chat_service_server::SERVICE_NAME,
    session_service_server::SERVICE_NAME,
    limit_service_server::SERVICE_NAME,
];

/// Operation of each method.
#[rustfmt::skip]
pub const METHOD_OPERATIONS: &[(&str, &str)] = &[
    ("parlor.v1.UserStatusService/SetUserStatus", SetPresence::INFO.name),
    ("parlor.v1.UserStatusService/GetUserStatus", GetPresence::INFO.name),
    ("parlor.v1.UserStatusService/GetMultipleUserStatus", QueryPresence::INFO.name),
    ("parlor.v1.UserStatusService/SendHeartbeat", Heartbeat::INFO.name),
    ("parlor.v1.UserStatusService/SubscribeStatusUpdates", WatchPresence::INFO.name),
    ("parlor.v1.ChatService/SendMessage", SendMessage::INFO.name),
    ("parlor.v1.ChatService/ListMessages", ListMessages::INFO.name),
    ("parlor.v1.ChatService/MarkRead", MarkRead::INFO.name),
    ("parlor.v1.ChatService/GetUnread", GetUnread::INFO.name),
    ("parlor.v1.ChatService/IsMember", IsMember::INFO.name),
    ("parlor.v1.SessionService/Validate", ValidateSession::INFO.name),
    ("parlor.v1.LimitService/Check", CheckLimit::INFO.name),
];

const SESSIONS: &str = "sessions are managed over HTTP";
const DEVICES: &str = "devices are managed over HTTP, by their user and by admins";
const CONVERSATIONS: &str = "conversations are managed over HTTP";
const APPS: &str = "for chat apps, over Socket.IO and HTTP";

/// Operations that gRPC does not offer, with the reason.
pub const OPERATIONS_WITHOUT_METHOD: &[(&str, &str)] = &[
    (BeginSession::INFO.name, SESSIONS),
    (BeginVisitorSession::INFO.name, SESSIONS),
    (GetSession::INFO.name, SESSIONS),
    (EndSession::INFO.name, SESSIONS),
    (GetUserSession::INFO.name, SESSIONS),
    (UpdateUserSession::INFO.name, SESSIONS),
    (EndUserSession::INFO.name, SESSIONS),
    (ListDevices::INFO.name, DEVICES),
    (RemoveDevice::INFO.name, DEVICES),
    (
        CountPresence::INFO.name,
        "a metric for dashboards, over HTTP",
    ),
    (CreateConversation::INFO.name, CONVERSATIONS),
    (ListConversations::INFO.name, CONVERSATIONS),
    (GetConversation::INFO.name, CONVERSATIONS),
    (UpdateConversation::INFO.name, CONVERSATIONS),
    (DeleteConversation::INFO.name, CONVERSATIONS),
    (JoinConversation::INFO.name, CONVERSATIONS),
    (LeaveConversation::INFO.name, CONVERSATIONS),
    (ListMembers::INFO.name, CONVERSATIONS),
    (GetMember::INFO.name, CONVERSATIONS),
    (PutMember::INFO.name, CONVERSATIONS),
    (RemoveMember::INFO.name, CONVERSATIONS),
    (GetMessage::INFO.name, APPS),
    (EditMessage::INFO.name, APPS),
    (DeleteMessage::INFO.name, APPS),
    (
        CatchUpConversation::INFO.name,
        "for clients with live events, over Socket.IO",
    ),
    (ListTyping::INFO.name, APPS),
    (SetTyping::INFO.name, APPS),
    (MarkUnread::INFO.name, APPS),
    (MarkDelivered::INFO.name, APPS),
    (ListReceipts::INFO.name, APPS),
];
