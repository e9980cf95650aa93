//! What a WebSocket client sends: read into the thread's buffer, and handled within a budget.
//!
//! Always true: what is read but not handled yet is kept, in order, and handled before more is read.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead as _, ReadBuf};

use super::Above;
use super::connection::{Connection, Stage};
use super::parcel::Parcel;
use crate::Reason;
use crate::frame::{Message, Violation, write};
use crate::packet::engine::{Packet, decode};

/// Messages of one turn; then others have theirs.
const BUDGET: usize = 256;
const READ: usize = 64 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What reading came to.
pub(super) enum Read {
    /// More will come, or there is no room for it now.
    Waiting,
    /// There is more, for another turn.
    Again,
    /// The client is to read its answers first.
    Clogged,
    /// The session has an end, or this was the hand-over.
    Turned,
    Lost,
}

impl<U: Above> Connection<U> {
    /// Reads and handles what is there.
    pub(super) fn read(&mut self, cx: &mut Context<'_>) -> Read {
        let mut budget = BUDGET;
        loop {
            // A probe says nothing to the layer above, and is not to wait behind what polling has brought.
            let is_probe = matches!(self.stage, Stage::Probing(..));
            let above = self.session.engine().above();
            if !is_probe && above.poll_room(&self.session, cx).is_pending() {
                return Read::Waiting;
            }
            if self.session.is_clogged() {
                return Read::Clogged;
            }
            if let Some(mut rest) = self.rest.take() {
                if self.handle(&mut rest, &mut budget) {
                    return Read::Turned;
                }
                if budget == 0 {
                    return Read::Again;
                }
                continue;
            }
            let (Stage::Open(stream) | Stage::Probing(stream, _)) = &mut self.stage else {
                return Read::Turned;
            };
            let mut buffer = BUFFER.take();
            buffer.resize(READ, 0);
            let mut filled = ReadBuf::new(&mut buffer);
            let is_turned = match Pin::new(stream).poll_read(cx, &mut filled) {
                Poll::Pending => None,
                Poll::Ready(Ok(())) if !filled.filled().is_empty() => {
                    Some(self.handle(filled.filled_mut(), &mut budget))
                }
                Poll::Ready(_) => {
                    BUFFER.set(buffer);
                    return Read::Lost;
                }
            };
            BUFFER.set(buffer);
            match is_turned {
                None => return Read::Waiting,
                Some(true) => return Read::Turned,
                Some(false) if budget == 0 => return Read::Again,
                Some(false) => {}
            }
        }
    }

    /// Handles what was read, as far as budget and room allow. True if there is another stage to look at now.
    fn handle(&mut self, mut input: &mut [u8], budget: &mut usize) -> bool {
        loop {
            let message = match self.parser.next(&mut input) {
                Ok(Some(message)) => message,
                Ok(None) => return false,
                Err(violation) => {
                    self.refuse(violation);
                    return true;
                }
            };
            let is_probe = matches!(self.stage, Stage::Probing(..));
            let more = if is_probe {
                self.probed(&message)
            } else {
                self.receive(message)
            };
            *budget -= 1;
            let is_turned = match self.stage {
                Stage::Open(_) => is_probe || !self.session.is_open(),
                Stage::Probing(..) => false,
                _ => return true,
            };
            if is_turned || !more || *budget == 0 || self.session.is_clogged() {
                self.rest = (!input.is_empty()).then(|| Box::from(&*input));
                return is_turned;
            }
        }
    }

    /// Takes one message. False if the next must wait.
    fn receive(&mut self, message: Message<'_>) -> bool {
        match message {
            Message::Text(text) => match decode(&text) {
                Ok(packet) => return self.session.receive(packet),
                Err(_) => self.session.close(Reason::BadPacket),
            },
            Message::Binary(bytes) => return self.session.receive(Packet::Binary(bytes)),
            Message::Ping(payload) => {
                let pong = Parcel::of(write::pong(&payload));
                self.session.push(&Arc::new(pong));
            }
            Message::Pong(_) => {}
            Message::Close(said) => {
                self.code = Some(said.map_or(1000, |(code, _)| code));
                self.session.close(Reason::TransportClosed);
            }
        }
        true
    }

    fn refuse(&mut self, violation: Violation) {
        self.code = Some(violation.code());
        if matches!(self.stage, Stage::Probing(..)) {
            return self.lose();
        }
        self.session.close(match violation {
            Violation::TooLarge(_) => Reason::TooLarge,
            _ => Reason::BadPacket,
        });
    }
}
