//! Engine.IO v4: packets of one character and a payload, and several of them in the body of a polling request.
//!
//! Over WebSocket a text message is one packet and a binary message is the bytes of one [`Packet::Binary`].
//! Over polling a body holds packets with [`SEPARATOR`] between; bytes are `b` and their base64.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::borrow::Cow;

/// Stands between the packets of a polling body. JSON never holds it unescaped.
pub const RECORD_SEPARATOR: u8 = 0x1e;
/// What a client writes into the ping that tries an upgrade, and the server into the pong.
pub const UPGRADE_PROBE: &str = "probe";

/// Clients pad, but not all libraries insist on it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A packet of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineIoPacket<'a> {
    /// The server's first: JSON with the session's id and times.
    Open(&'a str),
    /// The sender leaves.
    Close,
    /// To be answered by a pong with the same text.
    Ping(&'a str),
    /// The answer to a ping.
    Pong(&'a str),
    /// Text of the layer above.
    Message(&'a str),
    /// The client has moved to this transport.
    Upgrade,
    /// Nothing; ends a waiting polling request.
    Noop,
    /// Bytes of the layer above.
    Binary(Cow<'a, [u8]>),
}

/// Not a packet of Engine.IO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EngineIoPacketError {
    /// No first character.
    #[error("empty packet")]
    Empty,
    /// A first character that no packet has.
    #[error("unknown packet type")]
    UnknownType,
    /// A packet without content that has some.
    #[error("payload in a packet type that allows none")]
    UnexpectedPayload,
    /// Bytes that are not base64.
    #[error("binary packet that is not base64")]
    InvalidBase64,
    /// A polling body that is not text.
    #[error("polling body that is not UTF-8")]
    InvalidUtf8,
}

/// Reads a text message of a WebSocket.
///
/// # Errors
/// It is no packet.
pub fn decode(text: &str) -> Result<EngineIoPacket<'_>, EngineIoPacketError> {
    let bare = |packet, rest: &str| {
        if rest.is_empty() {
            Ok(packet)
        } else {
            Err(EngineIoPacketError::UnexpectedPayload)
        }
    };
    let mut chars = text.chars();
    let kind = chars.next().ok_or(EngineIoPacketError::Empty)?;
    let rest = chars.as_str();
    match kind {
        '0' => Ok(EngineIoPacket::Open(rest)),
        '1' => bare(EngineIoPacket::Close, rest),
        '2' => Ok(EngineIoPacket::Ping(rest)),
        '3' => Ok(EngineIoPacket::Pong(rest)),
        '4' => Ok(EngineIoPacket::Message(rest)),
        '5' => bare(EngineIoPacket::Upgrade, rest),
        '6' => bare(EngineIoPacket::Noop, rest),
        _ => Err(EngineIoPacketError::UnknownType),
    }
}

/// Reads the packets of a polling body one after the other; after an error there is nothing more.
/// The body's size is the caller's bound: no packet is larger than its part of the body.
///
/// # Errors
/// The body is not UTF-8.
pub fn decode_polling_body(body: &[u8]) -> Result<PollingBodyPackets<'_>, EngineIoPacketError> {
    let body = std::str::from_utf8(body).map_err(|_| EngineIoPacketError::InvalidUtf8)?;
    Ok(PollingBodyPackets { rest: Some(body) })
}

/// The packets of a polling body, see [`split`].
#[derive(Debug)]
pub struct PollingBodyPackets<'a> {
    rest: Option<&'a str>,
}

impl<'a> Iterator for PollingBodyPackets<'a> {
    type Item = Result<EngineIoPacket<'a>, EngineIoPacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        let body = self.rest.take()?;
        let part = match body.split_once(char::from(RECORD_SEPARATOR)) {
            Some((part, rest)) => {
                self.rest = Some(rest);
                part
            }
            None => body,
        };
        let packet = match part.strip_prefix('b') {
            Some(coded) => BASE64
                .decode(coded)
                .map(|bytes| EngineIoPacket::Binary(bytes.into()))
                .map_err(|_| EngineIoPacketError::InvalidBase64),
            None => decode(part),
        };
        if packet.is_err() {
            self.rest = None;
        }
        Some(packet)
    }
}

impl EngineIoPacket<'_> {
    /// Appends the packet to a polling body, with the separator if it is not the first.
    /// A text packet is written as it is in a WebSocket message.
    pub fn join(&self, body: &mut Vec<u8>) {
        match self {
            EngineIoPacket::Binary(bytes) => append_binary_packet(bytes, body),
            text => {
                push_separator(body);
                text.write(body);
            }
        }
    }

    /// Appends the packet as the text of a WebSocket message. Bytes go as they are: they are a binary message.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (kind, rest) = match self {
            EngineIoPacket::Open(json) => (b'0', *json),
            EngineIoPacket::Close => (b'1', ""),
            EngineIoPacket::Ping(text) => (b'2', *text),
            EngineIoPacket::Pong(text) => (b'3', *text),
            EngineIoPacket::Message(text) => (b'4', *text),
            EngineIoPacket::Upgrade => (b'5', ""),
            EngineIoPacket::Noop => (b'6', ""),
            EngineIoPacket::Binary(bytes) => return out.extend_from_slice(bytes),
        };
        out.push(kind);
        out.extend_from_slice(rest.as_bytes());
    }
}

/// Appends the text of a packet that is already encoded, its type first, to a polling body.
pub fn append_text_packet(packet: &[u8], body: &mut Vec<u8>) {
    push_separator(body);
    body.extend_from_slice(packet);
}

/// Appends a binary packet to a polling body.
pub fn append_binary_packet(bytes: &[u8], body: &mut Vec<u8>) {
    push_separator(body);
    body.push(b'b');
    let begin = body.len();
    body.resize(begin + base64_len(bytes.len()), 0);
    // The slice has just been made long enough.
    let written = BASE64.encode_slice(bytes, &mut body[begin..]).unwrap_or(0);
    body.truncate(begin + written);
}

/// How long a packet of `bytes` is in a polling body, separator not counted: what a client's payload bound is about.
#[must_use]
pub fn polling_binary_len(bytes: usize) -> usize {
    1 + base64_len(bytes)
}

fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

fn push_separator(body: &mut Vec<u8>) {
    if !body.is_empty() {
        body.push(RECORD_SEPARATOR);
    }
}
