//! The cases of RFC 6455: what a client sends, and what is seen of it.

use super::{
    BINARY, CLOSE, CONTINUATION, Case, FIN, KEY, LIMIT, PING, PONG, Saw, TEXT, case, close, raw,
    text,
};

pub(super) fn data() -> Vec<Case> {
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

pub(super) fn refused() -> Vec<Case> {
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

pub(super) fn closes() -> Vec<Case> {
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

pub(super) fn utf8() -> Vec<Case> {
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
