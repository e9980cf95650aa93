//! What happens in a conversation, as those hear of it who have joined.

use parlor_chat::ids::UserId;
use parlor_chat::live::{ConversationNews, ConversationSink};
use parlor_socketio::Frame;

use super::encode;
use super::rooms::{Point, Room};
use super::words::Reached;

fn changed_as(deleted: bool) -> &'static str {
    match deleted {
        true => "message:deleted",
        false => "message:edited",
    }
}

impl ConversationSink for Room {
    fn told(&self, news: &ConversationNews<'_>) {
        let mut inside = self.inside.lock();
        if inside.followers.is_empty() {
            return;
        }
        match news {
            ConversationNews::Message { seq, json, .. } => {
                let frame = self.gateway.frame("message:new", json);
                inside.tell(Point::Message(*seq), &frame, None);
            }
            ConversationNews::Changed {
                rev, deleted, json, ..
            } => {
                let frame = self.gateway.frame(changed_as(*deleted), json);
                inside.tell(Point::Change(*rev), &frame, None);
            }
            ConversationNews::Ahead {
                seq,
                rev,
                deleted,
                json,
            } => {
                let frame = self.gateway.frame(changed_as(*deleted), json);
                let (seq, rev) = (*seq, *rev);
                inside.tell(Point::Ahead { seq, rev }, &frame, None);
            }
            ConversationNews::Receipt {
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
                        let frame = self.gateway.frame(name, &encode(&reached));
                        inside.tell(Point::Moment, &frame, None);
                    }
                }
            }
            ConversationNews::Typing(change) => {
                // Of no use later, so not kept for those who lost their connection.
                let frame = Frame::event("typing", &encode(change));
                inside.tell(Point::Moment, &frame, Some(&change.user_id));
            }
            ConversationNews::Members { left, .. } => {
                if !left.is_empty() {
                    // A service is as good as a member.
                    self.evict_later(&mut inside, |it| {
                        !it.service && left.contains(&it.device.user)
                    });
                }
            }
            ConversationNews::Deleted => self.evict_later(&mut inside, |_| true),
        }
    }

    fn users(&self) -> Vec<UserId> {
        let inside = self.inside.lock();
        let states = inside.followers.values().map(|it| it.socket.state());
        let mut users: Vec<UserId> = states
            .filter(|it| !it.service)
            .map(|it| it.device.user.clone())
            .collect();
        users.sort_unstable();
        users.dedup();
        users
    }
}
