//! The cases of RFC 6455 as a table. Each is read in one piece, byte by byte, and in pieces of other sizes, with one result.

use parlor_socketio::frame::{self, Message, Opcode, Parser, Violation, write};

/// Messages of at most this many bytes.
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

fn data() -> Vec<Case> {
    let x = |len: usize| vec![b'x'; len];
    let mut cases = vec![
        case("empty text", &[raw(FIN | TEXT, b"")], &[text("")]),
        case("short text", &[raw(FIN | TEXT, b"Hello")], &[text("Hello")]),
        // Section 5.7 of the RFC, byte for byte.
        case(
            "the masked Hello of the RFC",
            &[vec![
                0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
            ]],
            &[text("Hello")],
        ),
        case(
            "three messages at once",
            &[
                raw(FIN | TEXT, b"a"),
                raw(FIN | BINARY, &[0, 255]),
                raw(FIN | TEXT, b"c"),
            ],
            &[text("a"), Saw::Binary(vec![0, 255]), text("c")],
        ),
        case(
            "fragments",
            &[
                raw(TEXT, b"Hel"),
                raw(CONTINUATION, b"l"),
                raw(FIN | CONTINUATION, b"o"),
                raw(FIN | TEXT, b"next"),
            ],
            &[text("Hello"), text("next")],
        ),
        case(
            "empty fragments",
            &[
                raw(TEXT, b""),
                raw(CONTINUATION, b""),
                raw(FIN | CONTINUATION, b""),
            ],
            &[text("")],
        ),
        case(
            "control frames between fragments",
            &[
                raw(BINARY, &[1]),
                raw(FIN | PING, b"p"),
                raw(CONTINUATION, &[2]),
                raw(FIN | PONG, b""),
                raw(FIN | CONTINUATION, &[3]),
            ],
            &[
                Saw::Ping(b"p".to_vec()),
                Saw::Pong(vec![]),
                Saw::Binary(vec![1, 2, 3]),
            ],
        ),
        case(
            "close between fragments",
            &[
                raw(TEXT, b"a"),
                close(1000, b"bye"),
                raw(FIN | CONTINUATION, b"b"),
            ],
            &[Saw::Close(Some((1000, "bye".into())))],
        ),
        case(
            "longest ping",
            &[raw(FIN | PING, &x(125))],
            &[Saw::Ping(x(125))],
        ),
        case(
            "bound reached by fragments",
            &[raw(BINARY, &x(LIMIT - 1)), raw(FIN | CONTINUATION, &x(1))],
            &[Saw::Binary(x(LIMIT))],
        ),
    ];
    for len in [124, 125, 126, 127, 65_535, 65_536, LIMIT] {
        cases.push(case(
            "length",
            &[raw(FIN | BINARY, &x(len)), raw(FIN | TEXT, b"after")],
            &[Saw::Binary(x(len)), text("after")],
        ));
    }
    cases
}

fn refused() -> Vec<Case> {
    let x = |len: usize| vec![b'x'; len];
    let protocol = [Saw::Refused(1002)];
    let large = [Saw::Refused(1009)];
    let head = |bytes: &[u8]| [bytes, &KEY].concat();
    let mut cases = vec![
        case("no mask", &[vec![0x81, 0x05], b"Hello".to_vec()], &protocol),
        case("no mask on a control frame", &[vec![0x89, 0x00]], &protocol),
        case("fragmented ping", &[raw(PING, b"a")], &protocol),
        case("fragmented close", &[raw(CLOSE, b"")], &protocol),
        case("ping of 126", &[raw(FIN | PING, &x(126))], &protocol),
        case("close of 126", &[close(1000, &x(124))], &protocol),
        case(
            "continuation of nothing",
            &[raw(FIN | CONTINUATION, b"a")],
            &protocol,
        ),
        case(
            "continuation after the end",
            &[raw(FIN | TEXT, b"a"), raw(CONTINUATION, b"b")],
            &[text("a"), Saw::Refused(1002)],
        ),
        case(
            "text within a text",
            &[raw(TEXT, b"a"), raw(FIN | TEXT, b"b")],
            &protocol,
        ),
        case(
            "binary within a text",
            &[raw(TEXT, b"a"), raw(BINARY, b"b")],
            &protocol,
        ),
        case(
            "125 in two bytes",
            &[head(&[0x82, 0xfe, 0, 125])],
            &protocol,
        ),
        case(
            "65,535 in eight bytes",
            &[head(&[0x82, 0xff, 0, 0, 0, 0, 0, 0, 255, 255])],
            &protocol,
        ),
        case(
            "highest bit of a length",
            &[head(&[0x82, 0xff, 0x80, 0, 0, 0, 0, 1, 0, 0])],
            &protocol,
        ),
        case(
            "longest length there is",
            &[head(&[0x82, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255])],
            &large,
        ),
        case(
            "one above the bound",
            &[raw(FIN | BINARY, &x(LIMIT + 1))],
            &large,
        ),
        case(
            "above the bound by its head alone",
            &[head(&[0x81, 0xff, 0, 0, 0, 0, 0, 2, 0, 0])],
            &large,
        ),
        case(
            "above the bound by fragments",
            &[raw(BINARY, &x(LIMIT)), raw(FIN | CONTINUATION, b"x")],
            &large,
        ),
        case(
            "fragments and the longest length",
            &[
                raw(TEXT, b"x"),
                head(&[0x80, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255]),
            ],
            &large,
        ),
    ];
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        cases.push(case(
            "reserved opcode",
            &[raw(FIN | opcode, b"")],
            &protocol,
        ));
    }
    for bit in [0x10, 0x20, 0x40, 0x70] {
        cases.push(case(
            "reserved bit",
            &[raw(FIN | bit | TEXT, b"a")],
            &protocol,
        ));
        cases.push(case(
            "reserved bit of a ping",
            &[raw(FIN | bit | PING, b"a")],
            &protocol,
        ));
        cases.push(case(
            "reserved bit of a fragment",
            &[raw(TEXT, b"a"), raw(bit | CONTINUATION, b"a")],
            &protocol,
        ));
    }
    cases
}

