//! Packets of Engine.IO and Socket.IO, by themselves.

use bytes::Bytes;
use parlor_socketio::packet::attachments::{Pending, Step};
use parlor_socketio::packet::engine::{self, Malformed as EngineMalformed, Packet as EnginePacket};
use parlor_socketio::packet::socket::{Kind, MOST_ATTACHMENTS, Malformed, Packet};
use parlor_socketio::packet::{placeholder, write};

#[test]
fn every_engine_packet_has_its_character() {
    let packets = [
        ("0{}", EnginePacket::Open("{}")),
        ("1", EnginePacket::Close),
        ("2", EnginePacket::Ping("")),
        ("2probe", EnginePacket::Ping("probe")),
        ("3probe", EnginePacket::Pong("probe")),
        ("4héllo", EnginePacket::Message("héllo")),
        ("4", EnginePacket::Message("")),
        ("5", EnginePacket::Upgrade),
        ("6", EnginePacket::Noop),
    ];
    for (text, packet) in packets {
        assert_eq!(engine::decode(text), Ok(packet.clone()), "{text}");
        let mut out = Vec::new();
        packet.write(&mut out);
        assert_eq!(out, text.as_bytes());
    }
    let refused = [
        ("", EngineMalformed::Empty),
        ("7", EngineMalformed::Type),
        ("abc", EngineMalformed::Type),
        ("bAQID", EngineMalformed::Type),
        ("é", EngineMalformed::Type),
        ("1x", EngineMalformed::Payload),
        ("5x", EngineMalformed::Payload),
        ("6x", EngineMalformed::Payload),
    ];
    for (text, error) in refused {
        assert_eq!(engine::decode(text), Err(error), "{text}");
    }
}

fn split(body: &[u8]) -> Result<Vec<EnginePacket<'_>>, EngineMalformed> {
    engine::split(body)?.collect()
}

#[test]
fn a_polling_body_holds_several_packets_and_bytes_as_base64() {
    let packets = [
        EnginePacket::Message("test1"),
        EnginePacket::Binary([1u8, 2, 3, 4][..].into()),
        EnginePacket::Message(""),
        EnginePacket::Binary([][..].into()),
        EnginePacket::Ping(""),
    ];
    let mut body = Vec::new();
    for packet in &packets {
        packet.join(&mut body);
    }
    assert_eq!(body, b"4test1\x1ebAQIDBA==\x1e4\x1eb\x1e2");
    assert_eq!(split(&body).unwrap(), packets);
    assert_eq!(engine::binary_len(4), "bAQIDBA==".len());
    assert_eq!(
        split(b"bAQIDBA").unwrap(),
        packets[1..2],
        "padding may be left out"
    );
}

#[test]
fn a_polling_body_is_read_up_to_its_first_fault() {
    assert_eq!(split(b""), Err(EngineMalformed::Empty));
    assert_eq!(split(b"4a\x1e"), Err(EngineMalformed::Empty));
    assert_eq!(split(b"4a\xff"), Err(EngineMalformed::Text));
    assert_eq!(split(b"b!!"), Err(EngineMalformed::Base64));
    let mut packets = engine::split(b"4a\x1eabc\x1e4b").unwrap();
    assert_eq!(packets.next(), Some(Ok(EnginePacket::Message("a"))));
    assert_eq!(packets.next(), Some(Err(EngineMalformed::Type)));
    assert_eq!(packets.next(), None);
}

fn packet<'a>(
    kind: Kind,
    attachments: usize,
    namespace: &'a str,
    id: Option<u64>,
    data: &'a str,
) -> Packet<'a> {
    Packet {
        kind,
        attachments,
        namespace,
        id,
        data,
    }
}

