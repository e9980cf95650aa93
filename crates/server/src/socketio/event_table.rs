//! Tables of the Socket.IO events: client events with their operations, and server events.
//!
//! Invariants:
//! 1. Every operation of [`ALL_OPERATIONS`](parlor_chat::api::operation::ALL_OPERATIONS) is in [`CLIENT_EVENTS`], or in
//!    [`OPERATIONS_WITHOUT_EVENT`] with the reason.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::{Operation, OperationInfo};
use parlor_chat::conversations::{
    Conversation, CreateConversation, DeleteConversation, GetConversation, GetMember, IsMember,
    JoinConversation, LeaveConversation, ListConversations, ListMembers, PutMember, RemoveMember,
    UpdateConversation,
};
use parlor_chat::limits::CheckLimit;
use parlor_chat::messages::{
    CatchUpConversation, DeleteMessage, EditMessage, GetMessage, JoinReply, ListMessages, Message,
    MessageList, SendMessage,
};
use parlor_chat::presence::{
    CountPresence, GetPresence, Heartbeat, HeartbeatReply, ListDevices, QueryPresence,
    RemoveDevice, SetPresence, UserStatusList, WatchPresence,
};
use parlor_chat::sessions::{
    BeginSession, BeginVisitorSession, EndSession, EndUserSession, GetSession, GetUserSession,
    UpdateUserSession, ValidateSession,
};
use parlor_chat::typing::{ListTyping, SetTyping, TypingChange};
use parlor_chat::unread::{
    GetUnread, ListReceipts, MarkDelivered, MarkRead, MarkUnread, UnreadCount,
};
use utoipa::ToSchema;

use super::bodies::{
    ConnectErrorBody, ConversationRef, ConversationResumed, EmptyObject, ErrorAck, Handshake,
    MemberUpdate, MessageReply, ReceiptUpdate, RefreshSession, SessionClosed, SetPresenceStatus,
    TypingRequest, UnreadUpdate,
};
use super::dispatch::{EventHandler, run_rate_limited, run_unlimited};
use super::type_schema::TypeSchema;
use super::{event_handlers, join, presence_watch};
use crate::NotOffered;

/// Event that clients send.
pub struct ClientEvent {
    /// Name of the event.
    pub name: &'static str,
    /// Summary for the references, one line without a full stop.
    pub summary: &'static str,
    /// Operation of [`ALL_OPERATIONS`](parlor_chat::api::operation::ALL_OPERATIONS) that the event offers, if any.
    pub operation: Option<OperationInfo>,
    /// Error codes besides those that any event can return.
    pub error_codes: &'static [ErrorCode],
    /// Schema of the body, one JSON object.
    pub body_schema: fn() -> TypeSchema,
    /// Schema of the acknowledgement, without `ok: true`.
    pub reply_schema: fn() -> TypeSchema,
    pub(super) handler: EventHandler,
}

/// Event that the server sends.
pub struct ServerEvent {
    /// Name of the event.
    pub name: &'static str,
    /// Summary for the references, one line without a full stop.
    pub summary: &'static str,
    /// Schema of the body, one JSON object.
    pub body_schema: fn() -> TypeSchema,
}

/// Schema of the handshake's `auth`.
pub fn handshake_schema() -> TypeSchema {
    TypeSchema::of::<Handshake>()
}

/// Schema of `connect_error`.
pub fn connect_error_schema() -> TypeSchema {
    TypeSchema::of::<ConnectErrorBody>()
}

/// Schema of the acknowledgement of a rejected event.
pub fn error_ack_schema() -> TypeSchema {
    TypeSchema::of::<ErrorAck>()
}

const JOIN_ERROR_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidId,
    ErrorCode::UserRequired,
    ErrorCode::NotAMember,
    ErrorCode::TooMany,
];

