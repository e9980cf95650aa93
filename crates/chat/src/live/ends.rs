//! When to look who stopped typing without saying so.
//!
//! Always true: for each typer that a room knows there is an entry, and one only. An entry of a room that is gone goes when
//! its time has come.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::room::ConversationFeed;
use crate::context::Timestamp;
use crate::ids::UserId;
use crate::typing::TypingUser;

/// The ends of all spells of typing that a node follows, in their order.
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

    /// The rooms and typers whose end has come, each once.
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
