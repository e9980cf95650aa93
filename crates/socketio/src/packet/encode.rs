//! Encodes the packets that a server sends by appending them to a buffer. The caller guarantees that JSON arguments are
//! valid.

use super::socket_io::{SocketIoPacket, SocketIoPacketType};

/// `CONNECT` with the id of the socket. The client can recover the socket with `pid`.
pub fn encode_connect(out: &mut Vec<u8>, namespace: &str, sid: &str, pid: Option<&str>) {
    write_packet_header(out, SocketIoPacketType::Connect, 0, namespace, None);
    out.extend_from_slice(b"{\"sid\":");
    write_json_string(out, sid);
    if let Some(pid) = pid {
        out.extend_from_slice(b",\"pid\":");
        write_json_string(out, pid);
    }
    out.push(b'}');
}

/// `CONNECT_ERROR` with an object, at least `{"message":"..."}`.
pub fn encode_connect_error(out: &mut Vec<u8>, namespace: &str, object: &[u8]) {
    write_packet_header(out, SocketIoPacketType::ConnectError, 0, namespace, None);
    out.extend_from_slice(object);
}

/// `DISCONNECT` from a namespace.
pub fn encode_disconnect(out: &mut Vec<u8>, namespace: &str) {
    write_packet_header(out, SocketIoPacketType::Disconnect, 0, namespace, None);
}

/// `EVENT`, or `BINARY_EVENT` if there are attachments. `args` is JSON text separated by commas and may be empty.
pub fn encode_event(
    out: &mut Vec<u8>,
    namespace: &str,
    ack_id: Option<u64>,
    name: &str,
    args: &[u8],
    attachments: usize,
) {
    let packet_type = if attachments == 0 {
        SocketIoPacketType::Event
    } else {
        SocketIoPacketType::BinaryEvent
    };
    write_packet_header(out, packet_type, attachments, namespace, ack_id);
    out.push(b'[');
    write_json_string(out, name);
    if !args.is_empty() {
        out.push(b',');
        out.extend_from_slice(args);
    }
    out.push(b']');
}

/// `ACK`, or `BINARY_ACK` if there are attachments. `args` as in [`encode_event`].
pub fn encode_ack(
    out: &mut Vec<u8>,
    namespace: &str,
    ack_id: u64,
    args: &[u8],
    attachments: usize,
) {
    let packet_type = if attachments == 0 {
        SocketIoPacketType::Ack
    } else {
        SocketIoPacketType::BinaryAck
    };
    write_packet_header(out, packet_type, attachments, namespace, Some(ack_id));
    out.push(b'[');
    out.extend_from_slice(args);
    out.push(b']');
}

fn write_packet_header(
    out: &mut Vec<u8>,
    packet_type: SocketIoPacketType,
    attachments: usize,
    namespace: &str,
    ack_id: Option<u64>,
) {
    SocketIoPacket {
        packet_type,
        attachments,
        namespace,
        ack_id,
        json: "",
    }
    .encode(out);
}

fn write_json_string(out: &mut Vec<u8>, text: &str) {
    // Every string has a JSON form, and writing to memory does not fail.
    let _ = serde_json::to_writer(out, text);
}
