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
    pub(super) fn add(&self, feed: &ConversationFeed, typer: &TypingUser) {
        let weak_feed = Weak::clone(&feed.weak_self);
        self.0.lock().insert(key(feed, typer), weak_feed);
    }

    pub(super) fn remove(&self, feed: &ConversationFeed, typer: &TypingUser) {
        self.0.lock().remove(&key(feed, typer));
    }

    /// Takes the feeds and typers whose deadline has passed.
    pub(super) fn take_due(&self, now: Timestamp) -> Vec<(Arc<ConversationFeed>, UserId)> {
        let mut deadlines = self.0.lock();
        let mut due = Vec::new();
        while let Some(first) = deadlines.first_entry() {
            if first.key().0 > now {
                break;
            }
            let ((_, _, user), feed) = first.remove_entry();
            due.extend(feed.upgrade().map(|feed| (feed, user)));
        }
        due
    }
}

fn key(feed: &ConversationFeed, typer: &TypingUser) -> (Timestamp, u64, UserId) {
    (typer.until, feed.feed_id, typer.user_id.clone())
}
