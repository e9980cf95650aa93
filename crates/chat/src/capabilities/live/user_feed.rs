//! Live feed of one user on this node.
//!
//! Invariants:
//! 1. A user feed has no order and no cursor: after lost frames it only tells the subscriber that events may be missing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use parlor_store::{BusEvent, BusListener};
use serde::Deserialize;
use smallvec::SmallVec;

use super::model::{UserEvent, UserSubscriber};
use crate::bus::frame::{BusFrame, BusFrameKind};
use crate::conversations::MembershipChangedFrame;
use crate::ids::{ConversationId, UserId};

/// Feed of one user for one subscription.
pub(super) struct UserFeed {
    pub(super) user: UserId,
    pub(super) subscriber: Arc<dyn UserSubscriber>,
    /// The subscription was dropped.
    pub(super) is_closed: AtomicBool,
}

impl UserFeed {
    pub(super) fn deliver(&self, event: &UserEvent<'_>) {
        if !self.is_closed.load(Ordering::Acquire) {
            self.subscriber.on_event(event);
        }
    }

    /// Delivers the event of a frame; false if the frame cannot be read.
    fn apply_frame(&self, frame: &[u8]) -> bool {
        match BusFrame::from(frame) {
            BusFrame::Known(BusFrameKind::UnreadChanged, json) => {
                self.deliver(&UserEvent::UnreadChanged(json));
            }
            BusFrame::Known(BusFrameKind::MembershipChanged, json) => {
                let Ok(change) = serde_json::from_slice::<MembershipChangedFrame>(json) else {
                    return false;
                };
                let joined = change.role.is_some();
                // A changed role is not an event of this feed.
                if change.joined || !joined {
                    self.deliver(&UserEvent::MembershipChanged {
                        conversation: change.conversation_id,
                        joined,
                    });
                }
            }
            BusFrame::Known(BusFrameKind::ConversationUpdated, json) => {
                let Ok(updated) = serde_json::from_slice::<UpdatedConversation>(json) else {
                    return false;
                };
                self.deliver(&UserEvent::ConversationUpdated {
                    conversation: updated.id,
                    json,
                });
            }
            BusFrame::Known(..) | BusFrame::UnknownKind => {}
            BusFrame::UnknownVersion => return false,
        }
        true
    }
}

/// The id in the JSON of a conversation.
#[derive(Deserialize)]
struct UpdatedConversation {
    id: ConversationId,
}

impl BusListener for UserFeed {
    fn on_event(&self, event: &BusEvent) {
        let read = match event {
            BusEvent::Message { payload, .. } => self.apply_frame(payload),
            BusEvent::MaybeMissed => false,
        };
        if !read {
            self.deliver(&UserEvent::EventsMaybeLost);
        }
    }
}

/// User feeds of this node by user id. No subscriber is called while the lock is held.
#[derive(Default)]
pub(super) struct UserFeedRegistry(Mutex<HashMap<UserId, SmallVec<[Arc<UserFeed>; 1]>>>);

impl UserFeedRegistry {
    pub(super) fn add(&self, feed: &Arc<UserFeed>) {
        let mut feeds = self.0.lock();
        let feeds = feeds.entry(feed.user.clone()).or_default();
        feeds.push(Arc::clone(feed));
    }

    pub(super) fn remove(&self, feed: &Arc<UserFeed>) {
        let mut feeds = self.0.lock();
        let Entry::Occupied(mut entry) = feeds.entry(feed.user.clone()) else {
            return;
        };
        entry.get_mut().retain(|other| !Arc::ptr_eq(other, feed));
        if entry.get().is_empty() {
            entry.remove();
        }
    }

    /// Returns the feeds of all users.
    pub(super) fn all(&self) -> Vec<Arc<UserFeed>> {
        self.0.lock().values().flatten().cloned().collect()
    }

    /// Returns the feeds of these users.
    pub(super) fn feeds_of(&self, users: &std::collections::HashSet<UserId>) -> Vec<Arc<UserFeed>> {
        let feeds = self.0.lock();
        if feeds.len() < users.len() {
            let found = feeds.iter().filter(|(user, _)| users.contains(*user));
            return found.flat_map(|(_, feeds)| feeds).cloned().collect();
        }
        let found = users.iter().filter_map(|user| feeds.get(user));
        found.flatten().cloned().collect()
    }
}
