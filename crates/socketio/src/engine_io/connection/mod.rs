//! Task of one WebSocket, from hyper's upgrade to the last byte. It is a hand-written future, because there is one per
//! client and it must be small.
//!
//! Invariants:
//! 1. The task owns no read buffer: bytes are read into a thread-local buffer, and only incomplete or unhandled input
//!    is kept.
//! 2. Each poll reads the available input, within a budget, and then writes the send queue with as few calls as
//!    possible.
//! 3. When the task ends in any way, the close of its session is reported, unless the connection was only an upgrade
//!    probe.

mod close;
mod probe;
mod read;

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use socket2::SockRef;
use tokio::io::AsyncWrite as _;
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use self::probe::try_write_all;
use self::read::ReadOutcome;
use super::SessionHandler;
use super::encoded_frame::EncodedFrame;
use super::session::EngineIoSession;
use super::transport_state::{CloseMode, MAX_FRAMES_PER_WRITE};
use crate::websocket::FrameParser;
use crate::{DisconnectReason, DowncastUpgraded, UpgradedTcpStream};

/// Size of the kernel's send buffer (`SO_SNDBUF`) per client; the kernel doubles it.
const KERNEL_SEND_BUFFER_BYTES: usize = 128 * 1024;

pub(super) struct WebSocketConnection<H: SessionHandler> {
    pub(super) session: Arc<EngineIoSession<H>>,
    pub(super) stage: ConnectionStage,
    pub(super) parser: FrameParser,
    /// Bytes that were read but not handled yet.
    pub(super) unhandled_input: Option<Box<[u8]>>,
    /// Status code for the close frame.
    pub(super) close_code: Option<u16>,
}

pub(super) enum ConnectionStage {
    AwaitingUpgrade {
        on_upgrade: OnUpgrade,
        downcast: DowncastUpgraded,
        is_upgrade_probe: bool,
    },
    Probing {
        stream: TcpStream,
        deadline: Pin<Box<Sleep>>,
    },
    Open {
        stream: TcpStream,
    },
    Closing {
        stream: TcpStream,
        deadline: Pin<Box<Sleep>>,
        is_write_shut: bool,
    },
    Closed,
}

impl<H: SessionHandler> WebSocketConnection<H> {
    pub(super) fn new(
        session: Arc<EngineIoSession<H>>,
        on_upgrade: OnUpgrade,
        downcast: DowncastUpgraded,
        is_upgrade_probe: bool,
    ) -> Self {
        let limit = session.engine().options().max_payload;
        Self {
            session,
            stage: ConnectionStage::AwaitingUpgrade {
                on_upgrade,
                downcast,
                is_upgrade_probe,
            },
            parser: FrameParser::new(limit),
            unhandled_input: None,
            close_code: None,
        }
    }

    fn poll_upgrade(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ConnectionStage::AwaitingUpgrade {
            on_upgrade,
            downcast,
            is_upgrade_probe,
        } = &mut self.stage
        else {
            return Poll::Ready(());
        };
        let (downcast, is_upgrade_probe) = (*downcast, *is_upgrade_probe);
        let upgraded = ready!(Pin::new(on_upgrade).poll(cx));
        let tcp_stream = upgraded.ok().and_then(|upgraded| downcast(upgraded).ok());
        let Some(UpgradedTcpStream {
            stream,
            read_buf,
            unsent_response,
        }) = tcp_stream
        else {
            self.finish_connection();
            return Poll::Ready(());
        };
        // Only the memory use depends on this size, so an error is ignored.
        let _ = SockRef::from(&stream).set_send_buffer_size(KERNEL_SEND_BUFFER_BYTES);
        if !read_buf.is_empty() {
            self.unhandled_input = Some(read_buf.as_ref().into());
        }
        if !unsent_response.is_empty()
            && !self.send_upgrade_response(&stream, unsent_response, is_upgrade_probe)
        {
            self.finish_connection();
            return Poll::Ready(());
        }
        self.stage = if is_upgrade_probe {
            let timeout = self.session.engine().options().upgrade_timeout;
            ConnectionStage::Probing {
                stream,
                deadline: Box::pin(sleep(timeout)),
            }
        } else {
            ConnectionStage::Open { stream }
        };
        Poll::Ready(())
    }

