//! Upgrade of a session from polling to WebSocket.
//!
//! Invariant: packets leave by polling until the client sends `5`, and by the WebSocket afterwards. Both use the same
//! send queue, so no packet is lost, duplicated or reordered.

use std::task::{Context, Poll};

use tokio::net::TcpStream;

use super::read::ReadOutcome;
use super::{ConnectionStage, WebSocketConnection};
use crate::engine_io::SessionHandler;
use crate::engine_io::transport_state::{TransportKind, UpgradeState};
use crate::packet::engine_io::{EngineIoPacket, UPGRADE_PROBE};
use crate::websocket::{WebSocketMessage, encode_pong, encode_text};

impl<H: SessionHandler> WebSocketConnection<H> {
    /// Polls a WebSocket that has not taken over the session yet.
    pub(super) fn poll_probing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ConnectionStage::Probing { deadline, .. } = &mut self.stage else {
            return Poll::Ready(());
        };
        if deadline.as_mut().poll(cx).is_ready() {
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
        let succeeded = match message {
            WebSocketMessage::Text(text) => match EngineIoPacket::decode(text) {
                Ok(EngineIoPacket::Ping(UPGRADE_PROBE)) => self.answer_probe(),
                Ok(EngineIoPacket::Upgrade) => self.complete_upgrade(),
                _ => false,
            },
            WebSocketMessage::Ping(payload) => self.try_write_to_probe(&encode_pong(payload)),
            WebSocketMessage::Pong(_) => true,
            WebSocketMessage::Binary(_) | WebSocketMessage::Close(_) => false,
        };
        if !succeeded {
            self.finish_connection();
        }
        succeeded
    }

    fn answer_probe(&mut self) -> bool {
        if !self.try_write_to_probe(&encode_text(b"3probe")) {
            return false;
        }
        // Completes the pending poll, so that the client can stop polling.
        let mut transport = self.session.transport_state.lock();
        transport.upgrade = UpgradeState::Probed;
        transport.wake_writer();
        true
    }

    fn complete_upgrade(&mut self) -> bool {
        {
            let mut transport = self.session.transport_state.lock();
            if transport.upgrade != UpgradeState::Probed || transport.close_mode.is_some() {
                return false;
            }
            transport.active = TransportKind::WebSocket;
            transport.upgrade = UpgradeState::None;
            if let Some(poll) = transport.writer_waker.take() {
                poll.wake();
            }
        }
        match std::mem::replace(&mut self.stage, ConnectionStage::Closed) {
            ConnectionStage::Probing { stream, .. } => {
                self.stage = ConnectionStage::Open { stream };
                true
            }
            _ => false,
        }
    }

    /// Writes a few bytes at once. The send buffer of a new connection has room for them; otherwise the probe fails.
    fn try_write_to_probe(&self, bytes: &[u8]) -> bool {
        let ConnectionStage::Probing { stream, .. } = &self.stage else {
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
