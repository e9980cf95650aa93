//! The cases of RFC 6455 as a table. Each is read in one piece, byte by byte, and in pieces of other sizes, with one result.

mod cases;

use parlor_socketio::frame::{self, Message, Opcode, Parser, Violation, write};

/// Messages of at most this many bytes.
use self::cases::{closes, data, refused, utf8};

const LIMIT: usize = 70_000;
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// What a case ends with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Saw {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
    /// Refused with this code; nothing after it is read.
    Refused(u16),
}

fn of(message: Message<'_>) -> Saw {
    match message {
        Message::Text(text) => Saw::Text(text.into_owned()),
        Message::Binary(bytes) => Saw::Binary(bytes.into_owned()),
        Message::Ping(bytes) => Saw::Ping(bytes.into_owned()),
        Message::Pong(bytes) => Saw::Pong(bytes.into_owned()),
        Message::Close(close) => {
            Saw::Close(close.map(|(code, reason)| (code, reason.into_owned())))
        }
    }
}

/// Reads `bytes` in pieces of `size`. Also tells what the parser holds in the end.
fn read(bytes: &[u8], size: usize) -> (Vec<Saw>, usize) {
    let mut parser = Parser::new(LIMIT);
    let mut saw = Vec::new();
    for piece in bytes.to_vec().chunks_mut(size) {
        let mut input = piece;
        loop {
            match parser.next(&mut input) {
                Ok(Some(message)) => {
                    saw.push(of(message));
                    if matches!(saw.last(), Some(Saw::Close(_))) {
                        return (saw, parser.held());
                    }
                }
                Ok(None) => break,
                Err(violation) => {
                    saw.push(Saw::Refused(violation.code()));
                    return (saw, 0);
                }
            }
        }
        assert!(input.is_empty(), "all of a piece is read");
    }
    (saw, parser.held())
}

/// A client's frame: first byte, payload. The length in its shortest form.
fn raw(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut all = vec![first];
    match payload.len() {
        len @ 0..126 => all.push(0x80 | len as u8),
        len @ 126..0x1_0000 => {
            all.push(0x80 | 126);
            all.extend((len as u16).to_be_bytes());
        }
        len => {
            all.push(0x80 | 127);
            all.extend((len as u64).to_be_bytes());
        }
    }
    all.extend(KEY);
    let begin = all.len();
    all.extend(payload);
    frame::mask(&mut all[begin..], KEY, 0);
    all
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
    saw: Vec<Saw>,
}

fn case(name: &'static str, frames: &[Vec<u8>], saw: &[Saw]) -> Case {
    Case {
        name,
        bytes: frames.concat(),
        saw: saw.to_vec(),
    }
}

fn text(text: &str) -> Saw {
    Saw::Text(text.into())
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    raw(FIN | CLOSE, &[&code.to_be_bytes(), reason].concat())
}

fn check(cases: Vec<Case>) {
    for case in cases {
        // Long ones are not read byte by byte from end to end: their heads and their ends are.
        let sizes: &[usize] = if case.bytes.len() > 1000 {
            &[usize::MAX, 1, 4096, 65_535]
        } else {
            &[usize::MAX, 1, 2, 3, 5, 7, 13]
        };
        for &size in sizes {
            let (saw, held) = read(&case.bytes, size.min(case.bytes.len().max(1)));
            assert!(
                saw == case.saw,
                "{} in pieces of {size}: {:?}",
                case.name,
                Short(&saw)
            );
            if !matches!(saw.last(), Some(Saw::Close(_)) | None) {
                assert_eq!(held, 0, "{} in pieces of {size} leaves memory", case.name);
            }
        }
    }
}

/// What was seen, without the bulk.
struct Short<'a>(&'a [Saw]);

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
fn messages_arrive_whole_however_they_were_cut() {
    check(data());
}

#[test]
fn what_is_no_frame_is_refused_with_its_code() {
    check(refused());
}

#[test]
fn every_class_of_close_codes_is_known() {
    check(closes());
}

#[test]
fn text_is_checked_across_fragments_and_refused_at_once() {
    check(utf8());
}

#[test]
fn a_message_in_one_piece_is_borrowed_from_the_input() {
    let mut bytes = raw(FIN | TEXT, b"Hello");
    let mut input = &mut bytes[..];
    let message = Parser::new(LIMIT).next(&mut input).unwrap().unwrap();
    assert!(matches!(
        message,
        Message::Text(std::borrow::Cow::Borrowed("Hello"))
    ));
}

#[test]
fn an_announced_length_costs_no_memory() {
    let mut parser = Parser::new(usize::MAX);
    let mut head = [
        0x82, 0xff, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5,
    ];
    assert_eq!(parser.next(&mut &mut head[..]), Ok(None));
    assert!(
        parser.held() < 512,
        "{} bytes held for one that has arrived",
        parser.held()
    );
}

#[test]
fn what_the_server_writes_has_the_shortest_head() {
    let heads = [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)];
    for (len, head) in heads {
        let payload = vec![b'x'; len];
        let frame = write::binary(&payload);
        assert_eq!(frame.len(), head + len);
        assert_eq!((frame[0], &frame[head..]), (0x82, &payload[..]));
        let built = write::build(Opcode::Binary, 0, |out| out.extend_from_slice(&payload));
        assert_eq!((built.bytes.clone(), built.head), (frame, head));
        assert_eq!(built.payload(), payload);
    }
    assert_eq!(&write::text(b"hi")[..], b"\x81\x02hi");
    assert_eq!(&write::pong(b"")[..], b"\x8a\x00");
    assert_eq!(
        &write::close(1009, "too large")[..],
        b"\x88\x0b\x03\xf1too large"
    );
}

#[test]
fn a_close_reason_is_cut_between_characters() {
    let frame = write::close(1000, &"€".repeat(100));
    assert_eq!(frame.len(), 2 + 2 + 123);
    assert_eq!(std::str::from_utf8(&frame[4..]), Ok(&*"€".repeat(41)));
    let longer = write::close(1000, &format!("a{}", "€".repeat(100)));
    assert_eq!(longer.len(), 2 + 2 + 121);
}

#[test]
fn a_violation_names_its_close_code() {
    let codes = [
        Violation::Protocol(""),
        Violation::Text,
        Violation::TooLarge(1),
    ]
    .map(Violation::code);
    assert_eq!(codes, [1002, 1007, 1009]);
}