#[test]
fn socket_packets_are_read_and_written_the_same() {
    let packets = [
        ("0", packet(Kind::Connect, 0, "/", None, "")),
        (
            "0{\"token\":\"123\"}",
            packet(Kind::Connect, 0, "/", None, "{\"token\":\"123\"}"),
        ),
        ("0/custom,", packet(Kind::Connect, 0, "/custom", None, "")),
        (
            "0/custom,{\"a\":1}",
            packet(Kind::Connect, 0, "/custom", None, "{\"a\":1}"),
        ),
        ("1", packet(Kind::Disconnect, 0, "/", None, "")),
        (
            "1/custom,",
            packet(Kind::Disconnect, 0, "/custom", None, ""),
        ),
        (
            "2[\"hello\",1]",
            packet(Kind::Event, 0, "/", None, "[\"hello\",1]"),
        ),
        (
            "2/custom,12[\"hello\"]",
            packet(Kind::Event, 0, "/custom", Some(12), "[\"hello\"]"),
        ),
        ("3456[]", packet(Kind::Ack, 0, "/", Some(456), "[]")),
        (
            "4{\"message\":\"no\"}",
            packet(Kind::ConnectError, 0, "/", None, "{\"message\":\"no\"}"),
        ),
        (
            "51-[\"a\",{\"_placeholder\":true,\"num\":0}]",
            packet(
                Kind::BinaryEvent,
                1,
                "/",
                None,
                "[\"a\",{\"_placeholder\":true,\"num\":0}]",
            ),
        ),
        (
            "62-/custom,7[]",
            packet(Kind::BinaryAck, 2, "/custom", Some(7), "[]"),
        ),
        (
            "218446744073709551615[\"a\"]",
            packet(Kind::Event, 0, "/", Some(u64::MAX), "[\"a\"]"),
        ),
    ];
    for (text, packet) in packets {
        assert_eq!(Packet::decode(text), Ok(packet), "{text}");
        let mut out = Vec::new();
        packet.write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
    // A namespace at the end needs no comma.
    assert_eq!(
        Packet::decode("0/custom"),
        Ok(packet(Kind::Connect, 0, "/custom", None, ""))
    );
}

#[test]
fn what_is_no_socket_packet_is_refused() {
    let long = format!("2/{},[\"a\"]", "n".repeat(256));
    let many = format!("5{}-[\"a\"]", MOST_ATTACHMENTS + 1);
    let refused = [
        ("", Malformed::Type),
        ("abc", Malformed::Type),
        ("7[]", Malformed::Type),
        ("€", Malformed::Type),
        ("5[\"a\"]", Malformed::Attachments),
        ("5-[\"a\"]", Malformed::Attachments),
        ("51[\"a\"]", Malformed::Attachments),
        ("5-1-[\"a\"]", Malformed::Attachments),
        ("599999999999999999999-[\"a\"]", Malformed::Attachments),
        (&many, Malformed::Attachments),
        (&long, Malformed::Namespace),
        ("218446744073709551616[\"a\"]", Malformed::Id),
        ("01{}", Malformed::Id),
        ("3[]", Malformed::Id),
        ("60-[]", Malformed::Id),
        ("1{}", Malformed::Payload),
        ("1/custom,1", Malformed::Payload),
        ("2/,/,5", Malformed::Payload),
        ("2 [\"a\"]", Malformed::Payload),
        ("2{}", Malformed::Payload),
        ("0[]", Malformed::Payload),
    ];
    for (text, error) in refused {
        assert_eq!(Packet::decode(text), Err(error), "{text}");
    }
}

fn event(text: &str) -> Result<parlor_socketio::packet::Event<'_>, Malformed> {
    Packet::decode(text)?.event()
}

#[test]
fn an_event_gives_its_arguments_as_they_were_written() {
    let found = event("2[\"message\",1, \"2\" ,{\"3\":[true,\"]\"]},null,4.5e1, [ ] ]").unwrap();
    assert_eq!(found.name(), "message");
    assert_eq!(found.count(), 6);
    assert_eq!(
        found.args(),
        "1, \"2\" ,{\"3\":[true,\"]\"]},null,4.5e1, [ ]"
    );
    let args: Vec<_> = (0..8).map(|n| found.arg(n)).collect();
    assert_eq!(
        args,
        [
            Some("1"),
            Some("\"2\""),
            Some("{\"3\":[true,\"]\"]}"),
            Some("null"),
            Some("4.5e1"),
            Some("[ ]"),
            None,
            None
        ]
    );
    let bare = event("2[ \"a\" ]").unwrap();
    assert_eq!(
        (bare.name(), bare.args(), bare.arg(0), bare.count()),
        ("a", "", None, 0)
    );
    assert_eq!(event("2[\"a\\u0062\\\"\",1]").unwrap().name(), "ab\"");
    assert_eq!(event("2[\"\",1]").unwrap().name(), "");
    assert_eq!(
        event("2[-1,1]").unwrap().name(),
        "-1",
        "a number may be a name"
    );
}

#[test]
fn an_event_without_a_name_or_with_broken_json_is_refused() {
    let broken = [
        "2",
        "2{}",
        "2[]",
        "2[null]",
        "2[true]",
        "2[{}]",
        "2[[]]",
        "2\"a\"",
        "2[\"a\"",
        "2[\"a\",]",
        "2[\"a\",1]x",
        "2[\"a\",01]",
        "2[\"a\" 1]",
        "2[\"a\",nul]",
        "2[\"a\",\"\n\"]",
        "2[\"a\",\"\\x\"]",
        "2[\"a\",{\"b\"}]",
        "2[\"a\",{b:1}]",
        "2abc[\"a\",1]",
        "2['a']",
        "2/custom[\"a\"]",
        "2[\"\\ud800\"]",
        "2 [\"a\"] ]",
    ];
    for text in broken {
        assert_eq!(event(text), Err(Malformed::Payload), "{text}");
    }
    for name in [
        "connect",
        "connect_error",
        "disconnect",
        "disconnecting",
        "newListener",
        "removeListener",
        "conn\\u0065ct",
    ] {
        assert_eq!(
            event(&format!("2[\"{name}\",1]")),
            Err(Malformed::Reserved),
            "{name}"
        );
    }
}