/// All client events, in the order of the references.
#[rustfmt::skip]
pub static CLIENT_EVENTS: &[ClientEvent] = &[
    client_event::<EmptyObject, HeartbeatReply>("heartbeat", event_handlers::heartbeat, "Reports that the device is still connected", &[]).offers(Heartbeat::INFO),
    operation_event::<SendMessage, MessageReply>("message:send", run_unlimited::<SendMessage, MessageReply>),
    client_event::<SetPresenceStatus, EmptyObject>("presence:set", run_rate_limited::<SetPresenceStatus, EmptyObject>, "Sets the status of the user", &[]).offers(SetPresence::INFO),
    client_event::<WatchPresence, UserStatusList>("presence:watch", presence_watch::watch, "Watches users: replies with their status and sends every change", WatchPresence::INFO.codes).offers(WatchPresence::INFO),
    client_event::<WatchPresence, UserStatusList>("presence:unwatch", presence_watch::unwatch, "Stops watching users: replies with their current status", WatchPresence::INFO.codes),
    client_event::<CatchUpConversation, JoinReply>("conversation:join", join::join_conversation, "Joins a conversation: replies with what the client missed and sends live events", JOIN_ERROR_CODES).offers(CatchUpConversation::INFO),
    client_event::<ConversationRef, EmptyObject>("conversation:leave", event_handlers::leave_conversation, "Stops the live events of a conversation for this socket", &[ErrorCode::InvalidId]),
    operation_event::<EditMessage, MessageReply>("message:edit", run_rate_limited::<EditMessage, MessageReply>),
    operation_event::<DeleteMessage, MessageReply>("message:delete", run_rate_limited::<DeleteMessage, MessageReply>),
    operation_event::<MarkDelivered, UnreadCount>("message:delivered", run_rate_limited::<MarkDelivered, UnreadCount>),
    operation_event::<MarkRead, UnreadCount>("message:read", run_rate_limited::<MarkRead, UnreadCount>),
    operation_event::<MarkUnread, UnreadCount>("message:unread", run_rate_limited::<MarkUnread, UnreadCount>),
    client_event::<RefreshSession, EmptyObject>("session:refresh", event_handlers::refresh_session, "Replaces the token by another one of the same user, before it expires", &[ErrorCode::Forbidden]),
    client_event::<TypingRequest, EmptyObject>("typing:start", event_handlers::typing_start, "Reports that the user is typing in a conversation; repeat it while the user types", SetTyping::INFO.codes).offers(SetTyping::INFO),
    client_event::<TypingRequest, EmptyObject>("typing:stop", event_handlers::typing_stop, "Reports that the user stopped typing in a conversation", SetTyping::INFO.codes).offers(SetTyping::INFO),
    operation_event::<ListMessages, MessageList>("history", run_rate_limited::<ListMessages, MessageList>),
];

/// All server events, in the order of the references.
#[rustfmt::skip]
pub static SERVER_EVENTS: &[ServerEvent] = &[
    server_event::<Message>("message:new", "A message was sent in a joined conversation, by any client including this one"),
    server_event::<Message>("message:edited", "A message was edited; ignore it if its `rev` is lower than one you already have"),
    server_event::<Message>("message:deleted", "A message was deleted; its `seq` stays, its content is removed"),
    server_event::<ReceiptUpdate>("message:delivered", "The messages of a conversation were delivered to a member up to a `seq`"),
    server_event::<ReceiptUpdate>("message:read", "A member has read the messages of a conversation up to a `seq`"),
    server_event::<TypingChange>("typing", "Another user started or stopped typing in a joined conversation"),
    server_event::<UserStatusList>("presence", "The status of watched users changed; the latest status of each, at most ten times per second"),
    server_event::<UnreadUpdate>("unread", "The unread count of a conversation changed; sent to all sockets of the user"),
    server_event::<ConversationRef>("conversation:added", "The user became a member of a conversation; sent to all sockets of the user"),
    server_event::<ConversationRef>("conversation:removed", "The user is no longer a member of a conversation, or it was deleted; its live events have ended"),
    server_event::<Conversation>("conversation:updated", "Title, `open`, `history` or priority of a conversation changed; sent to all sockets of its members, above `unread.fanout_limit` members only to sockets that joined it"),
    server_event::<MemberUpdate>("member:added", "A user became a member of a joined conversation"),
    server_event::<MemberUpdate>("member:updated", "A member of a joined conversation got another role"),
    server_event::<MemberUpdate>("member:removed", "A user is no longer a member of a joined conversation"),
    server_event::<ConversationResumed>("conversation:resumed", "A conversation of the handshake's `resume` is joined and its missed events were sent; live events follow"),
    server_event::<SessionClosed>("session:closed", "The server closes the connection right after this event"),
];

