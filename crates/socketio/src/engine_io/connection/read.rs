//! Reads the messages of a WebSocket client into a thread-local buffer and handles them within a budget.
//!
//! Invariant: input that was read but not handled is kept in order and handled before more is read.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead as _, ReadBuf};

use super::{ConnectionStage, WebSocketConnection};
use crate::DisconnectReason;
use crate::engine_io::SessionHandler;
use crate::engine_io::encoded_frame::EncodedFrame;
use crate::packet::engine_io::EngineIoPacket;
use crate::websocket::{FrameError, WebSocketMessage, encode_pong};

/// Messages per poll; after them, other tasks run.
const MAX_MESSAGES_PER_POLL: usize = 256;
const READ_BUFFER_BYTES: usize = 64 * 1024;

thread_local! {
    static READ_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Result of reading.
pub(super) enum ReadOutcome {
    /// No more input is available, or the inbox is full.
    Pending,
    /// More input is available, for the next poll.
    BudgetExhausted,
    /// The client has to read its packets before the server reads more.
    SendQueueCongested,
    /// The session is closing, or the upgrade was completed.
    StageChanged,
    ConnectionLost,
}

impl<H: SessionHandler> WebSocketConnection<H> {
    /// Reads and handles the available input.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> ReadOutcome {
        let mut budget = MAX_MESSAGES_PER_POLL;
        loop {
            // A probe passes nothing to the handler, so it does not wait for an inbox that polling has filled.
            let is_probe = matches!(self.stage, ConnectionStage::Probing { .. });
            let handler = self.session.engine().handler();
            if !is_probe && handler.poll_inbox_ready(&self.session, cx).is_pending() {
                return ReadOutcome::Pending;
            }
            if self.session.is_send_queue_congested() {
                return ReadOutcome::SendQueueCongested;
            }
            if let Some(mut input) = self.unhandled_input.take() {
                if self.handle_input(&mut input, &mut budget) {
                    return ReadOutcome::StageChanged;
                }
                if budget == 0 {
                    return ReadOutcome::BudgetExhausted;
                }
                continue;
            }
            let (ConnectionStage::Open { stream } | ConnectionStage::Probing { stream, .. }) =
                &mut self.stage
            else {
                return ReadOutcome::StageChanged;
            };
            let mut buffer = READ_BUFFER.take();
            buffer.resize(READ_BUFFER_BYTES, 0);
            let mut filled = ReadBuf::new(&mut buffer);
            let stage_changed = match Pin::new(stream).poll_read(cx, &mut filled) {
                Poll::Pending => None,
                Poll::Ready(Ok(())) if !filled.filled().is_empty() => {
                    Some(self.handle_input(filled.filled_mut(), &mut budget))
                }
                Poll::Ready(_) => {
                    READ_BUFFER.set(buffer);
                    return ReadOutcome::ConnectionLost;
                }
            };
            READ_BUFFER.set(buffer);
            match stage_changed {
                None => return ReadOutcome::Pending,
                Some(true) => return ReadOutcome::StageChanged,
                Some(false) if budget == 0 => return ReadOutcome::BudgetExhausted,
                Some(false) => {}
            }
        }
    }

    /// Handles input as far as the budget and the inbox allow. Returns true if the stage has changed.
    fn handle_input(&mut self, mut input: &mut [u8], budget: &mut usize) -> bool {
        loop {
            let message = match self.parser.next_message(&mut input) {
                Ok(Some(message)) => message,
                Ok(None) => return false,
                Err(error) => {
                    self.fail_connection(error);
                    return true;
                }
            };
            let is_probe = matches!(self.stage, ConnectionStage::Probing { .. });
            let continues = if is_probe {
                self.handle_probe_message(&message)
            } else {
                self.handle_message(message)
            };
            *budget -= 1;
            let stage_changed = match self.stage {
                ConnectionStage::Open { .. } => is_probe || !self.session.is_open(),
                ConnectionStage::Probing { .. } => false,
                _ => return true,
            };
            if stage_changed || !continues || *budget == 0 || self.session.is_send_queue_congested()
            {
                self.unhandled_input = (!input.is_empty()).then(|| Box::from(&*input));
                return stage_changed;
            }
        }
    }

    /// Handles one message. Returns false if the next one must wait.
    fn handle_message(&mut self, message: WebSocketMessage<'_>) -> bool {
        match message {
            WebSocketMessage::Text(text) => match EngineIoPacket::decode(&text) {
                Ok(packet) => return self.session.handle_packet(packet),
                Err(_) => self.session.close(DisconnectReason::ProtocolError),
            },
            WebSocketMessage::Binary(bytes) => {
                return self.session.handle_packet(EngineIoPacket::Binary(bytes));
            }
            WebSocketMessage::Ping(payload) => {
                let pong = EncodedFrame::from_bytes(encode_pong(&payload));
                self.session.send_frame(&Arc::new(pong));
            }
            WebSocketMessage::Pong(_) => {}
            WebSocketMessage::Close(payload) => {
                self.close_code = Some(payload.map_or(1000, |(code, _)| code));
                self.session.close(DisconnectReason::TransportClosed);
            }
        }
        true
    }

    fn fail_connection(&mut self, error: FrameError) {
        self.close_code = Some(error.close_code());
        if matches!(self.stage, ConnectionStage::Probing { .. }) {
            return self.finish_connection();
        }
        self.session.close(match error {
            FrameError::MessageTooLarge(_) => DisconnectReason::PayloadTooLarge,
            _ => DisconnectReason::ProtocolError,
        });
    }
}
