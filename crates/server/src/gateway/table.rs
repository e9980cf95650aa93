//! The Socket.IO tables: which event of a client leads to which operation, and what the server tells.
//!
//! Always true: every operation of [`operation::ALL`](parlor_chat::operation::ALL) stands in [`EVENTS`], or in [`ELSEWHERE`]
//! with the reason.

use parlor_chat::code::Code;
use parlor_chat::conversations::{
    CreateConversation, DeleteConversation, GetConversation, GetMember, IsMember, JoinConversation,
    LeaveConversation, ListConversations, ListMembers, PutMember, RemoveMember, UpdateConversation,
};
use parlor_chat::limits::CheckLimit;
use parlor_chat::messages::{
    CatchUp, DeleteMessage, EditMessage, GetMessage, ListMessages, Message, MessageList, Resumed,
    SendMessage,
};
use parlor_chat::operation::{Info, Operation};
use parlor_chat::presence::{
    CountPresence, GetPresence, Heartbeat, ListDevices, NextHeartbeat, QueryPresence, RemoveDevice,
    SetPresence, WatchPresence,
};
use parlor_chat::sessions::{
    BeginSession, BeginVisit, ChangeSession, EndOtherSession, EndSession, GetOtherSession,
    GetSession, ValidateSession,
};
use parlor_chat::typing::{ListTyping, SetTyping, TypingChange};
use parlor_chat::unread::{Badge, GetUnread, ListReceipts, MarkDelivered, MarkRead, MarkUnread};
use utoipa::ToSchema;

use super::call::{Take, counted, uncounted};
use super::described::Described;
use super::words::{
    ConnectRefused, Conversation, ConversationResumed, Handshake, Nothing, OneMessage, Reached,
    Refresh, Refused, Seen, SessionClosed, SetStatus, TypingIn, UnreadNews, Watched,
};
use super::{events, joining, watching};

/// Something a client says.
pub struct ClientEvent {
    /// What it is called.
    pub name: &'static str,
    /// One line for the references.
    pub summary: &'static str,
    /// The operation that it runs, if it is one of all gateways.
    pub operation: Option<Info>,
    /// The codes it is refused with, beyond those that any event may be refused with.
    pub codes: &'static [Code],
    /// The body: one JSON object.
    pub body: fn() -> Described,
    /// The acknowledgement, beside `ok: true`.
    pub reply: fn() -> Described,
    pub(super) take: Take,
}

/// Something the server says.
pub struct ServerEvent {
    /// What it is called.
    pub name: &'static str,
    /// One line for the references.
    pub summary: &'static str,
    /// The body: one JSON object.
    pub body: fn() -> Described,
}

/// What a client shows when it connects.
pub fn handshake() -> Described {
    Described::of::<Handshake>()
}

/// What a client hears that is not let in.
pub fn connect_refused() -> Described {
    Described::of::<ConnectRefused>()
}

/// The acknowledgement of an event that is refused.
pub fn refused() -> Described {
    Described::of::<Refused>()
}

const JOIN: &[Code] = &[
    Code::InvalidId,
    Code::UserRequired,
    Code::NotAMember,
    Code::TooMany,
];

