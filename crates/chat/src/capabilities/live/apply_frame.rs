//! Applies the frames of a conversation to its feed and delivers their events.
//!
//! Invariants:
//! 1. All functions run under the lock of the feed, so their events have one order.
//! 2. A message is delivered only if the members are at least as new as its commit. Otherwise the members are read from
//!    the rows first, so a removal whose frame is late or lost is delivered before the message.
//! 3. A frame of an unknown kind is ignored. A frame of another version, or one that cannot be decoded, causes a resync.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::conversation_feed::{ConversationFeed, FeedState};
use super::model::ConversationEvent;
use crate::bus::frame::{BusFrame, BusFrameKind};
use crate::conversations::{MemberChange, MembersChangedFrame};
use crate::messages::{MessageFrameHeader, decode_message_frame};
use crate::typing;
use crate::unread::ReceiptChange;

/// Result of handling a frame.
pub(super) enum FrameOutcome {
    /// The frame was delivered or is not relevant.
    Handled,
    /// A message or change before it was not delivered.
    GapBefore,
    /// The event must be read from the database.
    NeedsResync,
}

impl ConversationFeed {
    /// Applies a frame to the feed and delivers its event.
    pub(super) fn apply_frame(&self, state: &mut FeedState, frame: &[u8]) -> FrameOutcome {
        let (kind, body) = match BusFrame::from(frame) {
            BusFrame::Known(kind, body) => (kind, body),
            BusFrame::UnknownKind => return FrameOutcome::Handled,
            BusFrame::UnknownVersion => return FrameOutcome::NeedsResync,
        };
        if state.is_deleted {
            return FrameOutcome::Handled;
        }
        let outcome = match kind {
            BusFrameKind::MessageCreated => self.apply_created(state, body),
            BusFrameKind::MessageChanged => self.apply_changed(state, body),
            BusFrameKind::ConversationUpdated => self.apply_conversation_updated(state, body),
            BusFrameKind::Receipt => self.apply_receipt(body),
            BusFrameKind::MembersChanged => self.apply_members_changed(state, body),
            BusFrameKind::Typing => typing::decode_typing_frame(body).map(|typer| {
                self.apply_typing(state, typer, self.live.ctx.now());
                FrameOutcome::Handled
            }),
            _ => Some(FrameOutcome::Handled),
        };
        outcome.unwrap_or(FrameOutcome::NeedsResync)
    }

    fn apply_created(&self, state: &mut FeedState, body: &[u8]) -> Option<FrameOutcome> {
        let (header, json) = decode_message_frame(body)?;
        let MessageFrameHeader { seq, rev, .. } = header;
        let is_new = seq > state.delivered_through;
        if is_new && header.members_version > state.members_version {
            return Some(FrameOutcome::GapBefore);
        }
        if is_new && (seq > state.delivered_through + 1 || state.revisions.has_gap_before(rev)) {
            return Some(FrameOutcome::GapBefore);
        }
        // A message committed before the feed was opened can carry a change that is not delivered yet. If a later
        // message was changed, its revision leaves a gap, so the check above handles it.
        if is_new && seq <= state.last_seq_at_open && rev > state.revisions.delivered_rev() {
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
        let (header, json) = decode_message_frame(body)?;
        let MessageFrameHeader { seq, rev, .. } = header;
        if header.members_version > state.members_version {
            return Some(FrameOutcome::GapBefore);
        }
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
        self.subscriber
            .on_event(&ConversationEvent::ReceiptMoved(change));
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
        state.members_version = members_version;
        self.deliver_members_changed(state, members_version, &members);
        if !members.is_empty() && members_version == known + 1 {
            return Some(FrameOutcome::Handled);
        }
        // The frame does not name its members, or a version before it is missing.
        state.members_version = 0;
        Some(FrameOutcome::NeedsResync)
    }

    /// Delivers changes of members, if there are any.
    pub(super) fn deliver_members_changed(
        &self,
        state: &mut FeedState,
        members_version: u64,
        members: &[MemberChange],
    ) {
        if !members.is_empty() {
            state.announced_members_version = state.announced_members_version.max(members_version);
            self.subscriber
                .on_event(&ConversationEvent::MembersChanged {
                    members_version,
                    members,
                });
        }
    }

    fn apply_conversation_updated(
        &self,
        state: &mut FeedState,
        body: &[u8],
    ) -> Option<FrameOutcome> {
        let Versions {
            version,
            members_version,
        } = serde_json::from_slice(body).ok()?;
        if version > state.conversation_version {
            self.deliver_conversation_updated(state, version, members_version, body);
        }
        Some(FrameOutcome::Handled)
    }

    /// Delivers the current state of the conversation.
    pub(super) fn deliver_conversation_updated(
        &self,
        state: &mut FeedState,
        version: u64,
        members_version: u64,
        json: &[u8],
    ) {
        state.conversation_version = version;
        state.announced_members_version = state.announced_members_version.max(members_version);
        self.subscriber
            .on_event(&ConversationEvent::ConversationUpdated { json });
    }

    /// Marks the feed as deleted and delivers that.
    pub(super) fn deliver_deleted(&self, state: &mut FeedState) {
        state.is_deleted = true;
        self.subscriber
            .on_event(&ConversationEvent::ConversationDeleted);
    }
}

/// The versions in the JSON of a conversation.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    version: u64,
    members_version: u64,
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
