//! Packets of Engine.IO and Socket.IO, without a server.

use bytes::Bytes;
use parlor_socketio::packet::encode::{
    encode_ack, encode_connect, encode_connect_error, encode_disconnect, encode_event,
};
use parlor_socketio::packet::engine_io::{
    self, EngineIoPacket, EngineIoPacketError as EngineMalformed,
};
use parlor_socketio::packet::partial_binary::{AttachmentProgress, PartialBinaryPacket};
use parlor_socketio::packet::placeholder::check_placeholders;
use parlor_socketio::packet::socket_io::{
    MAX_ATTACHMENTS, SocketIoPacket, SocketIoPacketError, SocketIoPacketType,
};

#[test]
fn every_engine_packet_has_its_character() {
    let packets = [
        ("0{}", EngineIoPacket::Open("{}")),
        ("1", EngineIoPacket::Close),
        ("2", EngineIoPacket::Ping("")),
        ("2probe", EngineIoPacket::Ping("probe")),
        ("3probe", EngineIoPacket::Pong("probe")),
        ("4héllo", EngineIoPacket::Message("héllo")),
        ("4", EngineIoPacket::Message("")),
        ("5", EngineIoPacket::Upgrade),
        ("6", EngineIoPacket::Noop),
    ];
    for (text, packet) in packets {
        assert_eq!(EngineIoPacket::decode(text), Ok(packet.clone()), "{text}");
        let mut out = Vec::new();
        packet.encode(&mut out);
        assert_eq!(out, text.as_bytes());
    }
    let refused = [
        ("", EngineMalformed::Empty),
        ("7", EngineMalformed::UnknownType),
        ("abc", EngineMalformed::UnknownType),
        ("bAQID", EngineMalformed::UnknownType),
        ("é", EngineMalformed::UnknownType),
        ("1x", EngineMalformed::UnexpectedPayload),
        ("5x", EngineMalformed::UnexpectedPayload),
        ("6x", EngineMalformed::UnexpectedPayload),
    ];
    for (text, error) in refused {
        assert_eq!(EngineIoPacket::decode(text), Err(error), "{text}");
    }
}

fn split(body: &[u8]) -> Result<Vec<EngineIoPacket<'_>>, EngineMalformed> {
    engine_io::decode_polling_body(body)?.collect()
}

#[test]
fn a_polling_body_holds_several_packets_and_bytes_as_base64() {
    let packets = [
        EngineIoPacket::Message("test1"),
        EngineIoPacket::Binary([1u8, 2, 3, 4][..].into()),
        EngineIoPacket::Message(""),
        EngineIoPacket::Binary([][..].into()),
        EngineIoPacket::Ping(""),
    ];
    let mut body = Vec::new();
    for packet in &packets {
        packet.append_to_polling_body(&mut body);
    }
    assert_eq!(body, b"4test1\x1ebAQIDBA==\x1e4\x1eb\x1e2");
    assert_eq!(split(&body).unwrap(), packets);
    assert_eq!(engine_io::polling_binary_len(4), "bAQIDBA==".len());
    assert_eq!(
        split(b"bAQIDBA").unwrap(),
        packets[1..2],
        "padding is optional"
    );
}

#[test]
fn a_polling_body_is_read_up_to_its_first_fault() {
    assert_eq!(split(b""), Err(EngineMalformed::Empty));
    assert_eq!(split(b"4a\x1e"), Err(EngineMalformed::Empty));
    assert_eq!(split(b"4a\xff"), Err(EngineMalformed::InvalidUtf8));
    assert_eq!(split(b"b!!"), Err(EngineMalformed::InvalidBase64));
    let mut packets = engine_io::decode_polling_body(b"4a\x1eabc\x1e4b").unwrap();
    assert_eq!(packets.next(), Some(Ok(EngineIoPacket::Message("a"))));
    assert_eq!(packets.next(), Some(Err(EngineMalformed::UnknownType)));
    assert_eq!(packets.next(), None);
}

