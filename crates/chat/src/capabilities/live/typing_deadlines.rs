//! Deadlines of the typing indicators that the feeds of this node know.
//!
//! Invariants:
//! 1. Each typer that a feed knows has exactly one entry.
//! 2. The entry of a closed feed is removed when its deadline has passed.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::conversation_feed::ConversationFeed;
use crate::clock::Timestamp;
use crate::ids::UserId;
use crate::typing::TypingUser;

/// Typing deadlines of all feeds of this node, ordered by time.
#[derive(Default)]
pub(super) struct TypingDeadlines(
    Mutex<BTreeMap<(Timestamp, u64, UserId), Weak<ConversationFeed>>>,
);

impl TypingDeadlines {
    pub(super) fn add(&self, room: &ConversationFeed, typer: &TypingUser) {
        let room_there = Weak::clone(&room.weak_self);
        self.0.lock().insert(key(room, typer), room_there);
    }

    pub(super) fn remove(&self, room: &ConversationFeed, typer: &TypingUser) {
        self.0.lock().remove(&key(room, typer));
    }

    /// Takes the feeds and typers whose deadline has passed.
    pub(super) fn take_due(&self, now: Timestamp) -> Vec<(Arc<ConversationFeed>, UserId)> {
        let mut ends = self.0.lock();
        let mut due = Vec::new();
        while let Some(first) = ends.first_entry() {
            if first.key().0 > now {
                break;
            }
            let ((_, _, user), room) = first.remove_entry();
            due.extend(room.upgrade().map(|room| (room, user)));
        }
        due
    }
}

fn key(room: &ConversationFeed, typer: &TypingUser) -> (Timestamp, u64, UserId) {
    (typer.until, room.feed_id, typer.user_id.clone())
}
