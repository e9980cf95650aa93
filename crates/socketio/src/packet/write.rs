//! The packets a server sends, appended to a buffer. JSON goes in as text that the caller vouches for.

use super::socket::{Kind, Packet, ROOT};

/// `CONNECT`: the client is in, by this id; `pid` lets it come back for what it missed.
pub fn connect(out: &mut Vec<u8>, namespace: &str, sid: &str, pid: Option<&str>) {
    head(out, Kind::Connect, 0, namespace, None);
    out.extend_from_slice(b"{\"sid\":");
    string(out, sid);
    if let Some(pid) = pid {
        out.extend_from_slice(b",\"pid\":");
        string(out, pid);
    }
    out.push(b'}');
}

/// `CONNECT_ERROR` with an object, at least `{"message":"..."}`.
pub fn connect_error(out: &mut Vec<u8>, namespace: &str, object: &[u8]) {
    head(out, Kind::ConnectError, 0, namespace, None);
    out.extend_from_slice(object);
}

/// `DISCONNECT` off a namespace.
pub fn disconnect(out: &mut Vec<u8>, namespace: &str) {
    head(out, Kind::Disconnect, 0, namespace, None);
}

/// `EVENT`, or `BINARY_EVENT` where there are attachments. `args` is JSON with commas between and may be empty.
pub fn event(
    out: &mut Vec<u8>,
    namespace: &str,
    id: Option<u64>,
    name: &str,
    args: &[u8],
    attachments: usize,
) {
    let kind = if attachments == 0 {
        Kind::Event
    } else {
        Kind::BinaryEvent
    };
    head(out, kind, attachments, namespace, id);
    out.push(b'[');
    string(out, name);
    if !args.is_empty() {
        out.push(b',');
        out.extend_from_slice(args);
    }
    out.push(b']');
}

/// `ACK`, or `BINARY_ACK` where there are attachments. `args` as in [`event`].
pub fn ack(out: &mut Vec<u8>, namespace: &str, id: u64, args: &[u8], attachments: usize) {
    let kind = if attachments == 0 {
        Kind::Ack
    } else {
        Kind::BinaryAck
    };
    head(out, kind, attachments, namespace, Some(id));
    out.push(b'[');
    out.extend_from_slice(args);
    out.push(b']');
}

fn head(out: &mut Vec<u8>, kind: Kind, attachments: usize, namespace: &str, id: Option<u64>) {
    let namespace = if namespace.is_empty() {
        ROOT
    } else {
        namespace
    };
    Packet {
        kind,
        attachments,
        namespace,
        id,
        data: "",
    }
    .write(out);
}

fn string(out: &mut Vec<u8>, text: &str) {
    // Text always has a JSON form, and writing into memory does not fail.
    let _ = serde_json::to_writer(out, text);
}
