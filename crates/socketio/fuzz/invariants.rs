//! Invariants that hold for any input bytes. The fuzz targets and a limited run in the ordinary tests call these
//! functions.

use parlor_socketio::packet::encode::encode_event;
use parlor_socketio::packet::engine_io::{self, EngineIoPacket};
use parlor_socketio::packet::placeholder::check_placeholders;
use parlor_socketio::packet::socket_io::SocketIoPacket;
use parlor_socketio::websocket::{FrameParser, Opcode, WebSocketMessage, apply_mask, encode_frame};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// A stream of frames gives the same messages and the same error however it is split, in limited memory, and every
/// parsed message is the same after it is encoded and parsed again. The first two bytes select the message limit and
/// the split points.
pub fn frames(data: &[u8]) {
    let [size, cuts, stream @ ..] = data else {
        return;
    };
    let limit = usize::from(*size) * 4;
    let whole = read(stream, limit, &mut || usize::MAX);
    let mut state = u32::from(*cuts) + 1;
    let cut = read(stream, limit, &mut || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        1 + (state >> 24) as usize % (1 + usize::from(*cuts) % 16)
    });
    assert_eq!(whole, cut);
    for (kind, payload) in whole.messages {
        let stream = mask_as_client(&encode_frame(kind, &payload), payload.len());
        let again = read(&stream, limit, &mut || 3);
        assert_eq!((again.messages, again.code), (vec![(kind, payload)], None));
    }
}

#[derive(Debug, PartialEq, Eq)]
struct ParsedStream {
    messages: Vec<(Opcode, Vec<u8>)>,
    code: Option<u16>,
}

fn read(stream: &[u8], limit: usize, cut: &mut dyn FnMut() -> usize) -> ParsedStream {
    let mut parser = FrameParser::new(limit);
    let mut stream = stream.to_vec();
    let mut rest = &mut stream[..];
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let (mut input, after) = rest.split_at_mut(cut().min(rest.len()));
        rest = after;
        loop {
            match parser.next_message(&mut input) {
                Ok(Some(message)) => messages.push(to_parts(message)),
                Ok(None) => break,
                Err(violation) => {
                    let code = Some(violation.close_code());
                    return ParsedStream { messages, code };
                }
            }
            if matches!(messages.last(), Some((Opcode::Close, _))) {
                return ParsedStream {
                    messages,
                    code: None,
                };
            }
        }
        assert!(
            parser.buffered_bytes() <= 2 * limit + 512,
            "{} bytes held with a message limit of {limit}",
            parser.buffered_bytes()
        );
    }
    ParsedStream {
        messages,
        code: None,
    }
}

fn to_parts(message: WebSocketMessage<'_>) -> (Opcode, Vec<u8>) {
    match message {
        WebSocketMessage::Text(text) => (Opcode::Text, text.into_owned().into_bytes()),
        WebSocketMessage::Binary(bytes) => (Opcode::Binary, bytes.into_owned()),
        WebSocketMessage::Ping(bytes) => (Opcode::Ping, bytes.into_owned()),
        WebSocketMessage::Pong(bytes) => (Opcode::Pong, bytes.into_owned()),
        WebSocketMessage::Close(None) => (Opcode::Close, Vec::new()),
        WebSocketMessage::Close(Some((code, reason))) => (
            Opcode::Close,
            [&code.to_be_bytes(), reason.as_bytes()].concat(),
        ),
    }
}

/// Turns the frame of a server into the frame of a client.
fn mask_as_client(frame: &[u8], payload: usize) -> Vec<u8> {
    let key = [0x11, 0x80, 0xff, 0x2a];
    let (head, payload) = frame.split_at(frame.len() - payload);
    let mut all = head.to_vec();
    all[1] |= 0x80;
    all.extend(key);
    let begin = all.len();
    all.extend(payload);
    apply_mask(&mut all[begin..], key, 0);
    all
}

/// A valid polling body is the same after it is encoded and decoded again, and its packets are no larger than the body.
pub fn payload(data: &[u8]) {
    let Ok(packets) = engine_io::decode_polling_body(data) else {
        return;
    };
    let Ok(packets) = packets.collect::<Result<Vec<_>, _>>() else {
        return;
    };
    let mut body = Vec::new();
    for packet in &packets {
        packet.append_to_polling_body(&mut body);
    }
    let again: Vec<_> = engine_io::decode_polling_body(&body)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(again, packets);
    let size = |packet: &EngineIoPacket<'_>| match packet {
        EngineIoPacket::Binary(bytes) => bytes.len(),
        EngineIoPacket::Message(text) => text.len(),
        _ => 1,
    };
    assert!(packets.iter().map(size).sum::<usize>() <= data.len());
}

/// A valid Socket.IO packet is the same after it is encoded and decoded again, and agrees with serde_json about its
/// JSON.
pub fn packet(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(packet) = SocketIoPacket::decode(text) else {
        return;
    };
    let mut out = Vec::new();
    packet.encode(&mut out);
    assert_eq!(
        SocketIoPacket::decode(std::str::from_utf8(&out).unwrap()),
        Ok(packet)
    );

    let is_array = serde_json::from_str::<Vec<IgnoredAny>>(packet.json).ok();
    assert_eq!(packet.parse_ack_args().is_ok(), is_array.is_some());
    let _ = (
        packet.parse_connect_payload(),
        check_placeholders(packet.json, packet.attachments),
    );
    let Ok(event) = packet.parse_event() else {
        return;
    };
    let listed = format!("[{}]", event.args);
    let args: Vec<&RawValue> = serde_json::from_str(&listed).unwrap();
    assert_eq!(Some(args.len() + 1), is_array.map(|all| all.len()));
    assert_eq!(event.first_arg, args.first().map(|arg| arg.get()));

    let mut out = Vec::new();
    let name = &*event.name;
    encode_event(
        &mut out,
        packet.namespace,
        packet.ack_id,
        name,
        event.args.as_bytes(),
        packet.attachments,
    );
    let again = SocketIoPacket::decode(std::str::from_utf8(&out).unwrap()).unwrap();
    let again = again.parse_event().unwrap();
    assert_eq!((&*again.name, again.args), (name, event.args));
}
