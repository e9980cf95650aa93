//! Cases of RFC 6455: what a client sends, and the expected parse results.

use super::{
    BINARY, CLOSE, CONTINUATION, Case, FIN, LIMIT, PING, PONG, ParsedFrame, TEXT, case, close, text,
};
use parlor_testkit::encode_client_frame;

pub(super) fn data() -> Vec<Case> {
    let x = |len: usize| vec![b'x'; len];
    let mut cases = vec![
        case(
            "empty text",
            &[encode_client_frame(FIN | TEXT, b"")],
            &[text("")],
        ),
        case(
            "short text",
            &[encode_client_frame(FIN | TEXT, b"Hello")],
            &[text("Hello")],
        ),
        // Section 5.7 of RFC 6455, byte for byte.
        case(
            "the masked Hello of RFC 6455",
            &[vec![
                0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
            ]],
            &[text("Hello")],
        ),
        case(
            "three messages at once",
            &[
                encode_client_frame(FIN | TEXT, b"a"),
                encode_client_frame(FIN | BINARY, &[0, 255]),
                encode_client_frame(FIN | TEXT, b"c"),
            ],
            &[text("a"), ParsedFrame::Binary(vec![0, 255]), text("c")],
        ),
        case(
            "fragments",
            &[
                encode_client_frame(TEXT, b"Hel"),
                encode_client_frame(CONTINUATION, b"l"),
                encode_client_frame(FIN | CONTINUATION, b"o"),
                encode_client_frame(FIN | TEXT, b"next"),
            ],
            &[text("Hello"), text("next")],
        ),
        case(
            "empty fragments",
            &[
                encode_client_frame(TEXT, b""),
                encode_client_frame(CONTINUATION, b""),
                encode_client_frame(FIN | CONTINUATION, b""),
            ],
            &[text("")],
        ),
        case(
            "control frames between fragments",
            &[
                encode_client_frame(BINARY, &[1]),
                encode_client_frame(FIN | PING, b"p"),
                encode_client_frame(CONTINUATION, &[2]),
                encode_client_frame(FIN | PONG, b""),
                encode_client_frame(FIN | CONTINUATION, &[3]),
            ],
            &[
                ParsedFrame::Ping(b"p".to_vec()),
                ParsedFrame::Pong(vec![]),
                ParsedFrame::Binary(vec![1, 2, 3]),
            ],
        ),
        case(
            "close between fragments",
            &[
                encode_client_frame(TEXT, b"a"),
                close(1000, b"bye"),
                encode_client_frame(FIN | CONTINUATION, b"b"),
            ],
            &[ParsedFrame::Close(Some((1000, "bye".into())))],
        ),
        case(
            "longest ping",
            &[encode_client_frame(FIN | PING, &x(125))],
            &[ParsedFrame::Ping(x(125))],
        ),
        case(
            "fragments that reach the limit",
            &[
                encode_client_frame(BINARY, &x(LIMIT - 1)),
                encode_client_frame(FIN | CONTINUATION, &x(1)),
            ],
            &[ParsedFrame::Binary(x(LIMIT))],
        ),
    ];
    for len in [124, 125, 126, 127, 65_535, 65_536, LIMIT] {
        cases.push(case(
            "length",
            &[
                encode_client_frame(FIN | BINARY, &x(len)),
                encode_client_frame(FIN | TEXT, b"after"),
            ],
            &[ParsedFrame::Binary(x(len)), text("after")],
        ));
    }
    cases
}

pub(super) fn refused() -> Vec<Case> {
    let x = |len: usize| vec![b'x'; len];
    let protocol = [ParsedFrame::Refused(1002)];
    let large = [ParsedFrame::Refused(1009)];
    let head = |bytes: &[u8]| [bytes, &[0; 4]].concat();
    let mut cases = vec![
        case("no mask", &[vec![0x81, 0x05], b"Hello".to_vec()], &protocol),
        case("no mask on a control frame", &[vec![0x89, 0x00]], &protocol),
        case(
            "fragmented ping",
            &[encode_client_frame(PING, b"a")],
            &protocol,
        ),
        case(
            "fragmented close",
            &[encode_client_frame(CLOSE, b"")],
            &protocol,
        ),
        case(
            "ping of 126",
            &[encode_client_frame(FIN | PING, &x(126))],
            &protocol,
        ),
        case("close of 126", &[close(1000, &x(124))], &protocol),
        case(
            "continuation without a message",
            &[encode_client_frame(FIN | CONTINUATION, b"a")],
            &protocol,
        ),
        case(
            "continuation after the last fragment",
            &[
                encode_client_frame(FIN | TEXT, b"a"),
                encode_client_frame(CONTINUATION, b"b"),
            ],
            &[text("a"), ParsedFrame::Refused(1002)],
        ),
        case(
            "text within a text",
            &[
                encode_client_frame(TEXT, b"a"),
                encode_client_frame(FIN | TEXT, b"b"),
            ],
            &protocol,
        ),
        case(
            "binary within a text",
            &[
                encode_client_frame(TEXT, b"a"),
                encode_client_frame(BINARY, b"b"),
            ],
            &protocol,
        ),
        case(
            "length 125 in two bytes",
            &[head(&[0x82, 0xfe, 0, 125])],
            &protocol,
        ),
        case(
            "length 65,535 in eight bytes",
            &[head(&[0x82, 0xff, 0, 0, 0, 0, 0, 0, 255, 255])],
            &protocol,
        ),
        case(
            "highest bit of a length",
            &[head(&[0x82, 0xff, 0x80, 0, 0, 0, 0, 1, 0, 0])],
            &protocol,
        ),
        case(
            "maximum length",
            &[head(&[0x82, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255])],
            &large,
        ),
        case(
            "one byte above the limit",
            &[encode_client_frame(FIN | BINARY, &x(LIMIT + 1))],
            &large,
        ),
        case(
            "header announces more than the limit",
            &[head(&[0x81, 0xff, 0, 0, 0, 0, 0, 2, 0, 0])],
            &large,
        ),
        case(
            "fragments above the limit",
            &[
                encode_client_frame(BINARY, &x(LIMIT)),
                encode_client_frame(FIN | CONTINUATION, b"x"),
            ],
            &large,
        ),
        case(
            "fragments and the maximum length",
            &[
                encode_client_frame(TEXT, b"x"),
                head(&[0x80, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255]),
            ],
            &large,
        ),
    ];
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        cases.push(case(
            "reserved opcode",
            &[encode_client_frame(FIN | opcode, b"")],
            &protocol,
        ));
    }
    for bit in [0x10, 0x20, 0x40, 0x70] {
        cases.push(case(
            "reserved bit",
            &[encode_client_frame(FIN | bit | TEXT, b"a")],
            &protocol,
        ));
        cases.push(case(
            "reserved bit of a ping",
            &[encode_client_frame(FIN | bit | PING, b"a")],
            &protocol,
        ));
        cases.push(case(
            "reserved bit of a fragment",
            &[
                encode_client_frame(TEXT, b"a"),
                encode_client_frame(bit | CONTINUATION, b"a"),
            ],
            &protocol,
        ));
    }
    cases
}

