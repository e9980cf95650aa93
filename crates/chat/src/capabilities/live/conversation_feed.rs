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
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::Notify;

use super::model::{ConversationEvent, ConversationSubscriber};
use super::revision_cursor::RevisionCursor;
use super::{LiveUpdates, resync};
use crate::bus::frame::{BusFrame, BusFrameKind};
use crate::conversations::MembersChangedFrame;
use crate::ids::{ConversationId, UserId};
use crate::messages::decode_message_frame;
use crate::typing::{self, TypingUser};
use crate::unread::{ReceiptChange, ReceiptKind};

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

/// Result of handling a frame.
enum FrameOutcome {
    /// The frame was delivered or is not relevant.
    Handled,
    /// A message or change before it was not delivered.
    GapBefore,
    /// The event must be read from the database.
    NeedsResync,
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
        let mut whole = !held.resync_again;
        held.resync_again = false;
        while whole && let Some(frame) = held.frames.pop_front() {
            held.bytes -= frame.len();
            match self.apply_frame(state, &frame) {
                FrameOutcome::Handled => {}
                FrameOutcome::GapBefore => {
                    held.bytes += frame.len();
                    held.frames.push_front(frame);
                    whole = false;
                }
                FrameOutcome::NeedsResync => whole = false,
            }
        }
        if !whole {
            state.held_frames = Some(held);
        }
        whole
    }

    fn apply_frame(&self, state: &mut FeedState, frame: &[u8]) -> FrameOutcome {
        let (kind, body) = match BusFrame::from(frame) {
            BusFrame::Known(kind, body) => (kind, body),
            BusFrame::UnknownKind => return FrameOutcome::Handled,
            BusFrame::UnknownVersion => return FrameOutcome::NeedsResync,
        };
        if state.is_deleted {
            return FrameOutcome::Handled;
        }
        let taken = match kind {
            BusFrameKind::MessageCreated => self.apply_created(state, body),
            BusFrameKind::MessageChanged => self.apply_changed(state, body),
            BusFrameKind::Receipt => self.apply_receipt(body),
            BusFrameKind::MembersChanged => self.apply_members_changed(state, body),
            BusFrameKind::Typing => typing::decode_typing_frame(body).map(|typer| {
                self.apply_typing(state, typer, self.live.ctx.now());
                FrameOutcome::Handled
            }),
            _ => Some(FrameOutcome::Handled),
        };
        taken.unwrap_or(FrameOutcome::NeedsResync)
    }

    fn apply_created(&self, state: &mut FeedState, body: &[u8]) -> Option<FrameOutcome> {
        let (seq, rev, json) = decode_message_frame(body)?;
        let new = seq > state.delivered_through;
        if new && (seq > state.delivered_through + 1 || state.revisions.has_gap_before(rev)) {
            return Some(FrameOutcome::GapBefore);
        }
        // A message committed before the feed was opened can carry a change that is not delivered yet. If a later
        // message was changed, its revision leaves a gap, so the check above handles it.
        if new && seq <= state.last_seq_at_open && rev > state.revisions.told() {
            let changed = serde_json::from_slice::<ChangeMarkers>(json).ok()?;
            if changed.is_changed() {
                self.deliver_undelivered_change(seq, rev, changed.deleted_at.is_some(), json);
            }
        }
        self.deliver_message(state, seq, rev, json);
        Some(FrameOutcome::Handled)
    }

    /// Delivers a message if it is the next one; drops any other message.
    pub(super) fn deliver_message(&self, state: &mut FeedState, seq: u64, rev: u64, json: &[u8]) {
        if seq == state.delivered_through + 1 {
            state.delivered_through = seq;
            state.revisions.record(seq, rev);
            self.subscriber
                .on_event(&ConversationEvent::MessageCreated { seq, rev, json });
        }
    }

    fn apply_changed(&self, state: &mut FeedState, body: &[u8]) -> Option<FrameOutcome> {
        let (seq, rev, json) = decode_message_frame(body)?;
        // If the message itself is not delivered yet, the resync delivers it in its current state.
        if seq > state.delivered_through || state.revisions.has_gap_before(rev) {
            return Some(FrameOutcome::GapBefore);
        }
        let changed = serde_json::from_slice::<ChangeMarkers>(json).ok()?;
        self.deliver_change(state, seq, rev, changed.deleted_at.is_some(), json);
        Some(FrameOutcome::Handled)
    }

    /// Delivers a change of a message that is not delivered yet.
    pub(super) fn deliver_undelivered_change(
        &self,
        seq: u64,
        rev: u64,
        deleted: bool,
        json: &[u8],
    ) {
        self.subscriber
            .on_event(&ConversationEvent::UndeliveredMessageChanged {
                seq,
                rev,
                deleted,
                json,
            });
    }

    /// Delivers a change of a message, unless this or a newer revision was delivered.
    pub(super) fn deliver_change(
        &self,
        state: &mut FeedState,
        seq: u64,
        rev: u64,
        deleted: bool,
        json: &[u8],
    ) {
        if state.revisions.record(seq, rev) {
            self.subscriber
                .on_event(&ConversationEvent::MessageChanged {
                    seq,
                    rev,
                    deleted,
                    json,
                });
        }
    }

    fn apply_receipt(&self, body: &[u8]) -> Option<FrameOutcome> {
        let change: ReceiptChange = serde_json::from_slice(body).ok()?;
        self.deliver_receipt(&change);
        Some(FrameOutcome::Handled)
    }

    /// Delivers a receipt.
    pub(super) fn deliver_receipt(&self, change: &ReceiptChange) {
        self.subscriber.on_event(&ConversationEvent::ReceiptMoved {
            delivered: change.moved == ReceiptKind::Delivered,
            read: change.moved == ReceiptKind::Read,
            change,
        });
    }

    fn apply_members_changed(&self, state: &mut FeedState, body: &[u8]) -> Option<FrameOutcome> {
        let MembersChangedFrame {
            members_version,
            deleted,
            members,
        } = serde_json::from_slice(body).ok()?;
        if deleted {
            self.deliver_deleted(state);
            return Some(FrameOutcome::Handled);
        }
        let known = state.members_version;
        if members_version <= known {
            // A late or repeated frame: a user in it may have joined again since. The resync reads the current members.
            state.members_version = 0;
            return Some(FrameOutcome::NeedsResync);
        }
        let named = !members.is_empty();
        let joined = members.iter().filter(|it| it.joined);
        let joined: Vec<UserId> = joined.map(|it| it.user_id.clone()).collect();
        let left = members.into_iter().filter(|it| it.role.is_none());
        let left: Vec<UserId> = left.map(|it| it.user_id).collect();
        state.members_version = members_version;
        self.deliver_members_changed(members_version, &joined, &left);
        if named && members_version == known + 1 {
            return Some(FrameOutcome::Handled);
        }
        // The frame does not name its members, or a version before it is missing.
        state.members_version = 0;
        Some(FrameOutcome::NeedsResync)
    }

    /// Delivers who joined and who left, if the lists are not empty.
    pub(super) fn deliver_members_changed(
        &self,
        members_version: u64,
        joined: &[UserId],
        left: &[UserId],
    ) {
        if !joined.is_empty() || !left.is_empty() {
            self.subscriber
                .on_event(&ConversationEvent::MembersChanged {
                    members_version,
                    joined,
                    left,
                });
        }
    }

    /// Marks the feed as deleted and delivers that.
    pub(super) fn deliver_deleted(&self, state: &mut FeedState) {
        state.is_deleted = true;
        self.subscriber
            .on_event(&ConversationEvent::ConversationDeleted);
    }
}

/// The fields of a message that show whether it was changed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChangeMarkers {
    edited_at: Option<IgnoredAny>,
    deleted_at: Option<IgnoredAny>,
}

impl ChangeMarkers {
    fn is_changed(&self) -> bool {
        self.edited_at.is_some() || self.deleted_at.is_some()
    }
}
