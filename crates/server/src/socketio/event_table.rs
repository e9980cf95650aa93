//! Tables of the Socket.IO events: client events with their operations, and server events.
//!
//! Invariants:
//! 1. Every operation of [`ALL_OPERATIONS`](parlor_chat::api::operation::ALL_OPERATIONS) is in [`CLIENT_EVENTS`], or in
//!    [`OPERATIONS_WITHOUT_EVENT`] with the reason.

use parlor_chat::api::error_code::Code;
use parlor_chat::api::operation::{Operation, OperationInfo};
use parlor_chat::conversations::{
    CreateConversation, DeleteConversation, GetConversation, GetMember, IsMember, JoinConversation,
    LeaveConversation, ListConversations, ListMembers, PutMember, RemoveMember, UpdateConversation,
};
use parlor_chat::limits::CheckLimit;
use parlor_chat::messages::{
    CatchUpConversation, DeleteMessage, EditMessage, GetMessage, JoinReply, ListMessages, Message,
    MessageList, SendMessage,
};
use parlor_chat::presence::{
    CountPresence, GetPresence, Heartbeat, HeartbeatReply, ListDevices, QueryPresence,
    RemoveDevice, SetPresence, WatchPresence,
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
    ConnectRefused, Conversation, ConversationResumed, Handshake, Nothing, OneMessage, Reached,
    Refresh, Refused, Seen, SessionClosed, SetStatus, TypingIn, UnreadNews, Watched,
};
use super::dispatch::{EventHandler, counted, run_unlimited};
use super::type_schema::TypeSchema;
use super::{event_handlers, join, presence_watch};

/// Event that clients send.
pub struct ClientEvent {
    /// Name of the event.
    pub name: &'static str,
    /// Summary for the references, one line without a full stop.
    pub summary: &'static str,
    /// Operation of [`ALL_OPERATIONS`](parlor_chat::api::operation::ALL_OPERATIONS) that the event offers, if any.
    pub operation: Option<OperationInfo>,
    /// Error codes besides those that any event can return.
    pub error_codes: &'static [Code],
    /// Schema of the body, one JSON object.
    pub body: fn() -> TypeSchema,
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
    pub body: fn() -> TypeSchema,
}

/// Schema of the handshake's `auth`.
pub fn handshake_schema() -> TypeSchema {
    TypeSchema::of::<Handshake>()
}

/// Schema of `connect_error`.
pub fn connect_error_schema() -> TypeSchema {
    TypeSchema::of::<ConnectRefused>()
}

/// Schema of the acknowledgement of a rejected event.
pub fn refused() -> TypeSchema {
    TypeSchema::of::<Refused>()
}

const JOIN: &[Code] = &[
    Code::InvalidId,
    Code::UserRequired,
    Code::NotAMember,
    Code::TooMany,
];