#[test]
fn deeply_nested_json_overflows_nothing() {
    let deep = format!("2[\"a\",{}{}]", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(event(&deep).unwrap().count(), 1);
    assert_eq!(
        placeholder::check(&deep[1..], 1),
        Err(Malformed::Placeholder)
    );
    assert_eq!(placeholder::number(&deep[1..]), None);
}

#[test]
fn a_connect_takes_an_object_or_nothing_and_an_ack_an_array() {
    let object = |text| {
        Packet::decode(text)?
            .object()
            .map(|raw| raw.map(|raw| raw.get().to_owned()))
    };
    assert_eq!(object("0"), Ok(None));
    assert_eq!(object("0/x,{\"a\":[1]}"), Ok(Some("{\"a\":[1]}".into())));
    for text in ["0[]", "0null", "0\"a\"", "0{", "0{}{}", "0/x,true"] {
        assert_eq!(object(text), Err(Malformed::Payload), "{text}");
    }
    let args = |text| Packet::decode(text)?.args().map(str::to_owned);
    assert_eq!(args("31[]"), Ok(String::new()));
    assert_eq!(args("31[1, {}]"), Ok("1, {}".into()));
    for text in ["31", "31{}", "31[", "31[1,]"] {
        assert_eq!(args(text), Err(Malformed::Payload), "{text}");
    }
}

#[test]
fn a_server_writes_each_of_its_packets() {
    let written = |fill: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        fill(&mut out);
        String::from_utf8(out).unwrap()
    };
    let all = [
        (
            written(&|out| write::connect(out, "/", "s", None)),
            "0{\"sid\":\"s\"}",
        ),
        (
            written(&|out| write::connect(out, "/c", "s", Some("p"))),
            "0/c,{\"sid\":\"s\",\"pid\":\"p\"}",
        ),
        (
            written(&|out| write::connect_error(out, "/c", b"{}")),
            "4/c,{}",
        ),
        (written(&|out| write::disconnect(out, "/")), "1"),
        (written(&|out| write::disconnect(out, "/c")), "1/c,"),
        (
            written(&|out| write::event(out, "/", None, "a\"b", b"", 0)),
            "2[\"a\\\"b\"]",
        ),
        (
            written(&|out| write::event(out, "/c", Some(3), "a", b"1,2", 0)),
            "2/c,3[\"a\",1,2]",
        ),
        (
            written(&|out| write::event(out, "/", None, "a", b"{}", 2)),
            "52-[\"a\",{}]",
        ),
        (written(&|out| write::ack(out, "/", 9, b"", 0)), "39[]"),
        (
            written(&|out| write::ack(out, "/c", 9, b"1", 1)),
            "61-/c,9[1]",
        ),
    ];
    for (text, expected) in all {
        assert_eq!(text, expected);
    }
}

#[test]
fn placeholders_stand_for_attachments_that_are_there() {
    let data =
        "[\"a\",{\"x\":[{\"_placeholder\":true,\"num\":1}]},{\"num\":0,\"_placeholder\":true}]";
    assert_eq!(placeholder::check(data, 2), Ok(()));
    assert_eq!(placeholder::check(data, 1), Err(Malformed::Placeholder));
    for data in [
        "[{\"_placeholder\":true}]",
        "[{\"_placeholder\":true,\"num\":-1}]",
        "[{\"_placeholder\":true,\"num\":\"0\"}]",
        "[{\"_placeholder\":true,\"num\":0.5}]",
    ] {
        assert_eq!(
            placeholder::check(data, 5),
            Err(Malformed::Placeholder),
            "{data}"
        );
    }
    assert_eq!(
        placeholder::check(
            "[{\"_placeholder\":false,\"num\":9},{\"num\":9},\"_placeholder\"]",
            0
        ),
        Ok(())
    );
    assert_eq!(
        placeholder::number("{\"_placeholder\":true,\"num\":3}"),
        Some(3)
    );
    assert_eq!(placeholder::number("{\"num\":3}"), None);
    assert_eq!(placeholder::number("3"), None);
}

#[test]
fn a_packet_waits_for_its_attachments_within_a_bound() {
    let text = "52-[\"a\",{\"_placeholder\":true,\"num\":0}]";
    let packet = Packet::decode(text).unwrap();
    let Step::Waiting(pending) = Pending::new(&packet, text, 100)
        .with(Bytes::from_static(b"one"))
        .unwrap()
    else {
        panic!("one of two is not all");
    };
    let Step::Complete(whole, parts) = pending.with(Bytes::from_static(b"two")).unwrap() else {
        panic!("two of two are all");
    };
    assert_eq!(
        (&*whole, parts),
        (
            text,
            vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")]
        )
    );
    let full = Pending::new(&packet, text, text.len() + 2).with(Bytes::from_static(b"one"));
    assert!(matches!(full, Err(Malformed::Attachments)));
}
