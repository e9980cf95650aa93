//! Events that the server sends, one type each.
//!
//! Invariants:
//! 1. An event is sent only through its type, so its name and body cannot differ from the references.
//! 2. [`SERVER_EVENTS`] lists every type. The event reference, the AsyncAPI document and the TypeScript types are
//!    generated from it.

use parlor_chat::conversations::Conversation;
use parlor_chat::messages::Message;
use parlor_chat::presence::UserStatusList;
use parlor_chat::typing::TypingChange;
use parlor_socketio::EncodedEvent;
use serde::Serialize;
use utoipa::ToSchema;

use super::bodies::{
    ConversationRef, ConversationResumed, MemberUpdate, ReceiptUpdate, SessionClosed, UnreadUpdate,
};
use super::type_schema::TypeSchema;
use super::{SocketIoGateway, encode_json};

/// Event that the server sends.
pub trait ServerEvent {
    /// Name on the wire.
    const NAME: &'static str;
    /// Summary for the references, one line without a full stop.
    const SUMMARY: &'static str;
    /// True if replay buffers keep the event for connection state recovery.
    const IS_RECOVERABLE: bool;
    /// The body, one JSON object.
    type Body: Serialize + ToSchema;
}

/// Description of a [`ServerEvent`] for the references.
pub struct ServerEventInfo {
    /// Name on the wire.
    pub name: &'static str,
    /// Summary, one line without a full stop.
    pub summary: &'static str,
    /// Schema of the body.
    pub body_schema: fn() -> TypeSchema,
}

impl ServerEventInfo {
    const fn of<E: ServerEvent>() -> Self {
        Self {
            name: E::NAME,
            summary: E::SUMMARY,
            body_schema: TypeSchema::of::<E::Body>,
        }
    }
}

/// Declares events as `Type = "name": Body, "summary"`. `#[not_recoverable]` marks an event that is useless after
/// a reconnect.
macro_rules! server_events {
    (@is_recoverable) => { true };
    (@is_recoverable not_recoverable) => { false };
    ($($(#[$marker:ident])? $event:ident = $name:literal: $body:ty, $summary:literal;)+) => {
        $(
            #[doc = $summary]
            pub struct $event;

            impl ServerEvent for $event {
                const NAME: &'static str = $name;
                const SUMMARY: &'static str = $summary;
                const IS_RECOVERABLE: bool = server_events!(@is_recoverable $($marker)?);
                type Body = $body;
            }
        )+

        /// All server events, in the order of the references.
        pub static SERVER_EVENTS: &[ServerEventInfo] = &[$(ServerEventInfo::of::<$event>(),)+];
    };
}

server_events! {
    MessageNewEvent = "message:new": Message,
        "A message was sent in a joined conversation, by any client including this one";
    MessageEditedEvent = "message:edited": Message,
        "A message was edited; ignore it if its `rev` is lower than one you already have";
    MessageDeletedEvent = "message:deleted": Message,
        "A message was deleted; its `seq` stays, its content is removed";
    MessageDeliveredEvent = "message:delivered": ReceiptUpdate,
        "The messages of a conversation were delivered to a member up to a `seq`";
    MessageReadEvent = "message:read": ReceiptUpdate,
        "A member has read the messages of a conversation up to a `seq`";
    #[not_recoverable]
    TypingEvent = "typing": TypingChange,
        "Another user started or stopped typing in a joined conversation";
    PresenceEvent = "presence": UserStatusList,
        "The status of watched users changed; the latest status of each, at most ten times per second";
    UnreadEvent = "unread": UnreadUpdate,
        "The unread count of a conversation changed; sent to all sockets of the user";
    ConversationAddedEvent = "conversation:added": ConversationRef,
        "The user became a member of a conversation; sent to all sockets of the user";
    ConversationRemovedEvent = "conversation:removed": ConversationRef,
        "The user is no longer a member of a conversation, or it was deleted; its live events have ended";
    ConversationUpdatedEvent = "conversation:updated": Conversation,
        "Title, `open`, `history` or priority of a conversation changed; sent to all sockets of its members, above `unread.fanout_limit` members only to sockets that joined it";
    MemberAddedEvent = "member:added": MemberUpdate,
        "A user became a member of a joined conversation";
    MemberUpdatedEvent = "member:updated": MemberUpdate,
        "A member of a joined conversation got another role";
    MemberRemovedEvent = "member:removed": MemberUpdate,
        "A user is no longer a member of a joined conversation";
    ConversationResumedEvent = "conversation:resumed": ConversationResumed,
        "A conversation of the handshake's `resume` is joined and its missed events were sent; live events follow";
    #[not_recoverable]
    SessionClosedEvent = "session:closed": SessionClosed,
        "The server closes the connection right after this event";
}

impl SocketIoGateway {
    /// Encodes an event for any number of sockets.
    pub(super) fn encode<E: ServerEvent>(&self, body: &E::Body) -> EncodedEvent {
        self.encode_body::<E>(&encode_json(body))
    }

    /// Encodes an event whose body is already JSON, as it was stored or received from the bus.
    pub(super) fn encode_body<E: ServerEvent>(&self, json: &[u8]) -> EncodedEvent {
        match self.socketio_server() {
            Some(server) if E::IS_RECOVERABLE => server.encode_recoverable_event(E::NAME, json),
            _ => EncodedEvent::new(E::NAME, json),
        }
    }

    /// Encodes `conversation:removed`.
    pub(super) fn encode_removed_event(&self, conversation: &str) -> EncodedEvent {
        self.encode::<ConversationRemovedEvent>(&ConversationRef {
            conversation_id: conversation.to_owned(),
        })
    }
}