/// All client events, in the order of the references.
pub static CLIENT_EVENTS: &[ClientEvent] = &[
    client_event::<Nothing, HeartbeatReply>("heartbeat", event_handlers::heartbeat)
        .summary("Reports that the device is still connected")
        .same_as_operation(Heartbeat::INFO, &[]),
    client_event::<SendMessage, OneMessage>(
        "message:send",
        run_unlimited::<SendMessage, OneMessage>,
    )
    .runs_operation(SendMessage::INFO),
    client_event::<SetStatus, Nothing>("presence:set", counted::<SetStatus, Nothing>)
        .summary("Sets the status of the user")
        .same_as_operation(SetPresence::INFO, &[]),
    client_event::<Watched, Seen>("presence:watch", presence_watch::watch)
        .summary("Watches users: replies with their status and sends every change")
        .same_as_operation(WatchPresence::INFO, WatchPresence::INFO.codes),
    client_event::<Watched, Seen>("presence:unwatch", presence_watch::unwatch)
        .summary("Stops watching users: replies with their current status")
        .error_codes(WatchPresence::INFO.codes),
    client_event::<CatchUpConversation, JoinReply>("conversation:join", join::join_conversation)
        .summary("Joins a conversation: replies with what the client missed and sends live events")
        .same_as_operation(CatchUpConversation::INFO, JOIN),
    client_event::<Conversation, Nothing>("conversation:leave", event_handlers::leave_conversation)
        .summary("Stops the live events of a conversation for this socket")
        .error_codes(&[Code::InvalidId]),
    client_event::<EditMessage, OneMessage>("message:edit", counted::<EditMessage, OneMessage>)
        .runs_operation(EditMessage::INFO),
    client_event::<DeleteMessage, OneMessage>(
        "message:delete",
        counted::<DeleteMessage, OneMessage>,
    )
    .runs_operation(DeleteMessage::INFO),
    client_event::<MarkDelivered, UnreadCount>(
        "message:delivered",
        counted::<MarkDelivered, UnreadCount>,
    )
    .runs_operation(MarkDelivered::INFO),
    client_event::<MarkRead, UnreadCount>("message:read", counted::<MarkRead, UnreadCount>)
        .runs_operation(MarkRead::INFO),
    client_event::<MarkUnread, UnreadCount>("message:unread", counted::<MarkUnread, UnreadCount>)
        .runs_operation(MarkUnread::INFO),
    client_event::<Refresh, Nothing>("session:refresh", event_handlers::refresh_session)
        .summary("Replaces the token by another one of the same user, before it expires")
        .error_codes(&[Code::Forbidden]),
    client_event::<TypingIn, Nothing>("typing:start", event_handlers::typing_start)
        .summary(
            "Reports that the user is typing in a conversation; repeat it while the user types",
        )
        .same_as_operation(SetTyping::INFO, SetTyping::INFO.codes),
    client_event::<TypingIn, Nothing>("typing:stop", event_handlers::typing_stop)
        .summary("Reports that the user stopped typing in a conversation")
        .same_as_operation(SetTyping::INFO, SetTyping::INFO.codes),
    client_event::<ListMessages, MessageList>("history", counted::<ListMessages, MessageList>)
        .runs_operation(ListMessages::INFO),
];

/// All server events, in the order of the references.
pub static SERVER_EVENTS: &[ServerEvent] = &[
    server_event::<Message>(
        "message:new",
        "A message was sent in a joined conversation, by any client including this one",
    ),
    server_event::<Message>(
        "message:edited",
        "A message was edited; ignore it if its `rev` is lower than one you already have",
    ),
    server_event::<Message>(
        "message:deleted",
        "A message was deleted; its `seq` stays, its content is removed",
    ),
    server_event::<Reached>(
        "message:delivered",
        "The messages of a conversation were delivered to a member up to a `seq`",
    ),
    server_event::<Reached>(
        "message:read",
        "A member has read the messages of a conversation up to a `seq`",
    ),
    server_event::<TypingChange>(
        "typing",
        "Another user started or stopped typing in a joined conversation",
    ),
    server_event::<Seen>(
        "presence",
        "The status of watched users changed; the latest status of each, at most ten times per second",
    ),
    server_event::<UnreadNews>(
        "unread",
        "The unread count of a conversation changed; sent to all sockets of the user",
    ),
    server_event::<Conversation>(
        "conversation:added",
        "The user became a member of a conversation; sent to all sockets of the user",
    ),
    server_event::<Conversation>(
        "conversation:removed",
        "The user is no longer a member of a conversation, or it was deleted; its live events have ended",
    ),
    server_event::<ConversationResumed>(
        "conversation:resumed",
        "A conversation of the handshake's `resume` is joined and its missed events were sent; live events follow",
    ),
    server_event::<SessionClosed>(
        "session:closed",
        "The server closes the connection right after this event",
    ),
];

const SESSIONS: &str =
    "sessions are managed over HTTP; a Socket.IO connection begins a session by itself";
const DEVICES: &str = "devices are managed over HTTP, by their user and by admins";
const CONVERSATIONS: &str = "conversations are managed over HTTP";
const SERVICES: &str = "for services, over HTTP and gRPC";

