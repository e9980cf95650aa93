//! WebSocket frames for a load generator: client frames are encoded once and sent many times, server frames are
//! classified by their first bytes.
//!
//! Invariant: only the bytes of a payload that determine its kind are read, and the stamp of a message if stamps are
//! requested.

/// Fixed mask. RFC 6455 requires a random one to protect proxies; there is no proxy here, and the server cannot notice.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// First byte of an unfragmented text frame, and of a close frame.
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
/// Acknowledgement after its one-digit id: no client has two events in flight.
const ACK_OK_PREFIX: &[u8] = b"[{\"ok\":true";
const MESSAGE_NEW_PREFIX: &[u8] = b"[\"message:new\"";
/// Prefix of the number in the text of a message.
const STAMP_PREFIX: &str = "stamp=";
/// Digits of that number.
const STAMP_DIGITS: usize = 8;

/// Kind of a server frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceivedKind {
    /// Engine.IO: open packet.
    Open,
    /// Engine.IO: ping.
    Ping,
    /// Socket.IO: CONNECT.
    Connected,
    /// Acknowledgement with `ok: true`.
    Ack,
    /// `message:new`, with its stamp if it has one.
    Message(Option<u32>),
    /// Any other event.
    Event,
    /// CONNECT_ERROR, or an acknowledgement with an error.
    Rejected,
    /// Close frame.
    Close,
    /// Any other frame.
    Other,
}

/// Encodes a text frame of a client.
pub fn text_frame(payload: &str) -> Vec<u8> {
    frame(TEXT, payload.as_bytes())
}

/// Encodes an event that requests an acknowledgement.
pub fn event_with_ack(name: &str, body: &str) -> Vec<u8> {
    text_frame(&format!("420[\"{name}\",{body}]"))
}

/// Encodes a DISCONNECT packet and a close frame.
pub fn disconnect_frames() -> Vec<u8> {
    let mut bytes = text_frame("41");
    bytes.extend(frame(CLOSE, &1000u16.to_be_bytes()));
    bytes
}

/// Creates the text of a message with this length that contains a number.
pub fn stamped_content(number: u32, length: usize) -> String {
    format!(
        "{:m<length$}",
        format!("{STAMP_PREFIX}{number:0STAMP_DIGITS$}")
    )
}

fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![head];
    match u16::try_from(payload.len()) {
        Ok(length @ ..126) => bytes.push(0x80 | length as u8),
        Ok(length) => {
            bytes.push(0x80 | 126);
            bytes.extend(length.to_be_bytes());
        }
        Err(_) => {
            bytes.push(0x80 | 127);
            bytes.extend((payload.len() as u64).to_be_bytes());
        }
    }
    bytes.extend(MASK);
    let masked = payload
        .iter()
        .zip(MASK.iter().cycle())
        .map(|(byte, mask)| byte ^ mask);
    bytes.extend(masked);
    bytes
}

/// Splits the first frame off if it is complete. Returns its first byte, its payload and its length.
pub fn split_first_frame(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (&head, &length) = (bytes.first()?, bytes.get(1)?);
    let (start, length) = match length & 0x7f {
        126 => (4, u64::from(u16::from_be_bytes(*bytes[2..].first_chunk()?))),
        127 => (10, u64::from_be_bytes(*bytes[2..].first_chunk()?)),
        short => (2, u64::from(short)),
    };
    let end = start + usize::try_from(length).ok()?;
    Some((head, bytes.get(start..end)?, end))
}

