//! Table of the events that clients send, with their operations.
//!
//! Invariants:
//! 1. Every operation is in [`CLIENT_EVENTS`], unless its capability states why this interface does not offer it
//!    ([`OPERATION_GROUPS`](parlor_chat::api::operation::OPERATION_GROUPS)).

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::{Operation, OperationInfo};
use parlor_chat::messages::{
    CatchUpConversation, DeleteMessage, EditMessage, JoinReply, ListMessages, MessageList,
    SendMessage,
};
use parlor_chat::presence::{
    Heartbeat, HeartbeatReply, SetPresence, UserStatusList, WatchPresence,
};
use parlor_chat::typing::SetTyping;
use parlor_chat::unread::{MarkDelivered, MarkRead, MarkUnread, UnreadCount};
use utoipa::ToSchema;

use super::bodies::{
    ConnectErrorBody, ConversationRef, EmptyObject, ErrorAck, Handshake, MessageReply,
    RefreshSession, SetPresenceStatus, TypingRequest,
};
use super::dispatch::{EventHandler, run_rate_limited, run_unlimited};
use super::type_schema::TypeSchema;
use super::{event_handlers, join, presence_watch};

/// Event that clients send.
pub struct ClientEvent {
    /// Name of the event.
    pub name: &'static str,
    /// Summary for the references, one line without a full stop.
    pub summary: &'static str,
    /// Operation that the event offers, if any.
    pub operation: Option<OperationInfo>,
    /// Error codes besides those that any event can return.
    pub error_codes: &'static [ErrorCode],
    /// Schema of the body, one JSON object.
    pub body_schema: fn() -> TypeSchema,
    /// Schema of the acknowledgement, without `ok: true`.
    pub reply_schema: fn() -> TypeSchema,
    pub(super) handler: EventHandler,
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