/// Operations that Socket.IO does not offer, with the reason.
pub static OPERATIONS_WITHOUT_EVENT: &[(OperationInfo, &str)] = &[
    (BeginSession::INFO, SESSIONS),
    (BeginVisitorSession::INFO, SESSIONS),
    (GetSession::INFO, SESSIONS),
    (EndSession::INFO, SESSIONS),
    (GetUserSession::INFO, SESSIONS),
    (UpdateUserSession::INFO, SESSIONS),
    (EndUserSession::INFO, SESSIONS),
    (ValidateSession::INFO, SERVICES),
    (
        GetPresence::INFO,
        "`presence:watch` returns it and sends every change",
    ),
    (ListDevices::INFO, DEVICES),
    (RemoveDevice::INFO, DEVICES),
    (
        QueryPresence::INFO,
        "`presence:watch` returns it and sends every change",
    ),
    (CountPresence::INFO, "a metric for dashboards, over HTTP"),
    (CreateConversation::INFO, CONVERSATIONS),
    (ListConversations::INFO, CONVERSATIONS),
    (GetConversation::INFO, CONVERSATIONS),
    (UpdateConversation::INFO, CONVERSATIONS),
    (DeleteConversation::INFO, CONVERSATIONS),
    (
        JoinConversation::INFO,
        "membership changes over HTTP; `conversation:join` starts the live events for a member",
    ),
    (
        LeaveConversation::INFO,
        "membership changes over HTTP; `conversation:leave` stops the live events for a member",
    ),
    (ListMembers::INFO, CONVERSATIONS),
    (GetMember::INFO, CONVERSATIONS),
    (PutMember::INFO, CONVERSATIONS),
    (RemoveMember::INFO, CONVERSATIONS),
    (IsMember::INFO, SERVICES),
    (GetMessage::INFO, "`history` returns it"),
    (
        ListTyping::INFO,
        "`conversation:join` returns it, and `typing` reports every change",
    ),
    (
        ListReceipts::INFO,
        "read once over HTTP when a conversation is opened; events then report every change",
    ),
    (
        GetUnread::INFO,
        "read once over HTTP when an app is opened; `unread` then reports every change",
    ),
    (CheckLimit::INFO, SERVICES),
];

const fn client_event<B: ToSchema, R: ToSchema>(
    name: &'static str,
    take: EventHandler,
) -> ClientEvent {
    ClientEvent {
        name,
        summary: "",
        operation: None,
        error_codes: &[],
        body: TypeSchema::of::<B>,
        reply_schema: TypeSchema::of::<R>,
        handler: take,
    }
}

impl ClientEvent {
    const fn summary(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    const fn error_codes(self, codes: &'static [Code]) -> Self {
        Self {
            error_codes: codes,
            ..self
        }
    }

    /// The event offers this operation in another form, with these error codes.
    const fn same_as_operation(self, info: OperationInfo, codes: &'static [Code]) -> Self {
        Self {
            operation: Some(info),
            error_codes: codes,
            ..self
        }
    }

    /// The event runs this operation unchanged.
    const fn runs_operation(self, info: OperationInfo) -> Self {
        self.summary(info.summary)
            .same_as_operation(info, info.codes)
    }
}

const fn server_event<B: ToSchema>(name: &'static str, summary: &'static str) -> ServerEvent {
    ServerEvent {
        name,
        summary,
        body: TypeSchema::of::<B>,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use parlor_chat::api::operation::ALL_OPERATIONS;
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_operation_has_an_event_or_a_reason() {
        for info in ALL_OPERATIONS {
            let event = CLIENT_EVENTS.iter().any(|it| it.operation == Some(*info));
            let reason = OPERATIONS_WITHOUT_EVENT.iter().any(|(it, _)| it == info);
            assert!(event != reason, "{}", info.name);
        }
    }

    #[test]
    fn every_event_has_a_name_of_its_own_and_says_what_it_does() {
        let mut names: Vec<&str> = CLIENT_EVENTS.iter().map(|it| it.name).collect();
        assert!(CLIENT_EVENTS.iter().all(|it| !it.summary.is_empty()));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn two_types_of_one_name_are_one_type() {
        let mut seen: BTreeMap<String, Value> = BTreeMap::new();
        let events = CLIENT_EVENTS
            .iter()
            .flat_map(|it| [it.body, it.reply_schema]);
        let news = SERVER_EVENTS.iter().map(|it| it.body);
        for described in events.chain(news).map(|described| described()) {
            let own = (described.name.into_owned(), described.schema);
            for (name, schema) in described.components.into_iter().chain([own]) {
                let schema = serde_json::to_value(&schema).unwrap();
                let first = seen.entry(name.clone()).or_insert_with(|| schema.clone());
                assert_eq!(*first, schema, "{name}");
            }
        }
    }
}
