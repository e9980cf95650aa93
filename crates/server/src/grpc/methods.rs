//! Method table: the operation of each gRPC method.
//!
//! Invariants:
//! 1. Every operation is in [`METHOD_OPERATIONS`], unless its capability states why this interface does not offer it
//!    ([`OPERATION_GROUPS`](parlor_chat::api::operation::OPERATION_GROUPS)).

use parlor_chat::api::operation::{Operation, OperationInfo};
use parlor_chat::conversations::IsMember;
use parlor_chat::limits::CheckLimit;
use parlor_chat::messages::{ListMessages, SendMessage};
use parlor_chat::presence::{GetPresence, Heartbeat, QueryPresence, SetPresence, WatchPresence};
use parlor_chat::sessions::ValidateSession;
use parlor_chat::unread::{GetUnread, MarkRead};

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
