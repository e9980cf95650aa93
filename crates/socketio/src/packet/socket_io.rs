//! Socket.IO v5 packets. A packet is `type[attachments-][namespace,][ack id][JSON]`; its attachments follow as binary
//! messages.
//!
//! Invariants:
//! 1. JSON is validated once, and decoded parts are slices of the packet's text. Only the placeholders of a binary packet
//!    are checked on values.
//! 2. The payload of a decoded packet starts with the character that its type requires. `parse_event`, `parse_ack_args`
//!    and `parse_connect_payload` validate the JSON itself, with any nesting. Building values from it is limited to 128
//!    levels by serde_json.
//! 3. An event never has a name that Socket.IO reserves.

use super::event_payload::{self, EventPayload};
use serde_json::value::RawValue;

/// Maximum attachments of one packet.
pub const MAX_ATTACHMENTS: usize = 64;
/// Maximum bytes of a namespace.
pub const MAX_NAMESPACE_LEN: usize = 256;
/// Namespace of a packet that names none.
pub const MAIN_NAMESPACE: &str = "/";

/// Type of a packet, with its digit on the wire.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketIoPacketType {
    /// Connects to a namespace; the payload is an object or empty.
    Connect = b'0',
    /// Disconnects from a namespace.
    Disconnect = b'1',
    /// Event with a name and arguments.
    Event = b'2',
    /// Answer to an event, with arguments.
    Ack = b'3',
    /// The server rejects a CONNECT.
    ConnectError = b'4',
    /// Event with attachments.
    BinaryEvent = b'5',
    /// Ack with attachments.
    BinaryAck = b'6',
}

/// Packet whose JSON is not parsed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketIoPacket<'a> {
    /// Type of the packet.
    pub packet_type: SocketIoPacketType,
    /// Number of binary messages that follow the packet and belong to it.
    pub attachments: usize,
    /// Namespace, with its leading slash.
    pub namespace: &'a str,
    /// Id by which an event requests an ack, or of the event that an ack answers.
    pub ack_id: Option<u64>,
    /// JSON text, or empty.
    pub json: &'a str,
}

/// The input is not a Socket.IO packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SocketIoPacketError {
    /// The type character is unknown.
    #[error("unknown packet type")]
    UnknownType,
    /// The packet is not allowed in this state of the session.
    #[error("packet that is not allowed in this state")]
    UnexpectedPacket,
    /// The number of attachments is missing or too large.
    #[error("bad number of attachments, at most {MAX_ATTACHMENTS}")]
    InvalidAttachmentCount,
    /// The attachments have too many bytes.
    #[error("attachments that are too large")]
    AttachmentsTooLarge,
    /// The namespace is too long.
    #[error("namespace of more than {MAX_NAMESPACE_LEN} bytes")]
    NamespaceTooLong,
    /// The ack id is too large, missing, or not allowed for this type.
    #[error("bad ack id")]
    InvalidAckId,
    /// The payload is not JSON, or not the JSON that the type requires.
    #[error("bad payload")]
    InvalidPayload,
    /// The name of the event is reserved by Socket.IO.
    #[error("reserved event name")]
    ReservedEventName,
    /// A placeholder refers to an attachment that the packet does not have.
    #[error("placeholder of an unknown attachment")]
    UnknownPlaceholder,
}

impl SocketIoPacketType {
    fn from_digit(digit: u8) -> Option<Self> {
        [
            Self::Connect,
            Self::Disconnect,
            Self::Event,
            Self::Ack,
            Self::ConnectError,
            Self::BinaryEvent,
            Self::BinaryAck,
        ]
        .into_iter()
        .find(|packet_type| *packet_type as u8 == digit)
    }

    /// True if attachments may follow the packet.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::BinaryEvent | Self::BinaryAck)
    }
}

