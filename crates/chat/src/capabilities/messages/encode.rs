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

/// Length of the header of a message frame: version, kind, `seq`, `rev`, `members_version`. The JSON of the message
/// follows.
pub(super) const MESSAGE_FRAME_HEADER_LEN: usize = 2 + 24;
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
    /// Encodes a row for the scripts, with a frame of this kind and the `members_version` of the conversation, and for
    /// clients.
    pub(super) fn new(
        kind: BusFrameKind,
        row: MessageRow,
        members_version: u64,
        layout: RecentLayout,
    ) -> (Self, Message) {
        let (sender_role, created_at) = (row.sender_role.clone(), row.created_at);
        let message = row.into_message();
        let json_len = message.content.len() + JSON_OVERHEAD_BYTES;
        let mut frame = frame::start_frame(kind, MESSAGE_FRAME_HEADER_LEN + json_len);
        frame.extend(message.seq.to_be_bytes());
        frame.extend(message.rev.to_be_bytes());
        frame.extend(members_version.to_be_bytes());
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

/// Header of a message frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageFrameHeader {
    /// Number of the message in its conversation.
    pub seq: u64,
    /// Revision of the conversation when the message was created or changed last.
    pub rev: u64,
    /// `members_version` of the conversation when the message was committed or read. A node that knows an older one reads
    /// the members again before it delivers the message.
    pub members_version: u64,
}

/// Splits the body of a message frame into its header and the JSON of the message. `None` if the body is too short.
pub fn decode_message_frame(body: &[u8]) -> Option<(MessageFrameHeader, &[u8])> {
    let (seq, rest) = body.split_first_chunk()?;
    let (rev, rest) = rest.split_first_chunk()?;
    let (members_version, json) = rest.split_first_chunk()?;
    let header = MessageFrameHeader {
        seq: u64::from_be_bytes(*seq),
        rev: u64::from_be_bytes(*rev),
        members_version: u64::from_be_bytes(*members_version),
    };
    Some((header, json))
}