/// Operations that Socket.IO does not offer, with the reason.
#[rustfmt::skip]
pub static OPERATIONS_WITHOUT_EVENT: &[NotOffered] = &[
    (&[BeginSession::INFO, BeginVisitorSession::INFO, GetSession::INFO, EndSession::INFO, GetUserSession::INFO, UpdateUserSession::INFO, EndUserSession::INFO], "sessions are managed over HTTP; a Socket.IO connection begins a session by itself"),
    (&[ValidateSession::INFO, IsMember::INFO, CheckLimit::INFO], "for services, over HTTP and gRPC"),
    (&[GetPresence::INFO, QueryPresence::INFO], "`presence:watch` returns it and sends every change"),
    (&[ListDevices::INFO, RemoveDevice::INFO], "devices are managed over HTTP, by their user and by admins"),
    (&[CountPresence::INFO], "a metric for dashboards, over HTTP"),
    (&[CreateConversation::INFO, ListConversations::INFO, GetConversation::INFO, UpdateConversation::INFO, DeleteConversation::INFO, ListMembers::INFO, GetMember::INFO, PutMember::INFO, RemoveMember::INFO], "conversations are managed over HTTP"),
    (&[JoinConversation::INFO], "membership changes over HTTP; `conversation:join` starts the live events for a member"),
    (&[LeaveConversation::INFO], "membership changes over HTTP; `conversation:leave` stops the live events for a member"),
    (&[GetMessage::INFO], "`history` returns it"),
    (&[ListTyping::INFO], "`conversation:join` returns it, and `typing` reports every change"),
    (&[ListReceipts::INFO], "read once over HTTP when a conversation is opened; events then report every change"),
    (&[GetUnread::INFO], "read once over HTTP when an app is opened; `unread` then reports every change"),
];

const fn client_event<B: ToSchema, R: ToSchema>(
    name: &'static str,
    handler: EventHandler,
    summary: &'static str,
    error_codes: &'static [ErrorCode],
) -> ClientEvent {
    ClientEvent {
        name,
        summary,
        operation: None,
        error_codes,
        body_schema: TypeSchema::of::<B>,
        reply_schema: TypeSchema::of::<R>,
        handler,
    }
}

/// Event that runs an operation unchanged.
const fn operation_event<O: Operation + ToSchema, R: ToSchema>(
    name: &'static str,
    handler: EventHandler,
) -> ClientEvent {
    client_event::<O, R>(name, handler, O::INFO.summary, O::INFO.codes).offers(O::INFO)
}

impl ClientEvent {
    /// The event offers this operation, perhaps in another form.
    const fn offers(self, info: OperationInfo) -> Self {
        Self {
            operation: Some(info),
            ..self
        }
    }
}

const fn server_event<B: ToSchema>(name: &'static str, summary: &'static str) -> ServerEvent {
    ServerEvent {
        name,
        summary,
        body_schema: TypeSchema::of::<B>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_a_unique_name_and_a_summary() {
        let mut names: Vec<&str> = CLIENT_EVENTS.iter().map(|it| it.name).collect();
        assert!(CLIENT_EVENTS.iter().all(|it| !it.summary.is_empty()));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
