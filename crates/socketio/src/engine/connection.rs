//! The task of one WebSocket, from hyper's hand-over to its last byte: a future written by hand, as it exists once per client.
//!
//! Always true:
//! 1. It owns no buffer: bytes are read into one of the thread's, and only what is unfinished is kept.
//! 2. One turn reads what is there, within a budget, and then writes all that waits in as few calls as it takes.
//! 3. Gone, by whatever way, its session has been told of its end, unless it only tried to take the session over.

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

/// What the kernel may hold for one client, which it doubles.
const KERNEL_SEND_BUFFER_BYTES: usize = 128 * 1024;

pub(super) struct WebSocketConnection<U: SessionHandler> {
    pub(super) session: Arc<EngineIoSession<U>>,
    pub(super) stage: Stage,
    pub(super) parser: FrameParser,
    /// Read, but not handled yet.
    pub(super) unhandled_input: Option<Box<[u8]>>,
    /// What the close frame will say.
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
        // Where it cannot be had it takes more memory, and is not wrong.
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

    /// Sees to it that the answer to the request is the first that the client gets. False if the connection is broken.
    fn send_upgrade_response(&self, stream: &TcpStream, owed: Bytes, is_probe: bool) -> bool {
        if is_probe {
            // What waits goes by polling still.
            return try_write_all(stream, &owed);
        }
        let mut out = self.session.transport_state().lock();
        out.enqueue_front(Arc::new(EncodedFrame::from_bytes(owed)));
        true
    }

    /// One turn of an open connection.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let end = {
            let mut out = self.session.transport_state().lock();
            // Nobody needs to wake who writes all that waits at the end of this turn.
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

    /// Writes what waits. Ready when there is nothing any more.
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
            // The task broke off, or the runtime ends: the rest is done elsewhere, if there is an elsewhere.
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