fn packet<'a>(
    kind: SocketIoPacketType,
    attachments: usize,
    namespace: &'a str,
    id: Option<u64>,
    data: &'a str,
) -> SocketIoPacket<'a> {
    SocketIoPacket {
        packet_type: kind,
        attachments,
        namespace,
        ack_id: id,
        json: data,
    }
}

#[test]
fn socket_packets_are_read_and_written_the_same() {
    let packets = [
        ("0", packet(SocketIoPacketType::Connect, 0, "/", None, "")),
        (
            "0{\"token\":\"123\"}",
            packet(
                SocketIoPacketType::Connect,
                0,
                "/",
                None,
                "{\"token\":\"123\"}",
            ),
        ),
        (
            "0/custom,",
            packet(SocketIoPacketType::Connect, 0, "/custom", None, ""),
        ),
        (
            "0/custom,{\"a\":1}",
            packet(SocketIoPacketType::Connect, 0, "/custom", None, "{\"a\":1}"),
        ),
        (
            "1",
            packet(SocketIoPacketType::Disconnect, 0, "/", None, ""),
        ),
        (
            "1/custom,",
            packet(SocketIoPacketType::Disconnect, 0, "/custom", None, ""),
        ),
        (
            "2[\"hello\",1]",
            packet(SocketIoPacketType::Event, 0, "/", None, "[\"hello\",1]"),
        ),
        (
            "2/custom,12[\"hello\"]",
            packet(
                SocketIoPacketType::Event,
                0,
                "/custom",
                Some(12),
                "[\"hello\"]",
            ),
        ),
        (
            "3456[]",
            packet(SocketIoPacketType::Ack, 0, "/", Some(456), "[]"),
        ),
        (
            "4{\"message\":\"no\"}",
            packet(
                SocketIoPacketType::ConnectError,
                0,
                "/",
                None,
                "{\"message\":\"no\"}",
            ),
        ),
        (
            "51-[\"a\",{\"_placeholder\":true,\"num\":0}]",
            packet(
                SocketIoPacketType::BinaryEvent,
                1,
                "/",
                None,
                "[\"a\",{\"_placeholder\":true,\"num\":0}]",
            ),
        ),
        (
            "62-/custom,7[]",
            packet(SocketIoPacketType::BinaryAck, 2, "/custom", Some(7), "[]"),
        ),
        (
            "218446744073709551615[\"a\"]",
            packet(SocketIoPacketType::Event, 0, "/", Some(u64::MAX), "[\"a\"]"),
        ),
    ];
    for (text, packet) in packets {
        assert_eq!(SocketIoPacket::decode(text), Ok(packet), "{text}");
        let mut out = Vec::new();
        packet.encode(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
    // A namespace at the end of a packet needs no comma.
    assert_eq!(
        SocketIoPacket::decode("0/custom"),
        Ok(packet(SocketIoPacketType::Connect, 0, "/custom", None, ""))
    );
}

#[test]
fn malformed_socket_io_packets_are_rejected() {
    let long = format!("2/{},[\"a\"]", "n".repeat(256));
    let many = format!("5{}-[\"a\"]", MAX_ATTACHMENTS + 1);
    let refused = [
        ("", SocketIoPacketError::UnknownType),
        ("abc", SocketIoPacketError::UnknownType),
        ("7[]", SocketIoPacketError::UnknownType),
        ("€", SocketIoPacketError::UnknownType),
        ("5[\"a\"]", SocketIoPacketError::InvalidAttachmentCount),
        ("5-[\"a\"]", SocketIoPacketError::InvalidAttachmentCount),
        ("51[\"a\"]", SocketIoPacketError::InvalidAttachmentCount),
        ("5-1-[\"a\"]", SocketIoPacketError::InvalidAttachmentCount),
        (
            "599999999999999999999-[\"a\"]",
            SocketIoPacketError::InvalidAttachmentCount,
        ),
        (&many, SocketIoPacketError::InvalidAttachmentCount),
        (&long, SocketIoPacketError::NamespaceTooLong),
        (
            "218446744073709551616[\"a\"]",
            SocketIoPacketError::InvalidAckId,
        ),
        ("01{}", SocketIoPacketError::InvalidAckId),
        ("3[]", SocketIoPacketError::InvalidAckId),
        ("60-[]", SocketIoPacketError::InvalidAckId),
        ("1{}", SocketIoPacketError::InvalidPayload),
        ("1/custom,1", SocketIoPacketError::InvalidPayload),
        ("2/,/,5", SocketIoPacketError::InvalidPayload),
        ("2 [\"a\"]", SocketIoPacketError::InvalidPayload),
        ("2{}", SocketIoPacketError::InvalidPayload),
        ("0[]", SocketIoPacketError::InvalidPayload),
    ];
    for (text, error) in refused {
        assert_eq!(SocketIoPacket::decode(text), Err(error), "{text}");
    }
}

fn event(text: &str) -> Result<parlor_socketio::packet::EventPayload<'_>, SocketIoPacketError> {
    SocketIoPacket::decode(text)?.parse_event()
}

#[test]
fn an_event_gives_its_arguments_as_they_were_written() {
    let found = event("2[\"message\",1, \"2\" ,{\"3\":[true,\"]\"]},null,4.5e1, [ ] ]").unwrap();
    assert_eq!(found.name, "message");
    assert_eq!(found.args, "1, \"2\" ,{\"3\":[true,\"]\"]},null,4.5e1, [ ]");
    let args = format!("[{}]", found.args);
    let args: Vec<&serde_json::value::RawValue> = serde_json::from_str(&args).unwrap();
    let args: Vec<_> = args.iter().map(|arg| arg.get()).collect();
    let expected = ["1", "\"2\"", "{\"3\":[true,\"]\"]}", "null", "4.5e1", "[ ]"];
    assert_eq!(args, expected);
    assert_eq!(found.first_arg, Some("1"));
    let object = event("2[\"a\", {\"b\":[1,\"]\"]} ,2]").unwrap();
    assert_eq!(object.first_arg, Some("{\"b\":[1,\"]\"]}"));
    let bare = event("2[ \"a\" ]").unwrap();
    assert_eq!((&*bare.name, bare.args, bare.first_arg), ("a", "", None));
    assert_eq!(event("2[\"a\\u0062\\\"\",1]").unwrap().name, "ab\"");
    assert_eq!(event("2[\"\",1]").unwrap().name, "");
    assert_eq!(
        event("2[-1,1]").unwrap().name,
        "-1",
        "a number is a valid name"
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
        assert_eq!(
            event(text),
            Err(SocketIoPacketError::InvalidPayload),
            "{text}"
        );
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
            Err(SocketIoPacketError::ReservedEventName),
            "{name}"
        );
    }
}

