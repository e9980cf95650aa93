//! A conversation that is followed.
//!
//! Always true:
//! 1. The sink is called under the room's lock and by nobody else, so its calls have one order. No other call takes that
//!    lock but those of the bus, of the task that mends and of the one that ends typing; dropping the follower does not.
//! 2. While something may be missing, frames are held, and a task mends ([`mend`](super::mend)); there is one at most.
//! 3. The cursor is the last message that was told. A message up to it is dropped; one that is not the next is held, and so
//!    is what has a revision that is not the next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use parlor_store::{Event, Sink};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::Notify;

use super::news::{ConversationNews, ConversationSink};
use super::revs::Revs;
use super::{Live, mend};
use crate::bus::frame::{Frame, Kind};
use crate::conversations::MembersChanged;
use crate::ids::{ConversationId, UserId};
use crate::messages::read_frame;
use crate::typing::{self, Typer};
use crate::unread::{Moved, ReceiptChange};

/// Frames, and their bytes, that are held for a room.
const MOST_HELD: usize = 1_024;
const MOST_BYTES: usize = 1 << 20;

/// A conversation that is followed.
pub(super) struct Room {
    pub(super) me: Weak<Self>,
    pub(super) live: Arc<Live>,
    pub(super) conversation: ConversationId,
    pub(super) number: u64,
    pub(super) sink: Arc<dyn ConversationSink>,
    pub(super) state: Mutex<State>,
    /// Nobody follows any more.
    pub(super) ended: AtomicBool,
    pub(super) ending: Notify,
}

pub(super) struct State {
    pub(super) cursor: u64,
    /// The last message that was written when the room was opened.
    pub(super) written: u64,
    pub(super) revs: Revs,
    /// The last version of the members that was told.
    pub(super) members_version: u64,
    pub(super) typers: BTreeMap<UserId, Typer>,
    /// While something may be missing: what came since.
    pub(super) held: Option<Box<Held>>,
    /// The conversation is deleted.
    pub(super) over: bool,
}

#[derive(Default)]
pub(super) struct Held {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// Frames may be missing among those that are held: what is being read has to be read again.
    pub(super) again: bool,
    /// Frames of which no later one tells may be missing: receipts.
    pub(super) unheard: bool,
}

/// What became of a frame.
enum Taken {
    /// It was told, or is of no use.
    Done,
    /// Messages or changes before it are missing.
    Early,
    /// What it says has to be read.
    Unreadable,
}

impl Held {
    fn hold(&mut self, frame: Bytes) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
        if self.frames.len() > MOST_HELD || self.bytes > MOST_BYTES {
            self.lose();
        }
    }

    fn lose(&mut self) {
        *self = Self {
            again: true,
            unheard: true,
            ..Self::default()
        };
    }
}

impl State {
    /// A room that holds what comes until it is opened.
    pub(super) fn holding() -> Self {
        Self {
            cursor: 0,
            written: 0,
            revs: Revs::default(),
            members_version: 0,
            typers: BTreeMap::new(),
            held: Some(Box::default()),
            over: false,
        }
    }
}

impl Sink for Room {
    fn tell(&self, event: &Event) {
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        match event {
            Event::Message { payload, .. } => self.hear(&mut state, payload),
            Event::MaybeMissed => {
                self.doubt(&mut state);
                if let Some(held) = &mut state.held {
                    held.unheard = true;
                }
            }
        }
    }
}

impl Room {
    /// Tells a frame, or holds it.
    fn hear(&self, state: &mut State, frame: &Bytes) {
        if let Some(held) = &mut state.held {
            held.hold(frame.clone());
            return;
        }
        match self.take(state, frame) {
            Taken::Done => {}
            Taken::Early => {
                self.doubt(state);
                if let Some(held) = &mut state.held {
                    held.hold(frame.clone());
                }
            }
            Taken::Unreadable => self.doubt(state),
        }
    }

    /// Something may be missing: holds what comes, and has it mended.
    pub(super) fn doubt(&self, state: &mut State) {
        match &mut state.held {
            Some(held) => held.lose(),
            None if state.over => {}
            None => {
                state.held = Some(Box::default());
                mend::begin(self);
            }
        }
    }

    /// Tells what was held; false if something is still missing.
    pub(super) fn release(&self, state: &mut State) -> bool {
        let Some(mut held) = state.held.take() else {
            return true;
        };
        let mut whole = !held.again;
        held.again = false;
        while whole && let Some(frame) = held.frames.pop_front() {
            held.bytes -= frame.len();
            match self.take(state, &frame) {
                Taken::Done => {}
                Taken::Early => {
                    held.bytes += frame.len();
                    held.frames.push_front(frame);
                    whole = false;
                }
                Taken::Unreadable => whole = false,
            }
        }
        if !whole {
            state.held = Some(held);
        }
        whole
    }

