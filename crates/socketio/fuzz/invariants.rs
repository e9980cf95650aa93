//! Invariants that hold for any input bytes. The fuzz targets and a limited run in the ordinary tests call these
//! functions.

use parlor_socketio::frame::{self, FrameParser, Opcode, WebSocketMessage, write};
use parlor_socketio::packet::engine::{self, EngineIoPacket as EnginePacket};
use parlor_socketio::packet::socket::SocketIoPacket;
use parlor_socketio::packet::{placeholder, write as packets};
use serde::de::IgnoredAny;

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
        let stream = mask_as_client(&write::encode_frame(kind, &payload), payload.len());
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
            match parser.next(&mut input) {
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
    frame::apply_mask(&mut all[begin..], key, 0);
    all
}

/// A valid polling body is the same after it is encoded and decoded again, and its packets are no larger than the body.
pub fn payload(data: &[u8]) {
    let Ok(packets) = engine::decode_polling_body(data) else {
        return;
    };
    let Ok(packets) = packets.collect::<Result<Vec<_>, _>>() else {
        return;
    };
    let mut body = Vec::new();
    for packet in &packets {
        packet.join(&mut body);
    }
    let again: Vec<_> = engine::decode_polling_body(&body)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(again, packets);
    let size = |packet: &EnginePacket<'_>| match packet {
        EnginePacket::Binary(bytes) => bytes.len(),
        EnginePacket::Message(text) => text.len(),
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
    packet.write(&mut out);
    assert_eq!(
        SocketIoPacket::decode(std::str::from_utf8(&out).unwrap()),
        Ok(packet)
    );

    let is_array = serde_json::from_str::<Vec<IgnoredAny>>(packet.json).ok();
    assert_eq!(packet.args().is_ok(), is_array.is_some());
    let _ = (
        packet.parse_connect_payload(),
        placeholder::check(packet.json, packet.attachments),
    );
    let Ok(event) = packet.parse_event() else {
        return;
    };
    assert_eq!(Some(event.count() + 1), is_array.map(|all| all.len()));
    let args: Vec<_> = (0..event.count()).map(|n| event.arg(n).unwrap()).collect();
    for arg in &args {
        serde_json::from_str::<IgnoredAny>(arg).unwrap();
        let _ = placeholder::number(arg);
    }
    let listed = format!("[{}]", event.args());
    assert_eq!(
        serde_json::from_str::<Vec<IgnoredAny>>(&listed)
            .unwrap()
            .len(),
        args.len()
    );

    let mut out = Vec::new();
    let name = event.name();
    packets::encode_event(
        &mut out,
        packet.namespace,
        packet.ack_id,
        name,
        event.args().as_bytes(),
        packet.attachments,
    );
    let again = SocketIoPacket::decode(std::str::from_utf8(&out).unwrap()).unwrap();
    let again = again.parse_event().unwrap();
    assert_eq!((again.name(), again.args()), (name, event.args()));
}
