//! Socket.IO v5: one packet is `type[attachments-][namespace,][ack id][JSON]`, followed by its attachments as binary messages.
//!
//! Always true:
//! 1. JSON is checked once and never built: what is read are slices of the packet's text.
//! 2. A packet that was read has the JSON its type asks for. How deep it is nested is not bounded here; reading it on is
//!    bounded by serde_json's limit of 128.
//! 3. Names that Socket.IO keeps for itself are no events.

use super::event::{self, EventPayload};
use serde_json::value::RawValue;

/// Attachments of one packet. More are refused.
pub const MAX_ATTACHMENTS: usize = 64;
/// A longer namespace is refused.
pub const MAX_NAMESPACE_LEN: usize = 256;
/// The namespace of a packet that names none.
pub const MAIN_NAMESPACE: &str = "/";
/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketIoPacketType {
    /// To a namespace, with an object or nothing.
    Connect,
    /// Off a namespace.
    Disconnect,
    /// A name and arguments.
    Event,
    /// Arguments in answer to an event.
    Ack,
    /// The server's refusal of a connect.
    ConnectError,
    /// An event with attachments.
    BinaryEvent,
    /// An ack with attachments.
    BinaryAck,
}

/// A packet whose JSON is still one slice, not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketIoPacket<'a> {
    /// What it is.
    pub packet_type: SocketIoPacketType,
    /// How many binary messages belong to it and follow it.
    pub attachments: usize,
    /// Where it belongs, with its slash.
    pub namespace: &'a str,
    /// An event's wish for an ack, or the event an ack answers.
    pub ack_id: Option<u64>,
    /// Its JSON, or an empty text.
    pub json: &'a str,
}

/// Not a packet of Socket.IO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SocketIoPacketError {
    /// A first character that no packet has.
    #[error("packet type is unknown or not allowed in this state")]
    Type,
    /// A binary packet whose number of attachments is missing or too large.
    #[error("bad number or size of attachments, at most {MAX_ATTACHMENTS}")]
    Attachments,
    /// A namespace that is too long.
    #[error("namespace of more than {MAX_NAMESPACE_LEN} bytes")]
    Namespace,
    /// An id that is no number, or in a packet that has none, or missing in one that has one.
    #[error("bad ack id")]
    Id,
    /// JSON that is none, or of the wrong kind for the packet.
    #[error("bad payload")]
    Payload,
    /// An event that only the library itself may tell.
    #[error("reserved event name")]
    Reserved,
    /// A placeholder for an attachment that the packet does not have.
    #[error("placeholder of an unknown attachment")]
    Placeholder,
}

impl SocketIoPacketType {
    fn from_digit(digit: u8) -> Option<Self> {
        Some(match digit {
            b'0' => Self::Connect,
            b'1' => Self::Disconnect,
            b'2' => Self::Event,
            b'3' => Self::Ack,
            b'4' => Self::ConnectError,
            b'5' => Self::BinaryEvent,
            b'6' => Self::BinaryAck,
            _ => return None,
        })
    }

    fn to_digit(self) -> u8 {
        match self {
            Self::Connect => b'0',
            Self::Disconnect => b'1',
            Self::Event => b'2',
            Self::Ack => b'3',
            Self::ConnectError => b'4',
            Self::BinaryEvent => b'5',
            Self::BinaryAck => b'6',
        }
    }

    /// Whether attachments follow it.
    #[must_use]
    pub fn is_binary(self) -> bool {
        matches!(self, Self::BinaryEvent | Self::BinaryAck)
    }
}

impl<'a> SocketIoPacket<'a> {
    /// Reads all but the JSON, for which [`Packet::event`], [`Packet::args`] and [`Packet::object`] are.
    ///
    /// # Errors
    /// It is no packet.
    pub fn decode(text: &'a str) -> Result<Self, SocketIoPacketError> {
        let kind = text
            .bytes()
            .next()
            .and_then(SocketIoPacketType::from_digit)
            .ok_or(SocketIoPacketError::Type)?;
        let mut rest = &text[1..];
        let mut attachments = 0;
        if kind.is_binary() {
            let (count, after) = split_leading_number(rest);
            attachments = count
                .and_then(|count| usize::try_from(count).ok())
                .filter(|count| *count <= MAX_ATTACHMENTS)
                .ok_or(SocketIoPacketError::Attachments)?;
            rest = after
                .strip_prefix('-')
                .ok_or(SocketIoPacketError::Attachments)?;
        }
        let mut namespace = MAIN_NAMESPACE;
        if rest.starts_with('/') {
            (namespace, rest) = rest.split_once(',').unwrap_or((rest, ""));
        }
        if namespace.len() > MAX_NAMESPACE_LEN {
            return Err(SocketIoPacketError::Namespace);
        }
        let mut id = None;
        if rest.starts_with(|first: char| first.is_ascii_digit()) {
            (id, rest) = split_leading_number(rest);
            // A number above 64 bits.
            id.ok_or(SocketIoPacketError::Id)?;
        }
        let packet = Self {
            packet_type: kind,
            attachments,
            namespace,
            ack_id: id,
            json: rest,
        };
        packet.check_id_and_payload()?;
        Ok(packet)
    }

    /// Which types have an id, and what the payload of each begins with, if it has one.
    fn check_id_and_payload(&self) -> Result<(), SocketIoPacketError> {
        match self.packet_type {
            SocketIoPacketType::Connect | SocketIoPacketType::ConnectError
                if self.ack_id.is_some() =>
            {
                return Err(SocketIoPacketError::Id);
            }
            SocketIoPacketType::Disconnect if self.ack_id.is_some() => {
                return Err(SocketIoPacketError::Payload);
            }
            SocketIoPacketType::Ack | SocketIoPacketType::BinaryAck if self.ack_id.is_none() => {
                return Err(SocketIoPacketError::Id);
            }
            _ => {}
        }
        let fits = match (self.json.bytes().next(), self.packet_type) {
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
        if fits {
            Ok(())
        } else {
            Err(SocketIoPacketError::Payload)
        }
    }

    /// The name and the arguments of an event.
    ///
    /// # Errors
    /// The payload is no array that begins with a name, or the name is reserved.
    pub fn parse_event(&self) -> Result<EventPayload<'a>, SocketIoPacketError> {
        event::parse_event_payload(self.json)
    }

    /// The arguments of an ack: the text between the brackets.
    ///
    /// # Errors
    /// The payload is no array.
    pub fn args(&self) -> Result<&'a str, SocketIoPacketError> {
        event::parse_ack_payload(self.json)
    }

    /// The object of a connect, or `None` where there is no payload.
    ///
    /// # Errors
    /// The payload is no object.
    pub fn parse_connect_payload(&self) -> Result<Option<&'a RawValue>, SocketIoPacketError> {
        if self.json.is_empty() {
            return Ok(None);
        }
        let raw: &RawValue =
            serde_json::from_str(self.json).map_err(|_| SocketIoPacketError::Payload)?;
        if raw.get().starts_with('{') {
            Ok(Some(raw))
        } else {
            Err(SocketIoPacketError::Payload)
        }
    }

    /// Appends the packet's text. `data` goes as it is: the caller vouches for it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.packet_type.to_digit());
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

/// The number at the front and what is behind it. `None` where there is none, or one above 64 bits.
fn split_leading_number(text: &str) -> (Option<u64>, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(end);
    (number.parse().ok(), rest)
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    use std::io::Write as _;
    // Writing into memory does not fail.
    let _ = write!(out, "{number}");
}
