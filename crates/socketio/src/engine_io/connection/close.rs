//! End of a WebSocket: graceful close and abort.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::time::sleep;

use super::{ConnectionStage, WebSocketConnection};
use crate::DisconnectReason;
use crate::engine_io::SessionHandler;
use crate::engine_io::encoded_frame::EncodedFrame;
use crate::engine_io::session::CLOSE_TIMEOUT;
use crate::engine_io::transport_state::{CloseMode, UpgradeState};
use crate::websocket::encode_close;

impl<H: SessionHandler> WebSocketConnection<H> {
    /// Starts a graceful close.
    pub(super) fn begin_closing(&mut self, reason: DisconnectReason) {
        let ConnectionStage::Open { stream } =
            std::mem::replace(&mut self.stage, ConnectionStage::Closed)
        else {
            return;
        };
        let code = self.close_code.unwrap_or(match reason {
            DisconnectReason::ServerShutdown => 1001,
            DisconnectReason::PayloadTooLarge => 1009,
            DisconnectReason::ProtocolError => 1002,
            _ => 1000,
        });
        let close_frame = EncodedFrame::from_bytes(encode_close(code, ""));
        self.session
            .transport_state
            .lock()
            .enqueue_after_close(Arc::new(close_frame));
        self.stage = ConnectionStage::Closing {
            stream,
            deadline: Box::pin(sleep(CLOSE_TIMEOUT)),
            is_write_shut: false,
        };
        self.session.report_close();
    }

    /// Sends the queue, then waits until the client closes: a reset could destroy bytes that the client has not read
    /// yet.
    pub(super) fn poll_closing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_aborted = matches!(
            self.session.transport_state.lock().close_mode,
            Some(CloseMode::Abort(_))
        );
        let ConnectionStage::Closing { deadline, .. } = &mut self.stage else {
            return Poll::Ready(());
        };
        if is_aborted || deadline.as_mut().poll(cx).is_ready() {
            self.abort();
            return Poll::Ready(());
        }
        match self.poll_flush(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => {
                self.abort();
                return Poll::Ready(());
            }
            // Input is not read here; a write fails if the connection is lost.
            Poll::Pending => return Poll::Pending,
        }
        let ConnectionStage::Closing {
            stream,
            is_write_shut,
            ..
        } = &mut self.stage
        else {
            return Poll::Ready(());
        };
        if !*is_write_shut {
            *is_write_shut = true;
            let _ = SockRef::from(&*stream).shutdown(std::net::Shutdown::Write);
        }
        let mut scratch = [0; 4096];
        loop {
            let mut filled = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut *stream).poll_read(cx, &mut filled)) {
                Ok(()) if !filled.filled().is_empty() => {}
                _ => {
                    self.finish_connection();
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Closes at once: a linger time of zero discards the kernel's send buffer.
    pub(super) fn abort(&mut self) {
        if let ConnectionStage::Open { stream } | ConnectionStage::Closing { stream, .. } =
            &self.stage
        {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
        self.finish_connection();
    }

    /// The connection is over: resets the upgrade of a probe, or closes and removes the session.
    pub(super) fn finish_connection(&mut self) {
        let stage = std::mem::replace(&mut self.stage, ConnectionStage::Closed);
        if matches!(
            stage,
            ConnectionStage::Probing { .. }
                | ConnectionStage::AwaitingUpgrade {
                    is_upgrade_probe: true,
                    ..
                }
        ) {
            let mut transport = self.session.transport_state.lock();
            transport.upgrade = UpgradeState::None;
            return;
        }
        drop(stage);
        self.session.abort(DisconnectReason::TransportClosed);
        self.session.report_close();
        self.session.engine().remove_session(&self.session);
    }
}
