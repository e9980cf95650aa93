//! Sends the live events of a conversation to the sockets that have joined it.

use parlor_chat::conversations::MemberChange;
use parlor_chat::ids::UserId;
use parlor_chat::live::{ConversationEvent, ConversationSubscriber};
use parlor_chat::unread::ReceiptKind;
use parlor_socketio::EncodedEvent;

use super::SocketIoGateway;
use super::bodies::{MemberUpdate, ReceiptUpdate};
use super::rooms::{EventPosition, JoinedConversation};
use super::server_events::{
    ConversationUpdatedEvent, MemberAddedEvent, MemberRemovedEvent, MemberUpdatedEvent,
    MessageDeletedEvent, MessageDeliveredEvent, MessageEditedEvent, MessageNewEvent,
    MessageReadEvent, TypingEvent,
};

impl SocketIoGateway {
    /// Encodes the event of a changed message from its JSON.
    pub(super) fn encode_message_change(&self, deleted: bool, json: &[u8]) -> EncodedEvent {
        match deleted {
            true => self.encode_body::<MessageDeletedEvent>(json),
            false => self.encode_body::<MessageEditedEvent>(json),
        }
    }

    fn encode_receipt(&self, moved: ReceiptKind, update: &ReceiptUpdate) -> EncodedEvent {
        match moved {
            ReceiptKind::Delivered => self.encode::<MessageDeliveredEvent>(update),
            ReceiptKind::Read => self.encode::<MessageReadEvent>(update),
        }
    }

    fn encode_member_change(&self, change: &MemberChange, update: &MemberUpdate) -> EncodedEvent {
        match (change.role, change.joined) {
            (None, _) => self.encode::<MemberRemovedEvent>(update),
            (Some(_), true) => self.encode::<MemberAddedEvent>(update),
            (Some(_), false) => self.encode::<MemberUpdatedEvent>(update),
        }
    }
}

impl ConversationSubscriber for JoinedConversation {
    fn on_event(&self, event: &ConversationEvent<'_>) {
        let mut sockets = self.sockets.lock();
        if sockets.joined.is_empty() {
            return;
        }
        let gateway = &self.gateway;
        let mut send = |position, frame: EncodedEvent| sockets.broadcast(position, &frame, None);
        match event {
            ConversationEvent::MessageCreated { seq, json, .. } => {
                let frame = gateway.encode_body::<MessageNewEvent>(json);
                send(EventPosition::Message(*seq), frame);
            }
            ConversationEvent::MessageChanged {
                rev, deleted, json, ..
            } => send(
                EventPosition::Change(*rev),
                gateway.encode_message_change(*deleted, json),
            ),
            ConversationEvent::UndeliveredMessageChanged {
                seq,
                rev,
                deleted,
                json,
            } => {
                let (seq, rev) = (*seq, *rev);
                let position = EventPosition::UndeliveredChange { seq, rev };
                send(position, gateway.encode_message_change(*deleted, json));
            }
            ConversationEvent::ReceiptMoved(change) => {
                let receipt = &change.receipt;
                let update = ReceiptUpdate {
                    conversation_id: self.id.clone(),
                    user_id: receipt.user_id.clone(),
                    seq: match change.moved {
                        ReceiptKind::Delivered => receipt.delivered_seq,
                        ReceiptKind::Read => receipt.read_seq,
                    },
                };
                let frame = gateway.encode_receipt(change.moved, &update);
                send(EventPosition::Unordered, frame);
            }
            ConversationEvent::TypingChanged(change) => {
                let frame = gateway.encode::<TypingEvent>(change);
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
                    let update = MemberUpdate {
                        conversation_id: self.id.clone(),
                        user_id: change.user_id.clone(),
                        role: change.role,
                        members_version: *members_version,
                    };
                    let frame = gateway.encode_member_change(change, &update);
                    sockets.broadcast(EventPosition::Unordered, &frame, None);
                }
            }
            ConversationEvent::ConversationUpdated { json } => {
                let frame = gateway.encode_body::<ConversationUpdatedEvent>(json);
                send(EventPosition::Unordered, frame);
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
