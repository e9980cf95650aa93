//! Socket.IO v5: one packet is `type[attachments-][namespace,][ack id][JSON]`, followed by its attachments as binary messages.
//!
//! Always true:
//! 1. JSON is checked once and never built: what is read are slices of the packet's text.
//! 2. A packet that was read has the JSON its type asks for. How deep it is nested is not bounded here; reading it on is
//!    bounded by serde_json's limit of 128.
//! 3. Names that Socket.IO keeps for itself are no events.

use super::event::{self, Event};
use serde_json::value::RawValue;

/// Attachments of one packet. More are refused.
pub const MOST_ATTACHMENTS: usize = 64;
/// A longer namespace is refused.
pub const LONGEST_NAMESPACE: usize = 256;
/// The namespace of a packet that names none.
pub const ROOT: &str = "/";
/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
pub struct Packet<'a> {
    /// What it is.
    pub kind: Kind,
    /// How many binary messages belong to it and follow it.
    pub attachments: usize,
    /// Where it belongs, with its slash.
    pub namespace: &'a str,
    /// An event's wish for an ack, or the event an ack answers.
    pub id: Option<u64>,
    /// Its JSON, or an empty text.
    pub data: &'a str,
}

/// Not a packet of Socket.IO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A first character that no packet has.
    #[error("unknown packet type")]
    Type,
    /// A binary packet whose number of attachments is missing or too large.
    #[error("bad number of attachments, at most {MOST_ATTACHMENTS}")]
    Attachments,
    /// A namespace that is too long.
    #[error("namespace of more than {LONGEST_NAMESPACE} bytes")]
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

impl Kind {
    fn of(digit: u8) -> Option<Self> {
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

    fn digit(self) -> u8 {
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

impl<'a> Packet<'a> {
    /// Reads all but the JSON, for which [`Packet::event`], [`Packet::args`] and [`Packet::object`] are.
    ///
    /// # Errors
    /// It is no packet.
    pub fn decode(text: &'a str) -> Result<Self, Malformed> {
        let kind = text
            .bytes()
            .next()
            .and_then(Kind::of)
            .ok_or(Malformed::Type)?;
        let mut rest = &text[1..];
        let mut attachments = 0;
        if kind.is_binary() {
            let (count, after) = digits(rest);
            attachments = count
                .and_then(|count| usize::try_from(count).ok())
                .filter(|count| *count <= MOST_ATTACHMENTS)
                .ok_or(Malformed::Attachments)?;
            rest = after.strip_prefix('-').ok_or(Malformed::Attachments)?;
        }
        let mut namespace = ROOT;
        if rest.starts_with('/') {
            (namespace, rest) = rest.split_once(',').unwrap_or((rest, ""));
        }
        if namespace.len() > LONGEST_NAMESPACE {
            return Err(Malformed::Namespace);
        }
        let mut id = None;
        if rest.starts_with(|first: char| first.is_ascii_digit()) {
            (id, rest) = digits(rest);
            // A number above 64 bits.
            id.ok_or(Malformed::Id)?;
        }
        let packet = Self {
            kind,
            attachments,
            namespace,
            id,
            data: rest,
        };
        packet.check_shape()?;
        Ok(packet)
    }

    /// Which types have an id, and what the payload of each begins with, if it has one.
    fn check_shape(&self) -> Result<(), Malformed> {
        match self.kind {
            Kind::Connect | Kind::ConnectError if self.id.is_some() => return Err(Malformed::Id),
            Kind::Disconnect if self.id.is_some() => return Err(Malformed::Payload),
            Kind::Ack | Kind::BinaryAck if self.id.is_none() => return Err(Malformed::Id),
            _ => {}
        }
        let fits = match (self.data.bytes().next(), self.kind) {
            (None, _) | (Some(b'{'), Kind::Connect) | (Some(b'{' | b'"'), Kind::ConnectError) => {
                true
            }
            (_, Kind::Connect | Kind::ConnectError | Kind::Disconnect) => false,
            (Some(first), _) => first == b'[',
        };
        if fits {
            Ok(())
        } else {
            Err(Malformed::Payload)
        }
    }

    /// The name and the arguments of an event.
    ///
    /// # Errors
    /// The payload is no array that begins with a name, or the name is reserved.
    pub fn event(&self) -> Result<Event<'a>, Malformed> {
        event::parse(self.data)
    }

    /// The arguments of an ack: the text between the brackets.
    ///
    /// # Errors
    /// The payload is no array.
    pub fn args(&self) -> Result<&'a str, Malformed> {
        event::elements(self.data)
    }

    /// The object of a connect, or `None` where there is no payload.
    ///
    /// # Errors
    /// The payload is no object.
    pub fn object(&self) -> Result<Option<&'a RawValue>, Malformed> {
        if self.data.is_empty() {
            return Ok(None);
        }
        let raw: &RawValue = serde_json::from_str(self.data).map_err(|_| Malformed::Payload)?;
        if raw.get().starts_with('{') {
            Ok(Some(raw))
        } else {
            Err(Malformed::Payload)
        }
    }

    /// Appends the packet's text. `data` goes as it is: the caller vouches for it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.kind.digit());
        if self.kind.is_binary() {
            push_number(out, self.attachments as u64);
            out.push(b'-');
        }
        if self.namespace != ROOT {
            out.extend_from_slice(self.namespace.as_bytes());
            out.push(b',');
        }
        if let Some(id) = self.id {
            push_number(out, id);
        }
        out.extend_from_slice(self.data.as_bytes());
    }
}

/// The number at the front and what is behind it. `None` where there is none, or one above 64 bits.
fn digits(text: &str) -> (Option<u64>, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(end);
    (number.parse().ok(), rest)
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    use std::io::Write as _;
    // Writing into memory does not fail.
    let _ = write!(out, "{number}");
}
