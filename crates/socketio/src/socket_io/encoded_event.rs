//! Encodes packets for clients, once for any number of receivers.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine_io::EncodedFrame;
use crate::memory_budget::MemoryBudget;
use crate::packet::encode;
use crate::packet::socket_io::MAIN_NAMESPACE;

/// Packet type of a message in Engine.IO.
const ENGINE_IO_MESSAGE: u8 = b'4';
/// Estimated bytes of a packet besides names and arguments.
const PACKET_OVERHEAD_ESTIMATE: usize = 48;

/// Event that is encoded once for all sockets of the main namespace.
#[derive(Debug, Clone)]
pub struct EncodedEvent(pub(super) Arc<EncodedFrame>);

impl EncodedEvent {
    /// Encodes an event that is not recoverable. `args` is JSON text separated by commas.
    pub fn new(name: &str, args: &[u8]) -> Self {
        Self::with_attachments(name, args, &[])
    }

    /// Same as [`EncodedEvent::new`], with attachments that placeholders in the arguments refer to.
    pub fn with_attachments(name: &str, args: &[u8], attachments: &[Bytes]) -> Self {
        let frame = encode_message(name.len() + args.len(), attachments, |out| {
            encode::encode_event(out, MAIN_NAMESPACE, None, name, args, attachments.len());
        });
        Self(Arc::new(frame))
    }

    /// Encodes a recoverable event: its last argument is its offset.
    pub(super) fn recoverable(
        name: &str,
        args: &[u8],
        offset: u64,
        created_at_secs: u32,
        budget: &MemoryBudget,
    ) -> Self {
        let frame = encode_message(name.len() + args.len(), &[], |out| {
            encode::encode_event(out, MAIN_NAMESPACE, None, name, args, 0);
            // Removes the closing bracket: the offset follows as one more argument.
            out.pop();
            out.extend_from_slice(b",\"");
            write_offset(out, offset);
            out.extend_from_slice(b"\"]");
        });
        let frame = frame.into_recoverable(offset, created_at_secs, budget);
        Self(Arc::new(frame))
    }
}

/// Encodes a packet whose text `write_text` appends; `capacity` is an estimate of the length of names and arguments.
pub(super) fn encode_message(
    capacity: usize,
    attachments: &[Bytes],
    write_text: impl FnOnce(&mut Vec<u8>),
) -> EncodedFrame {
    EncodedFrame::encode_packet(PACKET_OVERHEAD_ESTIMATE + capacity, attachments, |out| {
        out.push(ENGINE_IO_MESSAGE);
        write_text(out);
    })
}

fn write_offset(out: &mut Vec<u8>, mut offset: u64) {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut text = [0; 13];
    let mut begin = text.len();
    loop {
        begin -= 1;
        text[begin] = DIGITS[(offset % 36) as usize];
        offset /= 36;
        if offset == 0 || begin == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[begin..]);
}

/// Parses what [`write_offset`] wrote.
pub(super) fn parse_offset(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 36)
        .ok()
        .filter(|offset| *offset != 0)
}
