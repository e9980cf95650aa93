//! Sends the live events of a conversation to the sockets that have joined it.

use parlor_chat::conversations::MemberChange;
use parlor_chat::ids::UserId;
use parlor_chat::live::{ConversationEvent, ConversationSubscriber};
use parlor_chat::unread::ReceiptKind;
use parlor_socketio::EncodedEvent;

use super::bodies::{MemberUpdate, ReceiptUpdate};
use super::encode_json;
use super::rooms::{EventPosition, JoinedConversation};

/// Name of the event for a changed message.
const fn change_event_name(deleted: bool) -> &'static str {
    match deleted {
        true => "message:deleted",
        false => "message:edited",
    }
}

/// Name of the event for a changed member.
const fn member_event_name(change: &MemberChange) -> &'static str {
    match (change.role, change.joined) {
        (None, _) => "member:removed",
        (Some(_), true) => "member:added",
        (Some(_), false) => "member:updated",
    }
}

impl ConversationSubscriber for JoinedConversation {
    fn on_event(&self, event: &ConversationEvent<'_>) {
        let mut sockets = self.sockets.lock();
        if sockets.joined.is_empty() {
            return;
        }
        let mut send = |name, position, json: &[u8]| {
            let frame = self.gateway.encode_recoverable_event(name, json);
            sockets.broadcast(position, &frame, None);
        };
        match event {
            ConversationEvent::MessageCreated { seq, json, .. } => {
                send("message:new", EventPosition::Message(*seq), json);
            }
            ConversationEvent::MessageChanged {
                rev, deleted, json, ..
            } => send(
                change_event_name(*deleted),
                EventPosition::Change(*rev),
                json,
            ),
            ConversationEvent::UndeliveredMessageChanged {
                seq,
                rev,
                deleted,
                json,
            } => {
                let (seq, rev) = (*seq, *rev);
                let position = EventPosition::UndeliveredChange { seq, rev };
                send(change_event_name(*deleted), position, json);
            }
            ConversationEvent::ReceiptMoved(change) => {
                let receipt = &change.receipt;
                let (name, seq) = match change.moved {
                    ReceiptKind::Delivered => ("message:delivered", receipt.delivered_seq),
                    ReceiptKind::Read => ("message:read", receipt.read_seq),
                };
                let update = encode_json(&ReceiptUpdate {
                    conversation_id: self.id.clone(),
                    user_id: receipt.user_id.clone(),
                    seq,
                });
                send(name, EventPosition::Unordered, &update);
            }
            ConversationEvent::TypingChanged(change) => {
                // A typing event is useless after a reconnect, so replay buffers do not keep it.
                let frame = EncodedEvent::new("typing", &encode_json(change));
                sockets.broadcast(EventPosition::Unordered, &frame, Some(&change.user_id));
            }
            ConversationEvent::MembersChanged {
                members_version,
                members,
            } => {
                // The sockets of a removed member leave first; a service needs no membership.
                let has_left = |user: &UserId| {
                    let mut members = members.iter();
                    members.any(|it| it.role.is_none() && it.user_id == *user)
                };
                if members.iter().any(|it| it.role.is_none()) {
                    self.remove_sockets_deferred(&mut sockets, |it| {
                        !it.is_service && has_left(&it.device.user)
                    });
                }
                for change in *members {
                    let json = encode_json(&MemberUpdate {
                        conversation_id: self.id.clone(),
                        user_id: change.user_id.clone(),
                        role: change.role,
                        members_version: *members_version,
                    });
                    let name = member_event_name(change);
                    let frame = self.gateway.encode_recoverable_event(name, &json);
                    sockets.broadcast(EventPosition::Unordered, &frame, None);
                }
            }
            ConversationEvent::ConversationUpdated { json } => {
                send("conversation:updated", EventPosition::Unordered, json);
            }
            ConversationEvent::ConversationDeleted => {
                self.remove_sockets_deferred(&mut sockets, |_| true);
            }
        }
    }

    fn users(&self) -> Vec<UserId> {
        let sockets = self.sockets.lock();
        let states = sockets.joined.values().map(|it| it.socket.state());
        let mut users: Vec<UserId> = states
            .filter(|it| !it.is_service)
            .map(|it| it.device.user.clone())
            .collect();
        users.sort_unstable();
        users.dedup();
        users
    }
}