/// Every event of a client, in the order of the reference.
pub static EVENTS: &[ClientEvent] = &[
    event::<Nothing, NextHeartbeat>("heartbeat", events::heartbeat)
        .about("The device is still there")
        .like(Heartbeat::INFO, &[]),
    event::<SendMessage, OneMessage>("message:send", uncounted::<SendMessage, OneMessage>)
        .runs(SendMessage::INFO),
    event::<SetStatus, Nothing>("presence:set", counted::<SetStatus, Nothing>)
        .about("Says how the user wants to be seen")
        .like(SetPresence::INFO, &[]),
    event::<Watched, Seen>("presence:watch", watching::watch)
        .about("Tells how chosen users are seen, now and with every change")
        .like(WatchPresence::INFO, WatchPresence::INFO.codes),
    event::<Watched, Seen>("presence:unwatch", watching::unwatch)
        .about("Ends the watching of users; tells how they are seen now")
        .refuses(WatchPresence::INFO.codes),
    event::<CatchUp, Resumed>("conversation:join", joining::join)
        .about("Opens the live stream of a conversation for this socket, and tells what it missed")
        .like(CatchUp::INFO, JOIN),
    event::<Conversation, Nothing>("conversation:leave", events::leave)
        .about("Closes the live stream of a conversation for this socket")
        .refuses(&[Code::InvalidId]),
    event::<EditMessage, OneMessage>("message:edit", counted::<EditMessage, OneMessage>)
        .runs(EditMessage::INFO),
    event::<DeleteMessage, OneMessage>("message:delete", counted::<DeleteMessage, OneMessage>)
        .runs(DeleteMessage::INFO),
    event::<MarkDelivered, Badge>("message:delivered", counted::<MarkDelivered, Badge>)
        .runs(MarkDelivered::INFO),
    event::<MarkRead, Badge>("message:read", counted::<MarkRead, Badge>).runs(MarkRead::INFO),
    event::<MarkUnread, Badge>("message:unread", counted::<MarkUnread, Badge>)
        .runs(MarkUnread::INFO),
    event::<Refresh, Nothing>("session:refresh", events::refresh)
        .about("Shows another token of the same user, before the time of the one before is over")
        .refuses(&[Code::Forbidden]),
    event::<TypingIn, Nothing>("typing:start", events::typing_start)
        .about("Says that the user types in a conversation; repeated while they do")
        .like(SetTyping::INFO, SetTyping::INFO.codes),
    event::<TypingIn, Nothing>("typing:stop", events::typing_stop)
        .about("Says that the user no longer types in a conversation")
        .like(SetTyping::INFO, SetTyping::INFO.codes),
    event::<ListMessages, MessageList>("history", counted::<ListMessages, MessageList>)
        .runs(ListMessages::INFO),
];

/// Everything the server tells, in the order of the reference.
pub static NEWS: &[ServerEvent] = &[
    news::<Message>(
        "message:new",
        "A message was sent in a conversation that this socket joined, by anybody, this socket included",
    ),
    news::<Message>(
        "message:edited",
        "A message was edited; one with a lower `rev` than seen before is old news",
    ),
    news::<Message>(
        "message:deleted",
        "A message was deleted; its number stays, its content is gone",
    ),
    news::<Reached>(
        "message:delivered",
        "A conversation's messages have reached a member up to one",
    ),
    news::<Reached>(
        "message:read",
        "A member has read a conversation's messages up to one",
    ),
    news::<TypingChange>(
        "typing",
        "Somebody else types in a conversation that this socket joined, or no longer",
    ),
    news::<Seen>(
        "presence",
        "How watched users are seen has changed; the latest of each, at most ten times a second",
    ),
    news::<UnreadNews>(
        "unread",
        "What waits for the user in a conversation has changed; told to all their sockets",
    ),
    news::<Conversation>(
        "conversation:added",
        "The user has become a member of a conversation; told to all their sockets",
    ),
    news::<Conversation>(
        "conversation:removed",
        "The user is no longer a member of a conversation, or it was deleted: its live stream has ended",
    ),
    news::<ConversationResumed>(
        "conversation:resumed",
        "A conversation of the handshake's `resume` is joined, and what was missed of it has been told; its live stream follows",
    ),
    news::<SessionClosed>(
        "session:closed",
        "The server closes the connection right after this",
    ),
];

const SESSIONS: &str =
    "people begin and end sessions, and admins look after them: HTTP; here a connection begins one";
const DEVICES: &str = "for people who look after their devices, and admins: HTTP";
const CONVERSATIONS: &str = "people look after their conversations: HTTP";
const SERVICES: &str = "for services: HTTP and gRPC";

