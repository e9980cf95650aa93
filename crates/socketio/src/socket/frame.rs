//! A packet for clients, encoded once for any number of them.

use std::sync::Arc;

use bytes::Bytes;

use crate::account::Account;
use crate::engine::Parcel;
use crate::packet::socket::ROOT;
use crate::packet::write;

/// Engine.IO's sign for a message.
const MESSAGE: u8 = b'4';
/// About what a packet has beside names and arguments.
const FRILLS: usize = 48;

/// An event encoded once for any number of sockets.
#[derive(Debug, Clone)]
pub struct Frame(pub(super) Arc<Parcel>);

impl Frame {
    /// An event with its arguments as JSON texts, commas between them. It is not kept for recovery.
    #[must_use]
    pub fn event(name: &str, args: &[u8]) -> Self {
        Self::binary(name, args, &[])
    }

    /// The same, with attachments that placeholders in the arguments stand for.
    #[must_use]
    pub fn binary(name: &str, args: &[u8], attachments: &[Bytes]) -> Self {
        let size = FRILLS + name.len() + args.len();
        Self(Arc::new(Parcel::packet(size, attachments, |out| {
            out.push(MESSAGE);
            write::event(out, ROOT, None, name, args, attachments.len());
        })))
    }

    /// An event that is kept: its last argument is its offset.
    pub(super) fn kept(name: &str, args: &[u8], offset: u64, made: u32, account: &Account) -> Self {
        let size = FRILLS + name.len() + args.len();
        let parcel = Parcel::packet(size, &[], |out| {
            out.push(MESSAGE);
            write::event(out, ROOT, None, name, args, 0);
            // The bracket that closes the arguments comes after one more.
            out.pop();
            out.extend_from_slice(b",\"");
            write_offset(out, offset);
            out.extend_from_slice(b"\"]");
        });
        Self(Arc::new(parcel.kept(offset, made, account)))
    }

    /// Bytes on the wire.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.wire().len()
    }
}

/// A packet of the protocol itself.
pub(super) fn packet(size: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Arc<Parcel> {
    Arc::new(Parcel::packet(FRILLS + size, &[], |out| {
        out.push(MESSAGE);
        fill(out);
    }))
}

/// An acknowledgement.
pub(super) fn ack(namespace: &str, id: u64, args: &[u8], attachments: &[Bytes]) -> Arc<Parcel> {
    let size = FRILLS + namespace.len() + args.len();
    Arc::new(Parcel::packet(size, attachments, |out| {
        out.push(MESSAGE);
        write::ack(out, namespace, id, args, attachments.len());
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

/// Reads what [`write_offset`] wrote.
pub(super) fn read_offset(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 36)
        .ok()
        .filter(|offset| *offset != 0)
}
