//! WebSocket frames, as far as a load generator needs them: ours are made once and sent many times, the server's are counted
//! by their first bytes.
//!
//! Always true: nothing of a payload is looked at but what tells its kind, and the stamp of a message where one is asked for.

/// RFC 6455 wants a random one against proxies; there is none here, and the server cannot know.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// Opcode and final bit of a whole text frame, and of the end of a connection.
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
/// How an acknowledgement goes on after its number, which is one digit: nobody has two under way.
const ACKED: &[u8] = b"[{\"ok\":true";
const MESSAGE: &[u8] = b"[\"message:new\"";
/// What stands before the number of a message.
const STAMP: &str = "stamp=";
/// Digits of that number.
const DIGITS: usize = 8;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Engine.IO: the session is open.
    Open,
    /// Engine.IO: is somebody there?
    Ping,
    /// Socket.IO: let in.
    Connected,
    /// Socket.IO: `ok`.
    Ack,
    /// `message:new`, with its stamp where it has one.
    Message(Option<u32>),
    /// Any other event.
    Event,
    /// Refused, at the door or by an acknowledgement.
    Refused,
    /// The server ends the connection.
    Close,
    /// Anything else.
    Other,
}

/// A text frame as a client sends it.
pub fn text(payload: &str) -> Vec<u8> {
    frame(TEXT, payload.as_bytes())
}

/// An event that wants an acknowledgement.
pub fn event(name: &str, body: &str) -> Vec<u8> {
    text(&format!("420[\"{name}\",{body}]"))
}

/// A clean goodbye: out of the namespace, then the end of the connection.
pub fn goodbye() -> Vec<u8> {
    let mut bytes = text("41");
    bytes.extend(frame(CLOSE, &1000u16.to_be_bytes()));
    bytes
}

/// A message's text of this length that carries a number.
pub fn stamped(number: u32, length: usize) -> String {
    format!("{:m<length$}", format!("{STAMP}{number:0DIGITS$}"))
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

/// The payload of the first frame and how many bytes it takes, if it is whole.
pub fn first(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (&head, &length) = (bytes.first()?, bytes.get(1)?);
    let (start, length) = match length & 0x7f {
        126 => (4, u64::from(u16::from_be_bytes(*bytes[2..].first_chunk()?))),
        127 => (10, u64::from_be_bytes(*bytes[2..].first_chunk()?)),
        short => (2, u64::from(short)),
    };
    let end = start + usize::try_from(length).ok()?;
    Some((head, bytes.get(start..end)?, end))
}

/// What it is, by its first bytes; `stamps`: the stamp of a message is looked for.
pub fn kind(head: u8, payload: &[u8], stamps: bool) -> Kind {
    if head != TEXT {
        return if head == CLOSE {
            Kind::Close
        } else {
            Kind::Other
        };
    }
    match payload {
        [b'0', ..] => Kind::Open,
        [b'2'] => Kind::Ping,
        [b'4', b'0', ..] => Kind::Connected,
        [b'4', b'3', _, rest @ ..] if rest.starts_with(ACKED) => Kind::Ack,
        [b'4', b'3' | b'4', ..] => Kind::Refused,
        [b'4', b'2', rest @ ..] if rest.starts_with(MESSAGE) => {
            Kind::Message(if stamps { stamp(rest) } else { None })
        }
        [b'4', b'2', ..] => Kind::Event,
        _ => Kind::Other,
    }
}

fn stamp(payload: &[u8]) -> Option<u32> {
    let at = payload
        .windows(STAMP.len())
        .position(|window| window == STAMP.as_bytes())?;
    let digits = payload.get(at + STAMP.len()..)?.get(..DIGITS)?;
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

    fn seen(payload: &str) -> Kind {
        kind(TEXT, payload.as_bytes(), true)
    }

    #[test]
    fn frames_are_told_apart_by_their_first_bytes() {
        let cases = [
            ("0{\"sid\":\"a\"}", Kind::Open),
            ("2", Kind::Ping),
            ("40{\"sid\":\"b\"}", Kind::Connected),
            ("44{\"message\":\"no\"}", Kind::Refused),
            ("430[{\"ok\":true,\"nextInMs\":1}]", Kind::Ack),
            ("430[{\"ok\":false,\"error\":{}}]", Kind::Refused),
            ("42[\"unread\",{}]", Kind::Event),
            (
                "42[\"message:new\",{\"content\":\"m\"}]",
                Kind::Message(None),
            ),
            (
                "42[\"message:new\",{\"content\":\"stamp=00000042\"}]",
                Kind::Message(Some(42)),
            ),
        ];
        for (payload, expected) in cases {
            assert_eq!(seen(payload), expected, "{payload}");
        }
        assert_eq!(kind(CLOSE, &[], false), Kind::Close);
    }

    #[test]
    fn a_frame_is_found_only_when_it_is_whole() {
        let long = "m".repeat(300);
        let mut bytes = served(long.as_bytes());
        bytes.extend(served(b"2"));
        for cut in 0..304 {
            assert!(first(&bytes[..cut]).is_none(), "{cut}");
        }
        let (_, payload, used) = first(&bytes).unwrap();
        assert_eq!((payload, used), (long.as_bytes(), 304));
        let (head, payload, _) = first(&bytes[used..]).unwrap();
        assert_eq!(kind(head, payload, false), Kind::Ping);
    }

    #[test]
    fn what_is_sent_is_masked_and_has_its_length() {
        for length in [0, 5, 125, 126, 70_000] {
            let payload = "x".repeat(length);
            let mut bytes = text(&payload);
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
            let (head, found, used) = first(&bytes).unwrap();
            assert_eq!((head, found.len(), used), (TEXT, length, bytes.len()));
            assert!(found.iter().all(|byte| *byte == b'x'));
        }
    }
}
