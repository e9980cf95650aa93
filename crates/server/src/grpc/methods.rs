//! Method table: the operation of each gRPC method.
//!
//! Invariants:
//! 1. Every operation of [`ALL_OPERATIONS`](parlor_chat::api::operation::ALL_OPERATIONS) is in [`METHOD_OPERATIONS`], or in
//!    [`OPERATIONS_WITHOUT_METHOD`] with the reason.

use parlor_chat::api::operation::{Operation, OperationInfo};
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
use crate::NotOffered;

/// Services of Parlor.
pub const PARLOR_SERVICES: &[&str] = &[
    user_status_service_server::SERVICE_NAME,
    chat_service_server::SERVICE_NAME,
    session_service_server::SERVICE_NAME,
    limit_service_server::SERVICE_NAME,
];

/// Operation of each method.
#[rustfmt::skip]
pub const METHOD_OPERATIONS: &[(&str, OperationInfo)] = &[
    ("parlor.v1.UserStatusService/SetUserStatus", SetPresence::INFO),
    ("parlor.v1.UserStatusService/GetUserStatus", GetPresence::INFO),
    ("parlor.v1.UserStatusService/GetMultipleUserStatus", QueryPresence::INFO),
    ("parlor.v1.UserStatusService/SendHeartbeat", Heartbeat::INFO),
    ("parlor.v1.UserStatusService/SubscribeStatusUpdates", WatchPresence::INFO),
    ("parlor.v1.ChatService/SendMessage", SendMessage::INFO),
    ("parlor.v1.ChatService/ListMessages", ListMessages::INFO),
    ("parlor.v1.ChatService/MarkRead", MarkRead::INFO),
    ("parlor.v1.ChatService/GetUnread", GetUnread::INFO),
    ("parlor.v1.ChatService/IsMember", IsMember::INFO),
    ("parlor.v1.SessionService/Validate", ValidateSession::INFO),
    ("parlor.v1.LimitService/Check", CheckLimit::INFO),
];

/// Operations that gRPC does not offer, with the reason.
#[rustfmt::skip]
pub const OPERATIONS_WITHOUT_METHOD: &[NotOffered] = &[
    (&[BeginSession::INFO, BeginVisitorSession::INFO, GetSession::INFO, EndSession::INFO, GetUserSession::INFO, UpdateUserSession::INFO, EndUserSession::INFO], "sessions are managed over HTTP"),
    (&[ListDevices::INFO, RemoveDevice::INFO], "devices are managed over HTTP, by their user and by admins"),
    (&[CountPresence::INFO], "a metric for dashboards, over HTTP"),
    (&[CreateConversation::INFO, ListConversations::INFO, GetConversation::INFO, UpdateConversation::INFO, DeleteConversation::INFO, JoinConversation::INFO, LeaveConversation::INFO, ListMembers::INFO, GetMember::INFO, PutMember::INFO, RemoveMember::INFO], "conversations are managed over HTTP"),
    (&[GetMessage::INFO, EditMessage::INFO, DeleteMessage::INFO, ListTyping::INFO, SetTyping::INFO, MarkUnread::INFO, MarkDelivered::INFO, ListReceipts::INFO], "for chat apps, over Socket.IO and HTTP"),
    (&[CatchUpConversation::INFO], "for clients with live events, over Socket.IO"),
];
