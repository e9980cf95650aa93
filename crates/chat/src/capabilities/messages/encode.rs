//! Encoding of a message for its readers: bus frame, recent list entry, event.
//!
//! Invariants:
//! 1. The JSON of a message is created once. The frame contains it. The scripts build the list entry from it by
//!    replacing its last brace.

use std::sync::Arc;

use serde::Serialize;

use super::Message;
use super::message_row::MessageRow;
use crate::bus::frame::{self, BusFrameKind};
use crate::ids::{ConversationId, UserId};
use crate::keys::RecentLayout;

/// Length of the header of a message frame: version, kind, `seq`, `rev`. The JSON of the message follows.
pub(super) const MESSAGE_FRAME_HEADER_LEN: usize = FRAME_HEADER_LEN + 16;
/// Length of the header of every frame: version, kind.
const FRAME_HEADER_LEN: usize = 2;
/// Typical JSON size of a message without its text, in bytes.
const JSON_OVERHEAD_BYTES: usize = 320;

/// A message encoded for the scripts.
#[derive(Debug)]
pub(super) struct EncodedMessage {
    pub(super) seq: u64,
    pub(super) rev: u64,
    pub(super) sender: UserId,
    /// Time of creation in ms.
    pub(super) created_at: u64,
    pub(super) frame: Vec<u8>,
    /// Text that replaces the closing brace of the JSON in a recent list entry.
    pub(super) list_entry_suffix: String,
    /// JSON of the event up to the participants.
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
    /// Encodes a row for the scripts, with a frame of this kind, and for clients.
    pub(super) fn new(
        kind: BusFrameKind,
        row: MessageRow,
        layout: RecentLayout,
    ) -> (Self, Message) {
        let (sender_role, created_at) = (row.sender_role.clone(), row.created_at);
        let message = row.into_message();
        let json_len = message.content.len() + JSON_OVERHEAD_BYTES;
        let mut frame = frame::start_frame(kind, MESSAGE_FRAME_HEADER_LEN + json_len);
        frame.extend(message.seq.to_be_bytes());
        frame.extend(message.rev.to_be_bytes());
        serde_json::to_writer(&mut frame, &message).expect("strings and numbers serialize to JSON");
        let encoded = Self {
            seq: message.seq,
            rev: message.rev,
            sender: message.sender_id.clone(),
            created_at,
            frame,
            list_entry_suffix: list_entry_suffix(&message, &sender_role, layout),
            event_prefix: event_prefix(&message),
        };
        (encoded, message)
    }

    /// Returns the frame for the feeds of this node, with the `members_version` of the conversation at the commit.
    pub(super) fn unpublished_frame(&self, members_version: u64) -> Vec<u8> {
        let message = &self.frame[FRAME_HEADER_LEN..];
        let mut frame = frame::start_frame(BusFrameKind::UnpublishedMessage, 8 + message.len());
        frame.extend(members_version.to_be_bytes());
        frame.extend(message);
        frame
    }

    /// Returns the complete recent list entry.
    pub(super) fn list_entry(&self) -> Vec<u8> {
        let json = &self.frame[MESSAGE_FRAME_HEADER_LEN..self.frame.len() - 1];
        [json, self.list_entry_suffix.as_bytes()].concat()
    }
}

fn list_entry_suffix(message: &Message, sender_role: &str, layout: RecentLayout) -> String {
    let created_at = &message.created_at;
    match layout {
        RecentLayout::Messages => format!(r#","timestamp":"{created_at}"}}"#),
        RecentLayout::Conversation => {
            format!(r#","timestamp":"{created_at}","sender_role":"{sender_role}"}}"#)
        }
    }
}

fn event_prefix(message: &Message) -> Vec<u8> {
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

/// Members of a conversation as the event names them. The script leaves out the sender of each message.
#[derive(Debug, Clone)]
pub(super) enum EventParticipants {
    /// Ids of all members.
    Listed(Arc<[UserId]>),
    /// Number of members, if there are too many to list.
    CountOnly(u64),
}

impl EventParticipants {
    /// Returns the JSON of the event from the participants on.
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

/// Splits the body of an unpublished message into the `members_version` and the body of a message frame.
pub(crate) fn decode_unpublished_frame(body: &[u8]) -> Option<(u64, &[u8])> {
    let (members_version, body) = body.split_first_chunk()?;
    Some((u64::from_be_bytes(*members_version), body))
}

/// Splits the body of a message frame into `seq`, `rev` and the JSON of the message. `None` if the body is too short.
pub fn decode_message_frame(body: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (seq, rest) = body.split_first_chunk()?;
    let (rev, json) = rest.split_first_chunk()?;
    Some((u64::from_be_bytes(*seq), u64::from_be_bytes(*rev), json))
}
