//! TCP stream with a write timeout.
//!
//! Invariants:
//! 1. If bytes wait to be sent and the client reads none for [`WRITE_TIMEOUT`], writing fails and the connection ends.
//!    Clients that send requests and do not read therefore cannot hold their responses in memory.
//! 2. The 101 response of a protocol switch is not written but held back for the WebSocket connection, which sends it
//!    with its first packet in one write.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a client may read nothing of a response.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// TCP stream of a connection.
pub(super) struct WriteTimeoutStream {
    stream: TcpStream,
    /// Write deadline, while bytes wait to be sent.
    write_deadline: Option<Pin<Box<Sleep>>>,
    /// True if the response is a 101.
    switches: ProtocolSwitch,
    /// The 101 response that was held back.
    unsent_response: Bytes,
}

/// Start of a 101 response.
const SWITCHING_PROTOCOLS: &[u8] = b"HTTP/1.1 101 ";

/// Flag: the response of the current request switches protocols. The service sets it, because a response body can start
/// with the same bytes as a 101 response.
#[derive(Debug, Clone, Default)]
pub(super) struct ProtocolSwitch(Arc<AtomicBool>);

impl ProtocolSwitch {
    /// Marks the response as a protocol switch.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl WriteTimeoutStream {
    pub(super) fn new(stream: TcpStream, switches: ProtocolSwitch) -> Self {
        Self {
            stream,
            write_deadline: None,
            switches,
            unsent_response: Bytes::new(),
        }
    }

    /// Returns the stream without the timeout, and the 101 response that has to be sent first.
    pub(super) fn into_parts(self) -> (TcpStream, Bytes) {
        (self.stream, self.unsent_response)
    }

    fn check_deadline(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.write_deadline = None;
            return written;
        }
        let waiting = &mut self.write_deadline;
        let waiting = waiting.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read the response",
        )))
    }
}

impl AsyncRead for WriteTimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WriteTimeoutStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.switches.is_set() && bytes.starts_with(SWITCHING_PROTOCOLS) {
            self.unsent_response = Bytes::copy_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check_deadline(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = slices
            && self.switches.is_set()
            && only.starts_with(SWITCHING_PROTOCOLS)
        {
            return self.poll_write(cx, only);
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.check_deadline(cx, written)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";

    async fn pair(switches: &ProtocolSwitch) -> (WriteTimeoutStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let server = WriteTimeoutStream::new(accepted.unwrap().0, switches.clone());
        (server, client.unwrap())
    }

    #[tokio::test]
    async fn the_101_response_is_held_back_for_the_websocket_connection() {
        let switches = ProtocolSwitch::default();
        let (mut server, mut client) = pair(&switches).await;
        switches.set();
        server.write_all(ANSWER).await.unwrap();
        let (stream, unsent) = server.into_parts();
        assert_eq!(unsent, ANSWER);
        drop(stream);
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_101_response_is_written_if_no_protocol_switch_was_announced() {
        let (mut server, mut client) = pair(&ProtocolSwitch::default()).await;
        server.write_all(ANSWER).await.unwrap();
        let mut got = vec![0; ANSWER.len()];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(got, ANSWER);
        assert!(server.into_parts().1.is_empty());
    }
}
