//! Encodes packets for clients, once for any number of receivers.

use std::sync::Arc;

use bytes::Bytes;

use crate::account::MemoryBudget;
use crate::engine::EncodedFrame;
use crate::packet::socket::MAIN_NAMESPACE;
use crate::packet::write;

/// Packet type of a message in Engine.IO.
const ENGINE_IO_MESSAGE: u8 = b'4';
/// Estimated bytes of a packet besides names and arguments.
const PACKET_OVERHEAD_ESTIMATE: usize = 48;

/// Event that is encoded once for all sockets of the main namespace.
#[derive(Debug, Clone)]
pub struct EncodedEvent(pub(super) Arc<EncodedFrame>);

impl EncodedEvent {
    /// Encodes an event that is not recoverable. `args` is JSON text separated by commas.
    #[must_use]
    pub fn new(name: &str, args: &[u8]) -> Self {
        Self::with_attachments(name, args, &[])
    }

    /// Same as [`EncodedEvent::new`], with attachments that placeholders in the arguments refer to.
    #[must_use]
    pub fn with_attachments(name: &str, args: &[u8], attachments: &[Bytes]) -> Self {
        let size = PACKET_OVERHEAD_ESTIMATE + name.len() + args.len();
        Self(Arc::new(EncodedFrame::encode_packet(
            size,
            attachments,
            |out| {
                out.push(ENGINE_IO_MESSAGE);
                write::encode_event(out, MAIN_NAMESPACE, None, name, args, attachments.len());
            },
        )))
    }

    /// Encodes a recoverable event: its last argument is its offset.
    pub(super) fn recoverable(
        name: &str,
        args: &[u8],
        offset: u64,
        made: u32,
        account: &MemoryBudget,
    ) -> Self {
        let size = PACKET_OVERHEAD_ESTIMATE + name.len() + args.len();
        let parcel = EncodedFrame::encode_packet(size, &[], |out| {
            out.push(ENGINE_IO_MESSAGE);
            write::encode_event(out, MAIN_NAMESPACE, None, name, args, 0);
            // Removes the closing bracket: the offset follows as one more argument.
            out.pop();
            out.extend_from_slice(b",\"");
            write_offset(out, offset);
            out.extend_from_slice(b"\"]");
        });
        Self(Arc::new(parcel.into_recoverable(offset, made, account)))
    }

    /// Length of the encoded frames in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.wire().len()
    }
}

/// Encodes a packet of the protocol.
pub(super) fn encode_packet(size: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Arc<EncodedFrame> {
    Arc::new(EncodedFrame::encode_packet(
        PACKET_OVERHEAD_ESTIMATE + size,
        &[],
        |out| {
            out.push(ENGINE_IO_MESSAGE);
            fill(out);
        },
    ))
}

/// Encodes an acknowledgement.
pub(super) fn encode_ack(
    namespace: &str,
    id: u64,
    args: &[u8],
    attachments: &[Bytes],
) -> Arc<EncodedFrame> {
    let size = PACKET_OVERHEAD_ESTIMATE + namespace.len() + args.len();
    Arc::new(EncodedFrame::encode_packet(size, attachments, |out| {
        out.push(ENGINE_IO_MESSAGE);
        write::encode_ack(out, namespace, id, args, attachments.len());
    }))
}

fn write_offset(out: &mut Vec<u8>, mut offset: u64) {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut text = [0; 13];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = DIGITS[(offset % 36) as usize];
        offset /= 36;
        if offset == 0 || at == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
}

/// Parses what [`write_offset`] wrote.
pub(super) fn parse_offset(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 36)
        .ok()
        .filter(|offset| *offset != 0)
}
