//! A WebSocket that takes a session over from polling.
//!
//! Always true: until the client says `5` the session's packets go by polling, afterwards by the WebSocket; the queue is the same,
//! so none is lost, doubled or moved.

use std::task::{Context, Poll};

use tokio::net::TcpStream;

use super::Above;
use super::connection::{Connection, Stage};
use super::out::Transport;
use super::reading::Read;
use crate::frame::{Message, write};
use crate::packet::engine::{PROBE, Packet, decode};

impl<U: Above> Connection<U> {
    /// One turn of a WebSocket that is not the session's yet.
    pub(super) fn probe(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Stage::Probing(_, patience) = &mut self.stage else {
            return Poll::Ready(());
        };
        if patience.as_mut().poll(cx).is_ready() {
            self.lose();
            return Poll::Ready(());
        }
        match self.read(cx) {
            Read::Waiting | Read::Clogged => Poll::Pending,
            Read::Again => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Read::Turned => Poll::Ready(()),
            Read::Lost => {
                self.lose();
                Poll::Ready(())
            }
        }
    }

    /// Takes one message of it.
    pub(super) fn probed(&mut self, message: &Message<'_>) -> bool {
        let is_fine = match message {
            Message::Text(text) => match decode(text) {
                Ok(Packet::Ping(PROBE)) => self.answer_probe(),
                Ok(Packet::Upgrade) => self.take_over(),
                _ => false,
            },
            Message::Ping(payload) => self.write_now(&write::pong(payload)),
            Message::Pong(_) => true,
            Message::Binary(_) | Message::Close(_) => false,
        };
        if !is_fine {
            self.lose();
        }
        is_fine
    }

    fn answer_probe(&mut self) -> bool {
        if !self.write_now(&write::text(b"3probe")) {
            return false;
        }
        // The request that waits is answered, so that the client can stop polling.
        let mut out = self.session.out().lock();
        out.probed = true;
        out.wake();
        true
    }

    fn take_over(&mut self) -> bool {
        {
            let mut out = self.session.out().lock();
            if !out.probed || out.end.is_some() {
                return false;
            }
            out.transport = Transport::WebSocket;
            out.probing = false;
            out.probed = false;
            if let Some(waiting) = out.waker.take() {
                waiting.wake();
            }
        }
        match std::mem::replace(&mut self.stage, Stage::Gone) {
            Stage::Probing(stream, _) => {
                self.stage = Stage::Open(stream);
                true
            }
            _ => false,
        }
    }

    /// A few bytes on a connection that has written nothing yet: there is room for them, or something is wrong with it.
    fn write_now(&self, bytes: &[u8]) -> bool {
        let Stage::Probing(stream, _) = &self.stage else {
            return false;
        };
        written(stream, bytes)
    }
}

pub(super) fn written(stream: &TcpStream, bytes: &[u8]) -> bool {
    stream
        .try_write(bytes)
        .is_ok_and(|count| count == bytes.len())
}
