//! The end of a WebSocket: with a goodbye, or without.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::time::sleep;

use super::Above;
use super::connection::{Connection, Stage};
use super::out::End;
use super::parcel::Parcel;
use super::session::PATIENCE;
use crate::Reason;
use crate::frame::write;

impl<U: Above> Connection<U> {
    /// Begins the goodbye.
    pub(super) fn part_from(&mut self, reason: Reason) {
        let Stage::Open(stream) = std::mem::replace(&mut self.stage, Stage::Gone) else {
            return;
        };
        let code = self.code.unwrap_or(match reason {
            Reason::Shutdown => 1001,
            Reason::TooLarge => 1009,
            Reason::BadPacket => 1002,
            _ => 1000,
        });
        let goodbye = Parcel::of(write::close(code, ""));
        self.session.out().lock().push_last(Arc::new(goodbye));
        self.stage = Stage::Parting(stream, Box::pin(sleep(PATIENCE)), false);
        self.session.tell();
    }

    /// Sends the rest, then waits for the client to close, so that no reset destroys what it has not read yet.
    pub(super) fn part(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_cut = matches!(self.session.out().lock().end, Some(End::Cut(_)));
        let Stage::Parting(_, patience, _) = &mut self.stage else {
            return Poll::Ready(());
        };
        if is_cut || patience.as_mut().poll(cx).is_ready() {
            self.abort();
            return Poll::Ready(());
        }
        match self.flush(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => {
                self.abort();
                return Poll::Ready(());
            }
            // What the client sends is not read, but a lost connection shows when writing.
            Poll::Pending => return Poll::Pending,
        }
        let Stage::Parting(stream, _, is_shut) = &mut self.stage else {
            return Poll::Ready(());
        };
        if !*is_shut {
            *is_shut = true;
            let _ = SockRef::from(&*stream).shutdown(std::net::Shutdown::Write);
        }
        let mut scratch = [0; 4096];
        loop {
            let mut filled = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut *stream).poll_read(cx, &mut filled)) {
                Ok(()) if !filled.filled().is_empty() => {}
                _ => {
                    self.lose();
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Ends at once: what the kernel still holds is thrown away.
    pub(super) fn abort(&mut self) {
        if let Stage::Open(stream) | Stage::Parting(stream, ..) = &self.stage {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
        self.lose();
    }

    /// Ends: the client is gone.
    pub(super) fn lose(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Gone);
        if matches!(
            stage,
            Stage::Probing(..) | Stage::Arriving { is_probe: true, .. }
        ) {
            let mut out = self.session.out().lock();
            out.probing = false;
            out.probed = false;
            return;
        }
        drop(stage);
        self.session.cut(Reason::TransportClosed);
        self.session.tell();
        self.session.engine().remove(&self.session);
    }
}
