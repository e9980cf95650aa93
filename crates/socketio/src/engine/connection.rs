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

use super::SessionHandler;
use super::out::{End, MAX_FRAMES_PER_WRITE};
use super::parcel::EncodedFrame;
use super::probe::try_write_all;
use super::reading::ReadOutcome;
use super::session::EngineIoSession;
use crate::frame::FrameParser;
use crate::{DisconnectReason, DowncastUpgraded, UpgradedTcpStream};

/// Size of the kernel's send buffer (`SO_SNDBUF`) per client; the kernel doubles it.
const KERNEL_SEND_BUFFER_BYTES: usize = 128 * 1024;

pub(super) struct WebSocketConnection<U: SessionHandler> {
    pub(super) session: Arc<EngineIoSession<U>>,
    pub(super) stage: Stage,
    pub(super) parser: FrameParser,
    /// Bytes that were read but not handled yet.
    pub(super) unhandled_input: Option<Box<[u8]>>,
    /// Status code for the close frame.
    pub(super) close_code: Option<u16>,
}

pub(super) enum Stage {
    AwaitingUpgrade {
        on_upgrade: OnUpgrade,
        downcast: DowncastUpgraded,
        is_upgrade_probe: bool,
    },
    Probing(TcpStream, Pin<Box<Sleep>>),
    Open(TcpStream),
    Parting(TcpStream, Pin<Box<Sleep>>, bool),
    Gone,
}

impl<U: SessionHandler> WebSocketConnection<U> {
    pub(super) fn new(
        session: Arc<EngineIoSession<U>>,
        on: OnUpgrade,
        take_back: DowncastUpgraded,
        is_probe: bool,
    ) -> Self {
        let limit = session.engine().options().max_payload;
        Self {
            session,
            stage: Stage::AwaitingUpgrade {
                on_upgrade: on,
                downcast: take_back,
                is_upgrade_probe: is_probe,
            },
            parser: FrameParser::new(limit),
            unhandled_input: None,
            close_code: None,
        }
    }

    fn poll_upgrade(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Stage::AwaitingUpgrade {
            on_upgrade: on,
            downcast: take_back,
            is_upgrade_probe: is_probe,
        } = &mut self.stage
        else {
            return Poll::Ready(());
        };
        let (take_back, is_probe) = (*take_back, *is_probe);
        let upgraded = ready!(Pin::new(on).poll(cx));
        let taken = upgraded.ok().and_then(|upgraded| take_back(upgraded).ok());
        let Some(UpgradedTcpStream {
            stream,
            read_buf: ahead,
            unsent_response: owed,
        }) = taken
        else {
            self.finish_connection();
            return Poll::Ready(());
        };
        // Only the memory use depends on this size, so an error is ignored.
        let _ = SockRef::from(&stream).set_send_buffer_size(KERNEL_SEND_BUFFER_BYTES);
        if !ahead.is_empty() {
            self.unhandled_input = Some(ahead.as_ref().into());
        }
        if !owed.is_empty() && !self.send_upgrade_response(&stream, owed, is_probe) {
            self.finish_connection();
            return Poll::Ready(());
        }
        self.stage = if is_probe {
            let patience = self.session.engine().options().upgrade_timeout;
            Stage::Probing(stream, Box::pin(sleep(patience)))
        } else {
            Stage::Open(stream)
        };
        Poll::Ready(())
    }

    /// Sends the 101 response before everything else. Returns false if the connection is broken.
    fn send_upgrade_response(&self, stream: &TcpStream, owed: Bytes, is_probe: bool) -> bool {
        if is_probe {
            // The send queue still leaves by polling.
            return try_write_all(stream, &owed);
        }
        let mut out = self.session.transport_state().lock();
        out.enqueue_front(Arc::new(EncodedFrame::from_bytes(owed)));
        true
    }

    /// Polls an open connection.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let end = {
            let mut out = self.session.transport_state().lock();
            // This poll drains the send queue at its end, so that senders need not wake the task.
            out.writer_is_awake = true;
            if !out
                .writer_waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                out.writer_waker = Some(cx.waker().clone());
            }
            out.close_mode
        };
        match end {
            Some(End::Cut(_)) => {
                self.abort();
                return Poll::Ready(());
            }
            Some(End::Flush(reason)) => {
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
        let (Stage::Open(stream) | Stage::Parting(stream, ..)) = &mut self.stage else {
            return Poll::Ready(Ok(()));
        };
        let mut out = self.session.transport_state().lock();
        loop {
            let mut slices = [IoSlice::new(&[]); MAX_FRAMES_PER_WRITE];
            let count = out.fill_io_slices(&mut slices);
            if count == 0 {
                out.writer_is_awake = false;
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices[..count])) {
                Ok(0) => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                Ok(bytes) => out.consume_written(bytes),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<U: SessionHandler> Future for WebSocketConnection<U> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            ready!(match this.stage {
                Stage::AwaitingUpgrade { .. } => this.poll_upgrade(cx),
                Stage::Probing(..) => this.poll_probing(cx),
                Stage::Open(_) => this.poll_open(cx),
                Stage::Parting(..) => this.poll_closing(cx),
                Stage::Gone => return Poll::Ready(()),
            });
        }
    }
}

impl<U: SessionHandler> Drop for WebSocketConnection<U> {
    fn drop(&mut self) {
        match self.stage {
            Stage::Gone => {}
            Stage::Probing(..)
            | Stage::AwaitingUpgrade {
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

    struct Nothing;

    impl SessionHandler for Nothing {
        type State = ();

        fn text(self: &Arc<Self>, _: &Arc<EngineIoSession<Self>>, _: &str) -> bool {
            true
        }

        fn on_binary(self: &Arc<Self>, _: &Arc<EngineIoSession<Self>>, _: Bytes) -> bool {
            true
        }
    }

    #[test]
    fn a_connection_and_a_session_are_at_most_104_bytes_each() {
        assert!(size_of::<WebSocketConnection<Nothing>>() <= 104);
        assert!(size_of::<EngineIoSession<Nothing>>() <= 104);
    }
}