fn closes() -> Vec<Case> {
    let mut cases = vec![
        case(
            "close without a code",
            &[raw(FIN | CLOSE, b"")],
            &[Saw::Close(None)],
        ),
        case(
            "close with half a code",
            &[raw(FIN | CLOSE, &[3])],
            &[Saw::Refused(1002)],
        ),
        case(
            "close with the longest reason",
            &[close(1000, &[b'r'; 123])],
            &[Saw::Close(Some((1000, "r".repeat(123))))],
        ),
        case(
            "close with a broken reason",
            &[close(1000, &[0xff])],
            &[Saw::Refused(1007)],
        ),
        case(
            "close with a cut reason",
            &[close(1000, &[0xe2, 0x82])],
            &[Saw::Refused(1007)],
        ),
        case(
            "nothing after a close",
            &[close(1001, b""), raw(FIN | TEXT, b"a")],
            &[Saw::Close(Some((1001, String::new())))],
        ),
    ];
    for code in [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000,
        4999,
    ] {
        cases.push(case(
            "code that may be sent",
            &[close(code, b"")],
            &[Saw::Close(Some((code, String::new())))],
        ));
    }
    for code in [
        0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535,
    ] {
        cases.push(case(
            "code that may not be sent",
            &[close(code, b"")],
            &[Saw::Refused(1002)],
        ));
    }
    cases
}

fn utf8() -> Vec<Case> {
    let whole = "κόσμε €\u{10ffff}\u{feff}\0";
    let mut cases = vec![case(
        "all lengths of code points",
        &[raw(FIN | TEXT, whole.as_bytes())],
        &[text(whole)],
    )];
    // Cut at every place, also with a ping where a code point is cut.
    for at in 0..=whole.len() {
        let (a, b) = whole.as_bytes().split_at(at);
        cases.push(case(
            "text cut anywhere",
            &[raw(TEXT, a), raw(FIN | CONTINUATION, b)],
            &[text(whole)],
        ));
        cases.push(case(
            "text cut anywhere by a ping",
            &[
                raw(TEXT, a),
                raw(FIN | PING, b"!"),
                raw(FIN | CONTINUATION, b),
            ],
            &[Saw::Ping(b"!".to_vec()), text(whole)],
        ));
    }
    let broken: [&[u8]; 14] = [
        b"\x80",
        b"\xbf",
        b"\xff",
        b"a\xfe",
        b"\xc0\xaf",
        b"\xc1\xbf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xf8\x88\x80\x80\x80",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
        b"\xe2\x28\xa1",
    ];
    for bytes in broken {
        cases.push(case(
            "broken text",
            &[raw(FIN | TEXT, bytes)],
            &[Saw::Refused(1007)],
        ));
        // Found in the first fragment, without waiting for the last.
        cases.push(case(
            "broken fragment",
            &[raw(TEXT, bytes)],
            &[Saw::Refused(1007)],
        ));
    }
    for cut in ["é", "€", "\u{10348}"] {
        for at in 1..cut.len() {
            cases.push(case(
                "text that ends in a code point",
                &[raw(FIN | TEXT, &cut.as_bytes()[..at])],
                &[Saw::Refused(1007)],
            ));
            cases.push(case(
                "fragments that end in a code point",
                &[
                    raw(TEXT, &cut.as_bytes()[..at]),
                    raw(FIN | CONTINUATION, b""),
                ],
                &[Saw::Refused(1007)],
            ));
            cases.push(case(
                "a code point cut by another",
                &[raw(TEXT, &cut.as_bytes()[..at]), raw(CONTINUATION, b"a")],
                &[Saw::Refused(1007)],
            ));
        }
    }
    cases.push(case(
        "bytes need not be text",
        &[raw(FIN | BINARY, b"\xff\x80")],
        &[Saw::Binary(vec![0xff, 0x80])],
    ));
    cases
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
