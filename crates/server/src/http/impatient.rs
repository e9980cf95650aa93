//! A connection whose client has to read.
//!
//! Always true: where bytes wait to be sent and the client takes none for [`READING`], writing fails and so the connection
//! ends. Otherwise clients that ask and do not read would keep what they were given for ever. The answer that switches to
//! another protocol is kept for whoever takes the stream over: the first packet goes out with it, in one write.

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

/// How long a client may take nothing of an answer.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// The connection.
pub(super) struct WriteTimeoutStream {
    stream: TcpStream,
    /// The end of the patience, while bytes wait.
    write_deadline: Option<Pin<Box<Sleep>>>,
    /// Whether the protocol is to be switched; …
    switches: ProtocolSwitch,
    /// … and the answer that does it.
    unsent_response: Bytes,
}

/// How that answer begins.
const SWITCHING_PROTOCOLS: &[u8] = b"HTTP/1.1 101 ";

/// Whether a connection is to switch to another protocol. Whoever answers the request says so: what is written may begin with
/// the same words for other reasons.
#[derive(Debug, Clone, Default)]
pub(super) struct ProtocolSwitch(Arc<AtomicBool>);

impl ProtocolSwitch {
    /// It is.
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

    /// The stream itself, for somebody who looks after its client in another way, and what the client has to get first.
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
        let (stream, owed) = server.into_parts();
        assert_eq!(owed, ANSWER);
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