pub(super) fn closes() -> Vec<Case> {
    let mut cases = vec![
        case(
            "close without a code",
            &[encode_client_frame(FIN | CLOSE, b"")],
            &[ParsedFrame::Close(None)],
        ),
        case(
            "close with an incomplete code",
            &[encode_client_frame(FIN | CLOSE, &[3])],
            &[ParsedFrame::Refused(1002)],
        ),
        case(
            "close with the longest reason",
            &[close(1000, &[b'r'; 123])],
            &[ParsedFrame::Close(Some((1000, "r".repeat(123))))],
        ),
        case(
            "close with an invalid reason",
            &[close(1000, &[0xff])],
            &[ParsedFrame::Refused(1007)],
        ),
        case(
            "close with a truncated reason",
            &[close(1000, &[0xe2, 0x82])],
            &[ParsedFrame::Refused(1007)],
        ),
        case(
            "nothing after a close",
            &[close(1001, b""), encode_client_frame(FIN | TEXT, b"a")],
            &[ParsedFrame::Close(Some((1001, String::new())))],
        ),
    ];
    for code in [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000,
        4999,
    ] {
        cases.push(case(
            "allowed close code",
            &[close(code, b"")],
            &[ParsedFrame::Close(Some((code, String::new())))],
        ));
    }
    for code in [
        0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535,
    ] {
        cases.push(case(
            "close code that is not allowed",
            &[close(code, b"")],
            &[ParsedFrame::Refused(1002)],
        ));
    }
    cases
}

pub(super) fn utf8() -> Vec<Case> {
    let whole = "κόσμε €\u{10ffff}\u{feff}\0";
    let mut cases = vec![case(
        "all lengths of code points",
        &[encode_client_frame(FIN | TEXT, whole.as_bytes())],
        &[text(whole)],
    )];
    // Split at every byte, also with a ping between the bytes of a code point.
    for at in 0..=whole.len() {
        let (a, b) = whole.as_bytes().split_at(at);
        cases.push(case(
            "text split anywhere",
            &[
                encode_client_frame(TEXT, a),
                encode_client_frame(FIN | CONTINUATION, b),
            ],
            &[text(whole)],
        ));
        cases.push(case(
            "text split anywhere by a ping",
            &[
                encode_client_frame(TEXT, a),
                encode_client_frame(FIN | PING, b"!"),
                encode_client_frame(FIN | CONTINUATION, b),
            ],
            &[ParsedFrame::Ping(b"!".to_vec()), text(whole)],
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
            "invalid text",
            &[encode_client_frame(FIN | TEXT, bytes)],
            &[ParsedFrame::Refused(1007)],
        ));
        // Rejected at the first fragment, without waiting for the last one.
        cases.push(case(
            "invalid fragment",
            &[encode_client_frame(TEXT, bytes)],
            &[ParsedFrame::Refused(1007)],
        ));
    }
    for cut in ["é", "€", "\u{10348}"] {
        for at in 1..cut.len() {
            cases.push(case(
                "text that ends within a code point",
                &[encode_client_frame(FIN | TEXT, &cut.as_bytes()[..at])],
                &[ParsedFrame::Refused(1007)],
            ));
            cases.push(case(
                "fragments that end within a code point",
                &[
                    encode_client_frame(TEXT, &cut.as_bytes()[..at]),
                    encode_client_frame(FIN | CONTINUATION, b""),
                ],
                &[ParsedFrame::Refused(1007)],
            ));
            cases.push(case(
                "a code point interrupted by another",
                &[
                    encode_client_frame(TEXT, &cut.as_bytes()[..at]),
                    encode_client_frame(CONTINUATION, b"a"),
                ],
                &[ParsedFrame::Refused(1007)],
            ));
        }
    }
    cases.push(case(
        "binary that is not UTF-8",
        &[encode_client_frame(FIN | BINARY, b"\xff\x80")],
        &[ParsedFrame::Binary(vec![0xff, 0x80])],
    ));
    cases
}