/// Operations that Socket.IO does not offer, and why.
pub static ELSEWHERE: &[(Info, &str)] = &[
    (BeginSession::INFO, SESSIONS),
    (BeginVisit::INFO, SESSIONS),
    (GetSession::INFO, SESSIONS),
    (EndSession::INFO, SESSIONS),
    (GetOtherSession::INFO, SESSIONS),
    (ChangeSession::INFO, SESSIONS),
    (EndOtherSession::INFO, SESSIONS),
    (ValidateSession::INFO, SERVICES),
    (
        GetPresence::INFO,
        "`presence:watch` tells it, and every change",
    ),
    (ListDevices::INFO, DEVICES),
    (RemoveDevice::INFO, DEVICES),
    (
        QueryPresence::INFO,
        "`presence:watch` tells it, and every change",
    ),
    (CountPresence::INFO, "a figure for dashboards: HTTP"),
    (CreateConversation::INFO, CONVERSATIONS),
    (ListConversations::INFO, CONVERSATIONS),
    (GetConversation::INFO, CONVERSATIONS),
    (UpdateConversation::INFO, CONVERSATIONS),
    (DeleteConversation::INFO, CONVERSATIONS),
    (
        JoinConversation::INFO,
        "membership changes by HTTP; `conversation:join` opens the live stream of a member",
    ),
    (
        LeaveConversation::INFO,
        "membership changes by HTTP; `conversation:leave` closes the live stream of a member",
    ),
    (ListMembers::INFO, CONVERSATIONS),
    (GetMember::INFO, CONVERSATIONS),
    (PutMember::INFO, CONVERSATIONS),
    (RemoveMember::INFO, CONVERSATIONS),
    (IsMember::INFO, SERVICES),
    (GetMessage::INFO, "`history` tells it"),
    (
        ListTyping::INFO,
        "`conversation:join` tells it, and every change",
    ),
    (
        ListReceipts::INFO,
        "asked for once, when a conversation is opened: HTTP; then every change is told",
    ),
    (
        GetUnread::INFO,
        "asked for once, when an app is opened: HTTP; then every change is told",
    ),
    (CheckLimit::INFO, SERVICES),
];

const fn event<B: ToSchema, R: ToSchema>(name: &'static str, take: Take) -> ClientEvent {
    ClientEvent {
        name,
        summary: "",
        operation: None,
        codes: &[],
        body: Described::of::<B>,
        reply: Described::of::<R>,
        take,
    }
}

impl ClientEvent {
    const fn about(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    const fn refuses(self, codes: &'static [Code]) -> Self {
        Self { codes, ..self }
    }

    /// It is what this operation is elsewhere.
    const fn like(self, info: Info, codes: &'static [Code]) -> Self {
        Self {
            operation: Some(info),
            codes,
            ..self
        }
    }

    /// It runs this operation, as it is.
    const fn runs(self, info: Info) -> Self {
        self.about(info.summary).like(info, info.codes)
    }
}

const fn news<B: ToSchema>(name: &'static str, summary: &'static str) -> ServerEvent {
    ServerEvent {
        name,
        summary,
        body: Described::of::<B>,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use parlor_chat::operation::ALL;
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_operation_has_an_event_or_a_reason() {
        for info in ALL {
            let event = EVENTS.iter().any(|it| it.operation == Some(*info));
            let reason = ELSEWHERE.iter().any(|(it, _)| it == info);
            assert!(event != reason, "{}", info.name);
        }
    }

    #[test]
    fn every_event_has_a_name_of_its_own_and_says_what_it_does() {
        let mut names: Vec<&str> = EVENTS.iter().map(|it| it.name).collect();
        assert!(EVENTS.iter().all(|it| !it.summary.is_empty()));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn two_types_of_one_name_are_one_type() {
        let mut seen: BTreeMap<String, Value> = BTreeMap::new();
        let events = EVENTS.iter().flat_map(|it| [it.body, it.reply]);
        let news = NEWS.iter().map(|it| it.body);
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