impl<'a> SocketIoPacket<'a> {
    /// Decodes everything but the JSON; see [`SocketIoPacket::parse_event`], [`SocketIoPacket::parse_ack_args`] and
    /// [`SocketIoPacket::parse_connect_payload`].
    ///
    /// # Errors
    /// The text is not a packet.
    pub fn decode(text: &'a str) -> Result<Self, SocketIoPacketError> {
        let packet_type = text
            .bytes()
            .next()
            .and_then(SocketIoPacketType::from_digit)
            .ok_or(SocketIoPacketError::UnknownType)?;
        let mut rest = &text[1..];
        let mut attachments = 0;
        if packet_type.is_binary() {
            let (count, after) = split_leading_number(rest);
            attachments = count
                .and_then(|count| usize::try_from(count).ok())
                .filter(|count| *count <= MAX_ATTACHMENTS)
                .ok_or(SocketIoPacketError::InvalidAttachmentCount)?;
            rest = after
                .strip_prefix('-')
                .ok_or(SocketIoPacketError::InvalidAttachmentCount)?;
        }
        let mut namespace = MAIN_NAMESPACE;
        if rest.starts_with('/') {
            (namespace, rest) = rest.split_once(',').unwrap_or((rest, ""));
        }
        if namespace.len() > MAX_NAMESPACE_LEN {
            return Err(SocketIoPacketError::NamespaceTooLong);
        }
        let mut ack_id = None;
        if rest.starts_with(|first: char| first.is_ascii_digit()) {
            (ack_id, rest) = split_leading_number(rest);
            // The number does not fit into 64 bits.
            ack_id.ok_or(SocketIoPacketError::InvalidAckId)?;
        }
        let packet = Self {
            packet_type,
            attachments,
            namespace,
            ack_id,
            json: rest,
        };
        packet.check_id_and_payload()?;
        Ok(packet)
    }

    /// Checks which types have an ack id, and the first character of the payload.
    fn check_id_and_payload(&self) -> Result<(), SocketIoPacketError> {
        match self.packet_type {
            SocketIoPacketType::Connect | SocketIoPacketType::ConnectError
                if self.ack_id.is_some() =>
            {
                return Err(SocketIoPacketError::InvalidAckId);
            }
            SocketIoPacketType::Disconnect if self.ack_id.is_some() => {
                return Err(SocketIoPacketError::InvalidPayload);
            }
            SocketIoPacketType::Ack | SocketIoPacketType::BinaryAck if self.ack_id.is_none() => {
                return Err(SocketIoPacketError::InvalidAckId);
            }
            _ => {}
        }
        let is_allowed = match (self.json.bytes().next(), self.packet_type) {
            (None, _)
            | (Some(b'{'), SocketIoPacketType::Connect)
            | (Some(b'{' | b'"'), SocketIoPacketType::ConnectError) => true,
            (
                _,
                SocketIoPacketType::Connect
                | SocketIoPacketType::ConnectError
                | SocketIoPacketType::Disconnect,
            ) => false,
            (Some(first), _) => first == b'[',
        };
        if is_allowed {
            Ok(())
        } else {
            Err(SocketIoPacketError::InvalidPayload)
        }
    }

    /// Name and arguments of an event.
    ///
    /// # Errors
    /// The payload is not an array that begins with a name, or the name is reserved.
    pub fn parse_event(&self) -> Result<EventPayload<'a>, SocketIoPacketError> {
        event_payload::parse_event_payload(self.json)
    }

    /// Arguments of an ack: the text between the brackets.
    ///
    /// # Errors
    /// The payload is not an array.
    pub fn parse_ack_args(&self) -> Result<&'a str, SocketIoPacketError> {
        event_payload::parse_ack_payload(self.json)
    }

    /// Object of a CONNECT packet, or `None` without a payload.
    ///
    /// # Errors
    /// The payload is not an object.
    pub fn parse_connect_payload(&self) -> Result<Option<&'a RawValue>, SocketIoPacketError> {
        if self.json.is_empty() {
            return Ok(None);
        }
        let raw: &RawValue =
            serde_json::from_str(self.json).map_err(|_| SocketIoPacketError::InvalidPayload)?;
        if raw.get().starts_with('{') {
            Ok(Some(raw))
        } else {
            Err(SocketIoPacketError::InvalidPayload)
        }
    }

    /// Appends the text of the packet. `json` is written unchecked.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.packet_type as u8);
        if self.packet_type.is_binary() {
            push_number(out, self.attachments as u64);
            out.push(b'-');
        }
        if self.namespace != MAIN_NAMESPACE {
            out.extend_from_slice(self.namespace.as_bytes());
            out.push(b',');
        }
        if let Some(id) = self.ack_id {
            push_number(out, id);
        }
        out.extend_from_slice(self.json.as_bytes());
    }
}

/// Splits a number off the front. `None` if there is none, or if it does not fit into 64 bits.
fn split_leading_number(text: &str) -> (Option<u64>, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(end);
    (number.parse().ok(), rest)
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    use std::io::Write as _;
    // Writing to memory does not fail.
    let _ = write!(out, "{number}");
}