    /// Sends the 101 response before everything else. Returns false if the connection is broken.
    fn send_upgrade_response(
        &self,
        stream: &TcpStream,
        response: Bytes,
        is_upgrade_probe: bool,
    ) -> bool {
        if is_upgrade_probe {
            // The send queue still leaves by polling.
            return try_write_all(stream, &response);
        }
        let mut transport = self.session.transport_state.lock();
        transport.enqueue_front(Arc::new(EncodedFrame::from_bytes(response)));
        true
    }

    /// Polls an open connection.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let close_mode = {
            let mut transport = self.session.transport_state.lock();
            // This poll drains the send queue at its end, so that senders need not wake the task.
            transport.writer_is_awake = true;
            if !transport
                .writer_waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                transport.writer_waker = Some(cx.waker().clone());
            }
            transport.close_mode
        };
        match close_mode {
            Some(CloseMode::Abort(_)) => {
                self.abort();
                return Poll::Ready(());
            }
            Some(CloseMode::Graceful(reason)) => {
                self.begin_closing(reason);
                return Poll::Ready(());
            }
            None => {}
        }
        let read = self.poll_read(cx);
        match read {
            ReadOutcome::Pending | ReadOutcome::SendQueueCongested => {}
            ReadOutcome::BudgetExhausted => cx.waker().wake_by_ref(),
            ReadOutcome::StageChanged => return Poll::Ready(()),
            ReadOutcome::ConnectionLost => {
                self.finish_connection();
                return Poll::Ready(());
            }
        }
        let flushed = ready!(self.poll_flush(cx));
        if flushed.is_err() {
            self.finish_connection();
            return Poll::Ready(());
        }
        if matches!(read, ReadOutcome::SendQueueCongested) {
            cx.waker().wake_by_ref();
        }
        if self.session.is_open() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }

    /// Writes the send queue. Ready when the queue is empty.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let (ConnectionStage::Open { stream } | ConnectionStage::Closing { stream, .. }) =
            &mut self.stage
        else {
            return Poll::Ready(Ok(()));
        };
        let mut transport = self.session.transport_state.lock();
        loop {
            let mut slices = [IoSlice::new(&[]); MAX_FRAMES_PER_WRITE];
            let count = transport.fill_io_slices(&mut slices);
            if count == 0 {
                transport.writer_is_awake = false;
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices[..count])) {
                Ok(0) => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                Ok(bytes) => transport.consume_written(bytes),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<H: SessionHandler> Future for WebSocketConnection<H> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            ready!(match this.stage {
                ConnectionStage::AwaitingUpgrade { .. } => this.poll_upgrade(cx),
                ConnectionStage::Probing { .. } => this.poll_probing(cx),
                ConnectionStage::Open { .. } => this.poll_open(cx),
                ConnectionStage::Closing { .. } => this.poll_closing(cx),
                ConnectionStage::Closed => return Poll::Ready(()),
            });
        }
    }
}

impl<H: SessionHandler> Drop for WebSocketConnection<H> {
    fn drop(&mut self) {
        match self.stage {
            ConnectionStage::Closed => {}
            ConnectionStage::Probing { .. }
            | ConnectionStage::AwaitingUpgrade {
                is_upgrade_probe: true,
                ..
            } => self.finish_connection(),
            // The task has panicked, or the runtime stops: a new task does the cleanup, if the runtime still runs.
            _ => {
                self.session.abort(DisconnectReason::TransportClosed);
                self.session.spawn_cleanup();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    struct IgnoringHandler;

    impl SessionHandler for IgnoringHandler {
        type State = ();

        fn on_text(self: &Arc<Self>, _: &Arc<EngineIoSession<Self>>, _: &str) -> bool {
            true
        }

        fn on_binary(self: &Arc<Self>, _: &Arc<EngineIoSession<Self>>, _: Bytes) -> bool {
            true
        }
    }

    #[test]
    fn a_connection_and_a_session_are_at_most_104_bytes_each() {
        assert!(size_of::<WebSocketConnection<IgnoringHandler>>() <= 104);
        assert!(size_of::<EngineIoSession<IgnoringHandler>>() <= 104);
    }
}
