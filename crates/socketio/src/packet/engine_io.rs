//! Engine.IO v4 packets: one character and a payload. The body of a polling request holds several of them.
//!
//! Over WebSocket, a text message is one packet and a binary message is the payload of one [`EngineIoPacket::Binary`].
//! In a polling body, packets are separated by [`RECORD_SEPARATOR`], and a binary packet is `b` followed by base64.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::borrow::Cow;

/// Separates the packets of a polling body. JSON never contains it unescaped.
pub const RECORD_SEPARATOR: u8 = 0x1e;
/// Payload of the ping by which a client tests an upgrade, and of the pong of the server.
pub const UPGRADE_PROBE: &str = "probe";

/// Accepts base64 with and without padding, because not all client libraries pad.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Packet of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineIoPacket<'a> {
    /// First packet of the server: JSON with the `sid` and the timeouts.
    Open(&'a str),
    /// The sender closes the session.
    Close,
    /// Ping; the receiver answers with a pong that has the same text.
    Ping(&'a str),
    /// Answer to a ping.
    Pong(&'a str),
    /// Text message for the [`SessionHandler`](crate::engine_io::SessionHandler).
    Message(&'a str),
    /// The client has switched to this transport.
    Upgrade,
    /// Has no effect; completes a pending poll.
    Noop,
    /// Binary message for the `SessionHandler`.
    Binary(Cow<'a, [u8]>),
}

/// The input is not an Engine.IO packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EngineIoPacketError {
    /// The packet has no type character.
    #[error("empty packet")]
    Empty,
    /// The type character is unknown.
    #[error("unknown packet type")]
    UnknownType,
    /// The packet has a payload, but its type allows none.
    #[error("payload in a packet type that allows none")]
    UnexpectedPayload,
    /// The payload of a binary packet is not base64.
    #[error("binary packet that is not base64")]
    InvalidBase64,
    /// The polling body is not UTF-8.
    #[error("polling body that is not UTF-8")]
    InvalidUtf8,
}

/// Decodes the packets of a polling body one after the other; an error is the last item. The caller limits the size of
/// the body, and thereby of each packet.
///
/// # Errors
/// The body is not UTF-8.
pub fn decode_polling_body(body: &[u8]) -> Result<PollingBodyPackets<'_>, EngineIoPacketError> {
    let body = std::str::from_utf8(body).map_err(|_| EngineIoPacketError::InvalidUtf8)?;
    Ok(PollingBodyPackets { rest: Some(body) })
}

/// Iterator over the packets of a polling body, see [`decode_polling_body`].
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
            None => EngineIoPacket::decode(part),
        };
        if packet.is_err() {
            self.rest = None;
        }
        Some(packet)
    }
}

impl<'a> EngineIoPacket<'a> {
    /// Decodes the text message of a WebSocket.
    ///
    /// # Errors
    /// The text is not a packet.
    pub fn decode(text: &'a str) -> Result<Self, EngineIoPacketError> {
        let without_payload = |packet, payload: &str| {
            if payload.is_empty() {
                Ok(packet)
            } else {
                Err(EngineIoPacketError::UnexpectedPayload)
            }
        };
        let mut chars = text.chars();
        let packet_type = chars.next().ok_or(EngineIoPacketError::Empty)?;
        let payload = chars.as_str();
        match packet_type {
            '0' => Ok(Self::Open(payload)),
            '1' => without_payload(Self::Close, payload),
            '2' => Ok(Self::Ping(payload)),
            '3' => Ok(Self::Pong(payload)),
            '4' => Ok(Self::Message(payload)),
            '5' => without_payload(Self::Upgrade, payload),
            '6' => without_payload(Self::Noop, payload),
            _ => Err(EngineIoPacketError::UnknownType),
        }
    }

    /// Appends the packet to a polling body, with the separator if the body is not empty. A text packet has the same
    /// form as in a WebSocket message.
    pub fn append_to_polling_body(&self, body: &mut Vec<u8>) {
        match self {
            EngineIoPacket::Binary(bytes) => append_binary_packet(bytes, body),
            text => {
                push_separator(body);
                text.encode(body);
            }
        }
    }

    /// Appends the packet in the form of a WebSocket message; a binary packet appends its bytes only.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (packet_type, payload) = match self {
            EngineIoPacket::Open(json) => (b'0', *json),
            EngineIoPacket::Close => (b'1', ""),
            EngineIoPacket::Ping(text) => (b'2', *text),
            EngineIoPacket::Pong(text) => (b'3', *text),
            EngineIoPacket::Message(text) => (b'4', *text),
            EngineIoPacket::Upgrade => (b'5', ""),
            EngineIoPacket::Noop => (b'6', ""),
            EngineIoPacket::Binary(bytes) => return out.extend_from_slice(bytes),
        };
        out.push(packet_type);
        out.extend_from_slice(payload.as_bytes());
    }
}

/// Appends an encoded text packet, which starts with its type, to a polling body.
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
    // `encode_slice` cannot fail: the slice was just resized to the encoded length.
    let written = BASE64.encode_slice(bytes, &mut body[begin..]).unwrap_or(0);
    body.truncate(begin + written);
}

/// Length of a binary packet of `bytes` in a polling body, without the separator; `maxPayload` applies to this length.
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