    fn take(&self, state: &mut State, frame: &[u8]) -> Taken {
        let (kind, body) = match Frame::from(frame) {
            Frame::Known(kind, body) => (kind, body),
            Frame::OtherKind => return Taken::Done,
            Frame::OtherVersion => return Taken::Unreadable,
        };
        if state.over {
            return Taken::Done;
        }
        let taken = match kind {
            Kind::MessageCreated => self.created(state, body),
            Kind::MessageChanged => self.changed(state, body),
            Kind::Receipt => self.receipt(body),
            Kind::MembersChanged => self.members(state, body),
            Kind::Typing => typing::decode(body).map(|typer| {
                self.types(state, typer, self.live.ctx.now());
                Taken::Done
            }),
            _ => Some(Taken::Done),
        };
        taken.unwrap_or(Taken::Unreadable)
    }

    fn created(&self, state: &mut State, body: &[u8]) -> Option<Taken> {
        let (seq, rev, json) = read_frame(body)?;
        let new = seq > state.cursor;
        if new && (seq > state.cursor + 1 || state.revs.is_early(rev)) {
            return Some(Taken::Early);
        }
        // One that was written later and changed since has a revision that is early.
        if new && seq <= state.written && rev > state.revs.told() {
            let changed = serde_json::from_slice::<Changed>(json).ok()?;
            if changed.is_any() {
                self.ahead(seq, rev, changed.deleted_at.is_some(), json);
            }
        }
        self.message(state, seq, rev, json);
        Some(Taken::Done)
    }

    /// Tells a message that is the next, and none that was told.
    pub(super) fn message(&self, state: &mut State, seq: u64, rev: u64, json: &[u8]) {
        if seq == state.cursor + 1 {
            state.cursor = seq;
            state.revs.tell(seq, rev);
            self.sink
                .told(&ConversationNews::Message { seq, rev, json });
        }
    }

    fn changed(&self, state: &mut State, body: &[u8]) -> Option<Taken> {
        let (seq, rev, json) = read_frame(body)?;
        // A message that is to be told will be told as it is then.
        if seq > state.cursor || state.revs.is_early(rev) {
            return Some(Taken::Early);
        }
        let changed = serde_json::from_slice::<Changed>(json).ok()?;
        self.change(state, seq, rev, changed.deleted_at.is_some(), json);
        Some(Taken::Done)
    }

    /// Tells a change of a message that is yet to be told.
    pub(super) fn ahead(&self, seq: u64, rev: u64, deleted: bool, json: &[u8]) {
        self.sink.told(&ConversationNews::Ahead {
            seq,
            rev,
            deleted,
            json,
        });
    }

    /// Tells a change of a message, unless a newer one was told.
    pub(super) fn change(&self, state: &mut State, seq: u64, rev: u64, deleted: bool, json: &[u8]) {
        if state.revs.tell(seq, rev) {
            self.sink.told(&ConversationNews::Changed {
                seq,
                rev,
                deleted,
                json,
            });
        }
    }

    fn receipt(&self, body: &[u8]) -> Option<Taken> {
        let change: ReceiptChange = serde_json::from_slice(body).ok()?;
        self.reached(&change);
        Some(Taken::Done)
    }

    /// Tells how far a member has come.
    pub(super) fn reached(&self, change: &ReceiptChange) {
        self.sink.told(&ConversationNews::Receipt {
            delivered: change.moved == Moved::Delivered,
            read: change.moved == Moved::Read,
            change,
        });
    }

    fn members(&self, state: &mut State, body: &[u8]) -> Option<Taken> {
        let MembersChanged {
            members_version,
            deleted,
            members,
        } = serde_json::from_slice(body).ok()?;
        if deleted {
            self.deleted(state);
            return Some(Taken::Done);
        }
        let known = state.members_version;
        if members_version <= known {
            // Late, or once more: whoever it names may have come back since.
            state.members_version = 0;
            return Some(Taken::Unreadable);
        }
        let named = !members.is_empty();
        let joined = members.iter().filter(|it| it.joined);
        let joined: Vec<UserId> = joined.map(|it| it.user_id.clone()).collect();
        let left = members.into_iter().filter(|it| it.role.is_none());
        let left: Vec<UserId> = left.map(|it| it.user_id).collect();
        state.members_version = members_version;
        self.came_and_went(members_version, &joined, &left);
        if named && members_version == known + 1 {
            return Some(Taken::Done);
        }
        // Others came or went between that nobody told.
        state.members_version = 0;
        Some(Taken::Unreadable)
    }

    /// Tells who came and went, if anybody did.
    pub(super) fn came_and_went(&self, members_version: u64, joined: &[UserId], left: &[UserId]) {
        if !joined.is_empty() || !left.is_empty() {
            self.sink.told(&ConversationNews::Members {
                members_version,
                joined,
                left,
            });
        }
    }

    /// The conversation is gone.
    pub(super) fn deleted(&self, state: &mut State) {
        state.over = true;
        self.sink.told(&ConversationNews::Deleted);
    }
}

/// Of a message, whether it was changed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    edited_at: Option<IgnoredAny>,
    deleted_at: Option<IgnoredAny>,
}

impl Changed {
    fn is_any(&self) -> bool {
        self.edited_at.is_some() || self.deleted_at.is_some()
    }
}
