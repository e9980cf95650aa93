//! A connection whose client has to read.
//!
//! Always true: where bytes wait to be sent and the client takes none for [`READING`], writing fails and so the connection
//! ends. Otherwise clients that ask and do not read would keep what they were given for ever. The answer that switches to
//! another protocol is kept for whoever takes the stream over: the first packet goes out with it, in one write.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a client may take nothing of an answer.
pub const READING: Duration = Duration::from_secs(60);

/// The connection.
pub(super) struct Impatient {
    stream: TcpStream,
    /// The end of the patience, while bytes wait.
    waiting: Option<Pin<Box<Sleep>>>,
    /// The answer that switches protocols.
    switching: Bytes,
}

/// How that answer begins.
const SWITCHING: &[u8] = b"HTTP/1.1 101 ";

impl Impatient {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            waiting: None,
            switching: Bytes::new(),
        }
    }

    /// The stream itself, for somebody who looks after its client in another way, and what the client has to get first.
    pub(super) fn into_parts(self) -> (TcpStream, Bytes) {
        (self.stream, self.switching)
    }

    fn judge(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let waiting = &mut self.waiting;
        let waiting = waiting.get_or_insert_with(|| Box::pin(sleep(READING)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read",
        )))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.starts_with(SWITCHING) {
            self.switching = Bytes::copy_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = slices
            && only.starts_with(SWITCHING)
        {
            return self.poll_write(cx, only);
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