/// Classifies a frame by its first bytes; with `stamps`, also parses the stamp of a message.
pub fn classify(head: u8, payload: &[u8], stamps: bool) -> ReceivedKind {
    if head != TEXT {
        return if head == CLOSE {
            ReceivedKind::Close
        } else {
            ReceivedKind::Other
        };
    }
    match payload {
        [b'0', ..] => ReceivedKind::Open,
        [b'2'] => ReceivedKind::Ping,
        [b'4', b'0', ..] => ReceivedKind::Connected,
        [b'4', b'3', _, rest @ ..] if rest.starts_with(ACK_OK_PREFIX) => ReceivedKind::Ack,
        [b'4', b'3' | b'4', ..] => ReceivedKind::Rejected,
        [b'4', b'2', rest @ ..] if rest.starts_with(MESSAGE_NEW_PREFIX) => {
            ReceivedKind::Message(if stamps { find_stamp(rest) } else { None })
        }
        [b'4', b'2', ..] => ReceivedKind::Event,
        _ => ReceivedKind::Other,
    }
}

fn find_stamp(payload: &[u8]) -> Option<u32> {
    let at = payload
        .windows(STAMP_PREFIX.len())
        .position(|window| window == STAMP_PREFIX.as_bytes())?;
    let digits = payload
        .get(at + STAMP_PREFIX.len()..)?
        .get(..STAMP_DIGITS)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![TEXT];
        if payload.len() < 126 {
            bytes.push(payload.len() as u8);
        } else {
            bytes.push(126);
            bytes.extend((payload.len() as u16).to_be_bytes());
        }
        bytes.extend(payload);
        bytes
    }

    fn seen(payload: &str) -> ReceivedKind {
        classify(TEXT, payload.as_bytes(), true)
    }

    #[test]
    fn frames_are_told_apart_by_their_first_bytes() {
        let cases = [
            ("0{\"sid\":\"a\"}", ReceivedKind::Open),
            ("2", ReceivedKind::Ping),
            ("40{\"sid\":\"b\"}", ReceivedKind::Connected),
            ("44{\"message\":\"no\"}", ReceivedKind::Rejected),
            ("430[{\"ok\":true,\"nextInMs\":1}]", ReceivedKind::Ack),
            ("430[{\"ok\":false,\"error\":{}}]", ReceivedKind::Rejected),
            ("42[\"unread\",{}]", ReceivedKind::Event),
            (
                "42[\"message:new\",{\"content\":\"m\"}]",
                ReceivedKind::Message(None),
            ),
            (
                "42[\"message:new\",{\"content\":\"stamp=00000042\"}]",
                ReceivedKind::Message(Some(42)),
            ),
        ];
        for (payload, expected) in cases {
            assert_eq!(seen(payload), expected, "{payload}");
        }
        assert_eq!(classify(CLOSE, &[], false), ReceivedKind::Close);
    }

    #[test]
    fn a_frame_is_found_only_when_it_is_whole() {
        let long = "m".repeat(300);
        let mut bytes = served(long.as_bytes());
        bytes.extend(served(b"2"));
        for cut in 0..304 {
            assert!(split_first_frame(&bytes[..cut]).is_none(), "{cut}");
        }
        let (_, payload, used) = split_first_frame(&bytes).unwrap();
        assert_eq!((payload, used), (long.as_bytes(), 304));
        let (head, payload, _) = split_first_frame(&bytes[used..]).unwrap();
        assert_eq!(classify(head, payload, false), ReceivedKind::Ping);
    }

    #[test]
    fn what_is_sent_is_masked_and_has_its_length() {
        for length in [0, 5, 125, 126, 70_000] {
            let payload = "x".repeat(length);
            let mut bytes = text_frame(&payload);
            let mask_at = match length {
                ..126 => 2,
                126..65_536 => 4,
                _ => 10,
            };
            let mask: [u8; 4] = bytes[mask_at..mask_at + 4].try_into().unwrap();
            bytes.drain(mask_at..mask_at + 4);
            for (byte, mask) in bytes[mask_at..].iter_mut().zip(mask.iter().cycle()) {
                *byte ^= mask;
            }
            let (head, found, used) = split_first_frame(&bytes).unwrap();
            assert_eq!((head, found.len(), used), (TEXT, length, bytes.len()));
            assert!(found.iter().all(|byte| *byte == b'x'));
        }
    }
}
