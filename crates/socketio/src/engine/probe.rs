//! Upgrade of a session from polling to WebSocket.
//!
//! Invariant: packets leave by polling until the client sends `5`, and by the WebSocket afterwards. Both use the same
//! send queue, so no packet is lost, duplicated or reordered.

use std::task::{Context, Poll};

use tokio::net::TcpStream;

use super::SessionHandler;
use super::connection::{Stage, WebSocketConnection};
use super::out::TransportKind;
use super::reading::ReadOutcome;
use crate::frame::{WebSocketMessage, write};
use crate::packet::engine::{EngineIoPacket, UPGRADE_PROBE, decode};

impl<U: SessionHandler> WebSocketConnection<U> {
    /// Polls a WebSocket that has not taken over the session yet.
    pub(super) fn poll_probing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Stage::Probing(_, patience) = &mut self.stage else {
            return Poll::Ready(());
        };
        if patience.as_mut().poll(cx).is_ready() {
            self.finish_connection();
            return Poll::Ready(());
        }
        match self.poll_read(cx) {
            ReadOutcome::Pending | ReadOutcome::SendQueueCongested => Poll::Pending,
            ReadOutcome::BudgetExhausted => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            ReadOutcome::StageChanged => Poll::Ready(()),
            ReadOutcome::ConnectionLost => {
                self.finish_connection();
                Poll::Ready(())
            }
        }
    }

    /// Handles a message of the probe. Returns false if the probe has failed.
    pub(super) fn handle_probe_message(&mut self, message: &WebSocketMessage<'_>) -> bool {
        let is_fine = match message {
            WebSocketMessage::Text(text) => match decode(text) {
                Ok(EngineIoPacket::Ping(UPGRADE_PROBE)) => self.answer_probe(),
                Ok(EngineIoPacket::Upgrade) => self.complete_upgrade(),
                _ => false,
            },
            WebSocketMessage::Ping(payload) => {
                self.try_write_to_probe(&write::encode_pong(payload))
            }
            WebSocketMessage::Pong(_) => true,
            WebSocketMessage::Binary(_) | WebSocketMessage::Close(_) => false,
        };
        if !is_fine {
            self.finish_connection();
        }
        is_fine
    }

    fn answer_probe(&mut self) -> bool {
        if !self.try_write_to_probe(&write::text(b"3probe")) {
            return false;
        }
        // Completes the pending poll, so that the client can stop polling.
        let mut out = self.session.transport_state().lock();
        out.probed = true;
        out.wake_writer();
        true
    }

    fn complete_upgrade(&mut self) -> bool {
        {
            let mut out = self.session.transport_state().lock();
            if !out.probed || out.close_mode.is_some() {
                return false;
            }
            out.active = TransportKind::WebSocket;
            out.probing = false;
            out.probed = false;
            if let Some(waiting) = out.writer_waker.take() {
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

    /// Writes a few bytes at once. The send buffer of a new connection has room for them; otherwise the probe fails.
    fn try_write_to_probe(&self, bytes: &[u8]) -> bool {
        let Stage::Probing(stream, _) = &self.stage else {
            return false;
        };
        try_write_all(stream, bytes)
    }
}

pub(super) fn try_write_all(stream: &TcpStream, bytes: &[u8]) -> bool {
    stream
        .try_write(bytes)
        .is_ok_and(|count| count == bytes.len())
}
