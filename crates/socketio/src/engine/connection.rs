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

use super::Above;
use super::out::{End, SLICES};
use super::parcel::Parcel;
use super::probe::written;
use super::reading::Read;
use super::session::Session;
use crate::frame::Parser;
use crate::{Reason, TakeBack, Taken};

/// What the kernel may hold for one client, which it doubles.
const SEND_BUFFER: usize = 128 * 1024;

pub(super) struct Connection<U: Above> {
    pub(super) session: Arc<Session<U>>,
    pub(super) stage: Stage,
    pub(super) parser: Parser,
    /// Read, but not handled yet.
    pub(super) rest: Option<Box<[u8]>>,
    /// What the close frame will say.
    pub(super) code: Option<u16>,
}

pub(super) enum Stage {
    Arriving {
        on: OnUpgrade,
        take_back: TakeBack,
        is_probe: bool,
    },
    Probing(TcpStream, Pin<Box<Sleep>>),
    Open(TcpStream),
    Parting(TcpStream, Pin<Box<Sleep>>, bool),
    Gone,
}

impl<U: Above> Connection<U> {
    pub(super) fn new(
        session: Arc<Session<U>>,
        on: OnUpgrade,
        take_back: TakeBack,
        is_probe: bool,
    ) -> Self {
        let limit = session.engine().options().max_payload;
        Self {
            session,
            stage: Stage::Arriving {
                on,
                take_back,
                is_probe,
            },
            parser: Parser::new(limit),
            rest: None,
            code: None,
        }
    }

    fn arrive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Stage::Arriving {
            on,
            take_back,
            is_probe,
        } = &mut self.stage
        else {
            return Poll::Ready(());
        };
        let (take_back, is_probe) = (*take_back, *is_probe);
        let upgraded = ready!(Pin::new(on).poll(cx));
        let taken = upgraded.ok().and_then(|upgraded| take_back(upgraded).ok());
        let Some(Taken {
            stream,
            ahead,
            owed,
        }) = taken
        else {
            self.lose();
            return Poll::Ready(());
        };
        // Where it cannot be had it takes more memory, and is not wrong.
        let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER);
        if !ahead.is_empty() {
            self.rest = Some(ahead.as_ref().into());
        }
        if !owed.is_empty() && !self.settle(&stream, owed, is_probe) {
            self.lose();
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
    fn settle(&self, stream: &TcpStream, owed: Bytes, is_probe: bool) -> bool {
        if is_probe {
            // What waits goes by polling still.
            return written(stream, &owed);
        }
        let mut out = self.session.out().lock();
        out.push_first(Arc::new(Parcel::of(owed)));
        true
    }

    /// One turn of an open connection.
    fn serve(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let end = {
            let mut out = self.session.out().lock();
            // Nobody needs to wake who writes all that waits at the end of this turn.
            out.awake = true;
            if !out
                .waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                out.waker = Some(cx.waker().clone());
            }
            out.end
        };
        match end {
            Some(End::Cut(_)) => {
                self.abort();
                return Poll::Ready(());
            }
            Some(End::Flush(reason)) => {
                self.part_from(reason);
                return Poll::Ready(());
            }
            None => {}
        }
        let read = self.read(cx);
        match read {
            Read::Waiting | Read::Clogged => {}
            Read::Again => cx.waker().wake_by_ref(),
            Read::Turned => return Poll::Ready(()),
            Read::Lost => {
                self.lose();
                return Poll::Ready(());
            }
        }
        let flushed = ready!(self.flush(cx));
        if flushed.is_err() {
            self.lose();
            return Poll::Ready(());
        }
        if matches!(read, Read::Clogged) {
            cx.waker().wake_by_ref();
        }
        if self.session.is_open() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }

    /// Writes what waits. Ready when there is nothing any more.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let (Stage::Open(stream) | Stage::Parting(stream, ..)) = &mut self.stage else {
            return Poll::Ready(Ok(()));
        };
        let mut out = self.session.out().lock();
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = out.slices(&mut slices);
            if count == 0 {
                out.awake = false;
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices[..count])) {
                Ok(0) => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                Ok(bytes) => out.wrote(bytes),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<U: Above> Future for Connection<U> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            ready!(match this.stage {
                Stage::Arriving { .. } => this.arrive(cx),
                Stage::Probing(..) => this.probe(cx),
                Stage::Open(_) => this.serve(cx),
                Stage::Parting(..) => this.part(cx),
                Stage::Gone => return Poll::Ready(()),
            });
        }
    }
}

impl<U: Above> Drop for Connection<U> {
    fn drop(&mut self) {
        match self.stage {
            Stage::Gone => {}
            Stage::Probing(..) | Stage::Arriving { is_probe: true, .. } => self.lose(),
            // The task broke off, or the runtime ends: the rest is done elsewhere, if there is an elsewhere.
            _ => {
                self.session.cut(Reason::TransportClosed);
                self.session.finish_later();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    struct Nothing;

    impl Above for Nothing {
        type State = ();

        fn text(self: &Arc<Self>, _: &Arc<Session<Self>>, _: &str) -> bool {
            true
        }

        fn binary(self: &Arc<Self>, _: &Arc<Session<Self>>, _: Bytes) -> bool {
            true
        }
    }

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Connection<Nothing>>() <= 104);
        assert!(size_of::<Session<Nothing>>() <= 104);
    }
}
