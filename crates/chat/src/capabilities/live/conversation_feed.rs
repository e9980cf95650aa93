//! Live feed of one conversation on this node.
//!
//! ```text
//!              open()                    frame is the next one
//!   holding ────────────▶ streaming ──────────────────────────▶ subscriber.on_event()
//!      ▲                      │
//!      │                      │ gap, unreadable frame, or the bus may have lost frames
//!      └──────────────────────┘
//!   resync (resync.rs) reads the missing events from the database, then delivers the held frames
//! ```
//!
//! Invariants:
//! 1. The subscriber is only called while the feed's lock is held, so its events have one order. The bus callback, the
//!    resync task and the typing expiry task take this lock. Dropping the subscription does not.
//! 2. While events may be missing, frames are held and one resync task runs. There is never more than one.
//! 3. `delivered_through` is the `seq` of the last delivered message. A message up to it is dropped. A message that is
//!    not the next one is held, and so is a frame whose revision is not the next one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use parlor_store::{BusEvent, BusListener};
use tokio::sync::Notify;

use super::apply_frame::FrameOutcome;
use super::model::ConversationSubscriber;
use super::revision_cursor::RevisionCursor;
use super::{LiveUpdates, resync};
use crate::ids::{ConversationId, UserId};
use crate::typing::TypingUser;

/// Maximum number of frames, and of their bytes, that a feed holds.
const MAX_HELD_FRAMES: usize = 1_024;
const MAX_HELD_BYTES: usize = 1 << 20;

/// Feed of one conversation on this node.
pub(super) struct ConversationFeed {
    pub(super) weak_self: Weak<Self>,
    pub(super) live: Arc<LiveUpdates>,
    pub(super) conversation: ConversationId,
    pub(super) feed_id: u64,
    pub(super) subscriber: Arc<dyn ConversationSubscriber>,
    pub(super) state: Mutex<FeedState>,
    /// The subscription was dropped.
    pub(super) is_closed: AtomicBool,
    pub(super) close_signal: Notify,
}

pub(super) struct FeedState {
    pub(super) delivered_through: u64,
    /// Last `seq` that was committed when the feed was opened.
    pub(super) last_seq_at_open: u64,
    pub(super) revisions: RevisionCursor,
    /// Version of the members that was delivered last; 0 if member changes may be missing.
    pub(super) members_version: u64,
    /// Highest version of the members that an event carried.
    pub(super) announced_members_version: u64,
    /// Version of the conversation that was delivered last.
    pub(super) conversation_version: u64,
    pub(super) typers: BTreeMap<UserId, TypingUser>,
    /// Frames that wait for a resync. `None` while the feed streams.
    pub(super) held_frames: Option<Box<HeldFrames>>,
    /// The conversation is deleted; no event follows.
    pub(super) is_deleted: bool,
}

#[derive(Default)]
pub(super) struct HeldFrames {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// Held frames were dropped, so the resync must read again.
    pub(super) resync_again: bool,
    /// Receipts may have been lost. No later frame makes up for a lost receipt.
    pub(super) receipts_lost: bool,
}

impl HeldFrames {
    fn push(&mut self, frame: Bytes) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
        if self.frames.len() > MAX_HELD_FRAMES || self.bytes > MAX_HELD_BYTES {
            self.drop_all();
        }
    }

    fn drop_all(&mut self) {
        *self = Self {
            resync_again: true,
            receipts_lost: true,
            ..Self::default()
        };
    }
}

impl FeedState {
    /// Initial state: the feed holds all frames until it is opened.
    pub(super) fn new_holding() -> Self {
        Self {
            delivered_through: 0,
            last_seq_at_open: 0,
            revisions: RevisionCursor::default(),
            members_version: 0,
            announced_members_version: 0,
            conversation_version: 0,
            typers: BTreeMap::new(),
            held_frames: Some(Box::default()),
            is_deleted: false,
        }
    }
}

impl BusListener for ConversationFeed {
    fn on_event(&self, event: &BusEvent) {
        if self.is_closed.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        match event {
            BusEvent::Message { payload, .. } => self.handle_frame(&mut state, payload),
            BusEvent::MaybeMissed => {
                self.hold_and_resync(&mut state);
                if let Some(held) = &mut state.held_frames {
                    held.receipts_lost = true;
                }
            }
        }
    }
}

impl ConversationFeed {
    /// Delivers a frame, or holds it.
    fn handle_frame(&self, state: &mut FeedState, frame: &Bytes) {
        if let Some(held) = &mut state.held_frames {
            held.push(frame.clone());
            return;
        }
        match self.apply_frame(state, frame) {
            FrameOutcome::Handled => {}
            FrameOutcome::GapBefore => {
                self.hold_and_resync(state);
                if let Some(held) = &mut state.held_frames {
                    held.push(frame.clone());
                }
            }
            FrameOutcome::NeedsResync => self.hold_and_resync(state),
        }
    }

    /// Starts to hold frames and starts a resync. A resync that is running already must read again.
    pub(super) fn hold_and_resync(&self, state: &mut FeedState) {
        match &mut state.held_frames {
            Some(held) => held.drop_all(),
            None if state.is_deleted => {}
            None => {
                state.held_frames = Some(Box::default());
                resync::spawn_resync(self);
            }
        }
    }

    /// Delivers the held frames; false if events are still missing.
    pub(super) fn drain_held(&self, state: &mut FeedState) -> bool {
        let Some(mut held) = state.held_frames.take() else {
            return true;
        };
        let mut is_complete = !held.resync_again;
        held.resync_again = false;
        while is_complete && let Some(frame) = held.frames.pop_front() {
            held.bytes -= frame.len();
            match self.apply_frame(state, &frame) {
                FrameOutcome::Handled => {}
                FrameOutcome::GapBefore => {
                    held.bytes += frame.len();
                    held.frames.push_front(frame);
                    is_complete = false;
                }
                FrameOutcome::NeedsResync => is_complete = false,
            }
        }
        if !is_complete {
            state.held_frames = Some(held);
        }
        is_complete
    }
}