#[test]
fn deeply_nested_json_overflows_nothing() {
    let deep = format!("2[\"a\",{}{}]", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(
        event(&deep).unwrap().first_arg,
        Some(event(&deep).unwrap().args)
    );
    assert_eq!(
        check_placeholders(&deep[1..], 1),
        Err(SocketIoPacketError::UnknownPlaceholder)
    );
}

#[test]
fn a_connect_takes_an_object_or_nothing_and_an_ack_an_array() {
    let object = |text| {
        SocketIoPacket::decode(text)?
            .parse_connect_payload()
            .map(|raw| raw.map(|raw| raw.get().to_owned()))
    };
    assert_eq!(object("0"), Ok(None));
    assert_eq!(object("0/x,{\"a\":[1]}"), Ok(Some("{\"a\":[1]}".into())));
    for text in ["0[]", "0null", "0\"a\"", "0{", "0{}{}", "0/x,true"] {
        assert_eq!(
            object(text),
            Err(SocketIoPacketError::InvalidPayload),
            "{text}"
        );
    }
    let args = |text| {
        SocketIoPacket::decode(text)?
            .parse_ack_args()
            .map(str::to_owned)
    };
    assert_eq!(args("31[]"), Ok(String::new()));
    assert_eq!(args("31[1, {}]"), Ok("1, {}".into()));
    for text in ["31", "31{}", "31[", "31[1,]"] {
        assert_eq!(
            args(text),
            Err(SocketIoPacketError::InvalidPayload),
            "{text}"
        );
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
            written(&|out| encode_connect(out, "/", "s", None)),
            "0{\"sid\":\"s\"}",
        ),
        (
            written(&|out| encode_connect(out, "/c", "s", Some("p"))),
            "0/c,{\"sid\":\"s\",\"pid\":\"p\"}",
        ),
        (
            written(&|out| encode_connect_error(out, "/c", b"{}")),
            "4/c,{}",
        ),
        (written(&|out| encode_disconnect(out, "/")), "1"),
        (written(&|out| encode_disconnect(out, "/c")), "1/c,"),
        (
            written(&|out| encode_event(out, "/", None, "a\"b", b"", 0)),
            "2[\"a\\\"b\"]",
        ),
        (
            written(&|out| encode_event(out, "/c", Some(3), "a", b"1,2", 0)),
            "2/c,3[\"a\",1,2]",
        ),
        (
            written(&|out| encode_event(out, "/", None, "a", b"{}", 2)),
            "52-[\"a\",{}]",
        ),
        (written(&|out| encode_ack(out, "/", 9, b"", 0)), "39[]"),
        (
            written(&|out| encode_ack(out, "/c", 9, b"1", 1)),
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
    assert_eq!(check_placeholders(data, 2), Ok(()));
    assert_eq!(
        check_placeholders(data, 1),
        Err(SocketIoPacketError::UnknownPlaceholder)
    );
    for data in [
        "[{\"_placeholder\":true}]",
        "[{\"_placeholder\":true,\"num\":-1}]",
        "[{\"_placeholder\":true,\"num\":\"0\"}]",
        "[{\"_placeholder\":true,\"num\":0.5}]",
    ] {
        assert_eq!(
            check_placeholders(data, 5),
            Err(SocketIoPacketError::UnknownPlaceholder),
            "{data}"
        );
    }
    assert_eq!(
        check_placeholders(
            "[{\"_placeholder\":false,\"num\":9},{\"num\":9},\"_placeholder\"]",
            0
        ),
        Ok(())
    );
    let third = "{\"_placeholder\":true,\"num\":3}";
    assert_eq!(check_placeholders(third, 4), Ok(()));
    assert_eq!(
        check_placeholders(third, 3),
        Err(SocketIoPacketError::UnknownPlaceholder)
    );
    assert_eq!(check_placeholders("{\"num\":3}", 0), Ok(()));
    assert_eq!(check_placeholders("3", 0), Ok(()));
}

#[test]
fn a_packet_waits_for_its_attachments_within_a_bound() {
    let text = "52-[\"a\",{\"_placeholder\":true,\"num\":0}]";
    let packet = SocketIoPacket::decode(text).unwrap();
    let AttachmentProgress::Incomplete(pending) = PartialBinaryPacket::new(&packet, text, 100)
        .add_attachment(Bytes::from_static(b"one"))
        .unwrap()
    else {
        panic!("one attachment of two must not complete the packet");
    };
    let AttachmentProgress::Complete(whole, parts) =
        pending.add_attachment(Bytes::from_static(b"two")).unwrap()
    else {
        panic!("the second attachment of two must complete the packet");
    };
    assert_eq!(
        (&*whole, parts),
        (
            text,
            vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")]
        )
    );
    let full = PartialBinaryPacket::new(&packet, text, text.len() + 2)
        .add_attachment(Bytes::from_static(b"one"));
    assert!(matches!(
        full,
        Err(SocketIoPacketError::AttachmentsTooLarge)
    ));
}
