//! How a message is spelled where others read it: on the bus, in the recent list, in the event.
//!
//! Always true: the message's JSON is made once. The frame carries it; the list's entry is the same text with its last
//! brace replaced, which the scripts do.

use std::sync::Arc;

use serde::Serialize;

use super::Message;
use super::row::MessageRow;
use crate::bus::frame::{self, BusFrameKind};
use crate::ids::{ConversationId, UserId};
use crate::keys::RecentLayout;

/// Up to how many members an event names them.
pub(super) const MAX_LISTED_PARTICIPANTS: u64 = 1_000;

/// Bytes of a message's JSON beside its text, mostly.
const JSON_OVERHEAD_BYTES: usize = 320;

/// A message as the scripts take it.
#[derive(Debug)]
pub(super) struct EncodedMessage {
    pub(super) seq: u64,
    pub(super) rev: u64,
    pub(super) sender: UserId,
    /// When it was created, in milliseconds.
    pub(super) created_at: u64,
    pub(super) frame: Vec<u8>,
    /// What stands in the list's entry after the message, in the place of its last brace.
    pub(super) list_entry_suffix: String,
    /// The event up to the participants.
    pub(super) event_prefix: Vec<u8>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageCreatedEvent<'a> {
    conversation_id: &'a ConversationId,
    message_id: &'a str,
    sender_id: &'a UserId,
}

impl EncodedMessage {
    /// A message as it was stored, in a frame of this kind.
    pub(super) fn new(
        kind: BusFrameKind,
        row: MessageRow,
        layout: RecentLayout,
    ) -> (Self, Message) {
        let (role, created_at) = (row.sender_role.clone(), row.created_at);
        let message = row.into_message();
        let encoded = Self::of(kind, &message, &role, created_at, layout);
        (encoded, message)
    }

    pub(super) fn of(
        kind: BusFrameKind,
        message: &Message,
        sender_role: &str,
        created_at: u64,
        layout: RecentLayout,
    ) -> Self {
        let text = message.content.len() + JSON_OVERHEAD_BYTES;
        let mut frame = frame::head(kind, 16 + text);
        frame.extend(message.seq.to_be_bytes());
        frame.extend(message.rev.to_be_bytes());
        serde_json::to_writer(&mut frame, message).expect("strings and numbers serialize to JSON");
        Self {
            seq: message.seq,
            rev: message.rev,
            sender: message.sender_id.clone(),
            created_at,
            frame,
            list_entry_suffix: entry_end(message, sender_role, layout),
            event_prefix: event_start(message),
        }
    }

    /// The list's entry.
    pub(super) fn list_entry(&self) -> Vec<u8> {
        let json = &self.frame[MESSAGE_FRAME_HEADER_LEN..self.frame.len() - 1];
        [json, self.list_entry_suffix.as_bytes()].concat()
    }
}

/// What stands before the message in a frame: version, kind, `seq`, `rev`.
const MESSAGE_FRAME_HEADER_LEN: usize = 18;

fn entry_end(message: &Message, sender_role: &str, layout: RecentLayout) -> String {
    let created_at = &message.created_at;
    match layout {
        RecentLayout::Messages => format!(r#","timestamp":"{created_at}"}}"#),
        RecentLayout::Conversation => {
            format!(r#","timestamp":"{created_at}","sender_role":"{sender_role}"}}"#)
        }
    }
}

fn event_start(message: &Message) -> Vec<u8> {
    let event = MessageCreatedEvent {
        conversation_id: &message.conversation_id,
        message_id: &message.id,
        sender_id: &message.sender_id,
    };
    let mut text = Vec::with_capacity(JSON_OVERHEAD_BYTES);
    serde_json::to_writer(&mut text, &event).expect("strings serialize to JSON");
    text.pop();
    text.push(b',');
    text
}

/// The people of a conversation, as an event tells them.
#[derive(Debug, Clone)]
pub(super) enum EventParticipants {
    /// These.
    Listed(Arc<[UserId]>),
    /// Too many to be named.
    CountOnly(u64),
}

impl EventParticipants {
    /// The end of the event.
    pub(super) fn event_suffix(&self) -> String {
        match self {
            Self::Listed(users) => {
                let users = serde_json::to_string(&users[..]).expect("strings serialize to JSON");
                format!(r#""participantIds":{users}}}"#)
            }
            Self::CountOnly(count) => {
                format!(r#""participantIds":[],"participantCount":{count}}}"#)
            }
        }
    }
}

/// What a frame of a message says: `seq`, `rev`, and the message's JSON. None if it is none.
pub fn decode_message_frame(body: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (seq, rest) = body.split_first_chunk()?;
    let (rev, json) = rest.split_first_chunk()?;
    Some((u64::from_be_bytes(*seq), u64::from_be_bytes(*rev), json))
}
