//! The TCP stream below an HTTP connection that became a WebSocket.

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use tokio::net::TcpStream;

/// Gets the TCP stream out of a connection that hyper has upgraded.
pub type DowncastUpgraded = fn(Upgraded) -> Result<UpgradedTcpStream, Upgraded>;

/// The TCP stream of a connection that hyper has upgraded.
#[derive(Debug)]
pub struct UpgradedTcpStream {
    /// The TCP stream. The listener must set `TCP_NODELAY`; otherwise a small packet waits until the client has
    /// acknowledged the previous one.
    pub stream: TcpStream,
    /// Bytes that hyper had already read from the stream.
    pub read_buf: Bytes,
    /// Bytes of the 101 response that are not sent yet, if the caller held the response back; the response then leaves
    /// with the first packet.
    pub unsent_response: Bytes,
}
