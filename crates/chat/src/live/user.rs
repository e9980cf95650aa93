//! A user who is followed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use parlor_store::{Event, Sink};
use smallvec::SmallVec;

use super::news::{UserNews, UserSink};
use crate::bus::frame::{Frame, Kind};
use crate::conversations;
use crate::ids::UserId;

/// A follower of a user.
pub(super) struct Line {
    pub(super) user: UserId,
    pub(super) sink: Arc<dyn UserSink>,
    /// Nobody follows any more.
    pub(super) ended: AtomicBool,
}

impl Line {
    pub(super) fn tell(&self, news: &UserNews<'_>) {
        if !self.ended.load(Ordering::Acquire) {
            self.sink.told(news);
        }
    }

    /// Tells a frame; false if it cannot be read.
    fn take(&self, frame: &[u8]) -> bool {
        match Frame::from(frame) {
            Frame::Known(Kind::Unread, json) => self.tell(&UserNews::Unread(json)),
            Frame::Known(Kind::Membership, json) => {
                let Ok(told) = serde_json::from_slice::<conversations::MembershipChanged>(json)
                else {
                    return false;
                };
                let joined = told.role.is_some();
                // Another role is no news here.
                if told.joined || !joined {
                    let conversation = told.conversation_id;
                    self.tell(&UserNews::Membership {
                        conversation,
                        joined,
                    });
                }
            }
            Frame::Known(..) | Frame::OtherKind => {}
            Frame::OtherVersion => return false,
        }
        true
    }
}

impl Sink for Line {
    fn tell(&self, event: &Event) {
        let read = match event {
            Event::Message { payload, .. } => self.take(payload),
            Event::MaybeMissed => false,
        };
        if !read {
            self.tell(&UserNews::MaybeMissed);
        }
    }
}

/// The users who are followed on this node. Nobody is told under its lock.
#[derive(Default)]
pub(super) struct Lines(Mutex<HashMap<UserId, SmallVec<[Arc<Line>; 1]>>>);

impl Lines {
    pub(super) fn add(&self, line: &Arc<Line>) {
        let mut lines = self.0.lock();
        let lines = lines.entry(line.user.clone()).or_default();
        lines.push(Arc::clone(line));
    }

    pub(super) fn remove(&self, line: &Arc<Line>) {
        let mut lines = self.0.lock();
        let Entry::Occupied(mut place) = lines.entry(line.user.clone()) else {
            return;
        };
        place.get_mut().retain(|other| !Arc::ptr_eq(other, line));
        if place.get().is_empty() {
            place.remove();
        }
    }

    /// The followers of all users.
    pub(super) fn all(&self) -> Vec<Arc<Line>> {
        self.0.lock().values().flatten().cloned().collect()
    }

    /// The followers of those users who are among these.
    pub(super) fn among(&self, users: &std::collections::HashSet<UserId>) -> Vec<Arc<Line>> {
        let lines = self.0.lock();
        if lines.len() < users.len() {
            let found = lines.iter().filter(|(user, _)| users.contains(*user));
            return found.flat_map(|(_, lines)| lines).cloned().collect();
        }
        let found = users.iter().filter_map(|user| lines.get(user));
        found.flatten().cloned().collect()
    }
}
