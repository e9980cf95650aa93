//! Cases of RFC 6455 as a table. Each is parsed in one piece, byte by byte, and in pieces of other sizes, with one
//! result.

mod cases;

use parlor_socketio::websocket::{
    FrameError, FrameParser, Opcode, WebSocketMessage, encode_binary, encode_close,
    encode_frame_with, encode_pong, encode_text,
};

use parlor_testkit::encode_client_frame;

use self::cases::{closes, data, refused, utf8};

/// Message limit of the parser.
const LIMIT: usize = 70_000;

/// Result of parsing.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ParsedFrame {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
    /// Rejected with this close code; input after it is not parsed.
    Refused(u16),
}

fn to_parsed(message: WebSocketMessage<'_>) -> ParsedFrame {
    match message {
        WebSocketMessage::Text(text) => ParsedFrame::Text(text.into_owned()),
        WebSocketMessage::Binary(bytes) => ParsedFrame::Binary(bytes.into_owned()),
        WebSocketMessage::Ping(bytes) => ParsedFrame::Ping(bytes.into_owned()),
        WebSocketMessage::Pong(bytes) => ParsedFrame::Pong(bytes.into_owned()),
        WebSocketMessage::Close(close) => ParsedFrame::Close(close),
    }
}

/// Parses `bytes` in pieces of `size`. Also returns the bytes that the parser holds at the end.
fn read(bytes: &[u8], size: usize) -> (Vec<ParsedFrame>, usize) {
    let mut parser = FrameParser::new(LIMIT);
    let mut saw = Vec::new();
    for piece in bytes.to_vec().chunks_mut(size) {
        let mut input = piece;
        loop {
            match parser.next_message(&mut input) {
                Ok(Some(message)) => {
                    saw.push(to_parsed(message));
                    if matches!(saw.last(), Some(ParsedFrame::Close(_))) {
                        return (saw, parser.buffered_bytes());
                    }
                }
                Ok(None) => break,
                Err(violation) => {
                    saw.push(ParsedFrame::Refused(violation.close_code()));
                    return (saw, 0);
                }
            }
        }
        assert!(input.is_empty(), "the parser consumes a piece completely");
    }
    (saw, parser.buffered_bytes())
}

const FIN: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    saw: Vec<ParsedFrame>,
}

fn case(name: &'static str, frames: &[Vec<u8>], saw: &[ParsedFrame]) -> Case {
    Case {
        name,
        bytes: frames.concat(),
        saw: saw.to_vec(),
    }
}

fn text(text: &str) -> ParsedFrame {
    ParsedFrame::Text(text.into())
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    encode_client_frame(FIN | CLOSE, &[&code.to_be_bytes(), reason].concat())
}

fn check_cases(cases: Vec<Case>) {
    for case in cases {
        // A long case is not parsed in pieces of every size, to save time.
        let sizes: &[usize] = if case.bytes.len() > 1000 {
            &[usize::MAX, 1, 4096, 65_535]
        } else {
            &[usize::MAX, 1, 2, 3, 5, 7, 13]
        };
        for &size in sizes {
            let (saw, held) = read(&case.bytes, size.min(case.bytes.len().max(1)));
            assert!(
                saw == case.saw,
                "{} in pieces of {size} bytes: {:?}",
                case.name,
                Short(&saw)
            );
            if !matches!(saw.last(), Some(ParsedFrame::Close(_)) | None) {
                assert_eq!(
                    held, 0,
                    "{} in pieces of {size} bytes: the parser holds memory",
                    case.name
                );
            }
        }
    }
}

/// Shortened parse results for the assertion message.
struct Short<'a>(&'a [ParsedFrame]);

impl std::fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for saw in self.0 {
            let text = format!("{saw:?}");
            write!(f, "{} ", text.get(..60).unwrap_or(&text))?;
        }
        Ok(())
    }
}

#[test]
fn messages_are_reassembled_from_any_fragmentation() {
    check_cases(data());
}

#[test]
fn an_invalid_frame_is_rejected_with_its_close_code() {
    check_cases(refused());
}

#[test]
fn every_class_of_close_codes_is_known() {
    check_cases(closes());
}

#[test]
fn text_is_checked_across_fragments_and_refused_at_once() {
    check_cases(utf8());
}

#[test]
fn a_message_in_one_piece_is_borrowed_from_the_input() {
    let mut bytes = encode_client_frame(FIN | TEXT, b"Hello");
    let mut input = &mut bytes[..];
    let message = FrameParser::new(LIMIT)
        .next_message(&mut input)
        .unwrap()
        .unwrap();
    assert!(matches!(
        message,
        WebSocketMessage::Text(std::borrow::Cow::Borrowed("Hello"))
    ));
}

#[test]
fn an_announced_length_costs_no_memory() {
    let mut parser = FrameParser::new(usize::MAX);
    let mut head = [
        0x82, 0xff, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5,
    ];
    assert_eq!(parser.next_message(&mut &mut head[..]), Ok(None));
    assert!(
        parser.buffered_bytes() < 512,
        "{} bytes held after one byte of payload",
        parser.buffered_bytes()
    );
}

#[test]
fn what_the_server_writes_has_the_shortest_head() {
    let heads = [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)];
    for (len, head) in heads {
        let payload = vec![b'x'; len];
        let frame = encode_binary(&payload);
        assert_eq!(frame.len(), head + len);
        assert_eq!((frame[0], &frame[head..]), (0x82, &payload[..]));
        let written = encode_frame_with(Opcode::Binary, 0, |out| out.extend_from_slice(&payload));
        assert_eq!(written, frame);
    }
    assert_eq!(&encode_text(b"hi")[..], b"\x81\x02hi");
    assert_eq!(&encode_pong(b"")[..], b"\x8a\x00");
    assert_eq!(
        &encode_close(1009, "too large")[..],
        b"\x88\x0b\x03\xf1too large"
    );
}

#[test]
fn a_close_reason_is_cut_between_characters() {
    let frame = encode_close(1000, &"€".repeat(100));
    assert_eq!(frame.len(), 2 + 2 + 123);
    assert_eq!(std::str::from_utf8(&frame[4..]), Ok(&*"€".repeat(41)));
    let longer = encode_close(1000, &format!("a{}", "€".repeat(100)));
    assert_eq!(longer.len(), 2 + 2 + 121);
}

#[test]
fn a_violation_names_its_close_code() {
    let codes = [
        FrameError::Protocol(""),
        FrameError::InvalidUtf8,
        FrameError::MessageTooLarge(1),
    ]
    .map(FrameError::close_code);
    assert_eq!(codes, [1002, 1007, 1009]);
}
