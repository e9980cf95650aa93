//! Sends the live events of a conversation to the sockets that have joined it.

use parlor_chat::ids::UserId;
use parlor_chat::live::{ConversationEvent, ConversationSubscriber};
use parlor_socketio::EncodedEvent;

use super::bodies::Reached;
use super::encode_json;
use super::rooms::{EventPosition, JoinedConversation};

fn change_event_name(deleted: bool) -> &'static str {
    match deleted {
        true => "message:deleted",
        false => "message:edited",
    }
}

impl ConversationSubscriber for JoinedConversation {
    fn on_event(&self, news: &ConversationEvent<'_>) {
        let mut inside = self.sockets.lock();
        if inside.joined.is_empty() {
            return;
        }
        match news {
            ConversationEvent::MessageCreated { seq, json, .. } => {
                let frame = self.gateway.encode_recoverable_event("message:new", json);
                inside.broadcast(EventPosition::Message(*seq), &frame, None);
            }
            ConversationEvent::MessageChanged {
                rev, deleted, json, ..
            } => {
                let frame = self
                    .gateway
                    .encode_recoverable_event(change_event_name(*deleted), json);
                inside.broadcast(EventPosition::Change(*rev), &frame, None);
            }
            ConversationEvent::UndeliveredMessageChanged {
                seq,
                rev,
                deleted,
                json,
            } => {
                let frame = self
                    .gateway
                    .encode_recoverable_event(change_event_name(*deleted), json);
                let (seq, rev) = (*seq, *rev);
                inside.broadcast(EventPosition::UndeliveredChange { seq, rev }, &frame, None);
            }
            ConversationEvent::ReceiptMoved {
                delivered,
                read,
                change,
            } => {
                let receipt = &change.receipt;
                for (moved, name, seq) in [
                    (*delivered, "message:delivered", receipt.delivered_seq),
                    (*read, "message:read", receipt.read_seq),
                ] {
                    if moved {
                        let reached = Reached {
                            conversation_id: self.id.clone(),
                            user_id: receipt.user_id.clone(),
                            seq,
                        };
                        let frame = self
                            .gateway
                            .encode_recoverable_event(name, &encode_json(&reached));
                        inside.broadcast(EventPosition::Unordered, &frame, None);
                    }
                }
            }
            ConversationEvent::TypingChanged(change) => {
                // A typing event is useless after a reconnect, so replay buffers do not keep it.
                let frame = EncodedEvent::new("typing", &encode_json(change));
                inside.broadcast(EventPosition::Unordered, &frame, Some(&change.user_id));
            }
            ConversationEvent::MembersChanged { left, .. } => {
                if !left.is_empty() {
                    // A service needs no membership.
                    self.remove_sockets_deferred(&mut inside, |it| {
                        !it.is_service && left.contains(&it.device.user)
                    });
                }
            }
            ConversationEvent::ConversationDeleted => {
                self.remove_sockets_deferred(&mut inside, |_| true);
            }
        }
    }

    fn users(&self) -> Vec<UserId> {
        let inside = self.sockets.lock();
        let states = inside.joined.values().map(|it| it.socket.state());
        let mut users: Vec<UserId> = states
            .filter(|it| !it.is_service)
            .map(|it| it.device.user.clone())
            .collect();
        users.sort_unstable();
        users.dedup();
        users
    }
}
