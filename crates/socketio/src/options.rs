//! Settings of a Socket.IO server, and the small types that all layers share.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use tokio::net::TcpStream;

/// Settings of a Socket.IO server.
#[derive(Debug, Clone)]
pub struct SocketIoOptions {
    /// Path that the server answers, without a slash at the end. Default: `/socket.io`.
    pub path: String,
    /// Time between two pings to a client. Default: 25 s.
    pub ping_interval: Duration,
    /// Time that a client has to answer a ping. Default: 20 s.
    pub ping_timeout: Duration,
    /// Time that a client has to connect to a namespace, and time that the handler has to answer it. Default: 10 s
    /// each.
    pub connect_timeout: Duration,
    /// Time that an upgrade from polling to WebSocket may take. Default: 10 s.
    pub upgrade_timeout: Duration,
    /// Maximum bytes of one message or of one polling body. A larger one closes the session (1009, or HTTP 413).
    /// Default: 64 KiB.
    pub max_payload: usize,
    /// Maximum bytes in the send queue of a session; if a packet exceeds it, the session is aborted. A packet that
    /// finds an empty queue may be larger. Default: 1 MiB.
    pub max_send_queue_bytes: usize,
    /// Maximum packets of a session that wait for the handler. While the inbox is full, the client is not read.
    /// Default: 64.
    pub max_inbox_packets: usize,
    /// Connection state recovery; `None` ends every socket with its connection. Default: `None`.
    pub recovery: Option<RecoveryOptions>,
    /// Maximum bytes of all replay buffers together. Above it, the replay buffer of each socket that is sent an event
    /// is cleared. Default: 256 MiB.
    pub replay_budget_bytes: usize,
    /// Maximum open sessions (more are rejected with 503), and maximum detached sockets. Default: 100,000.
    pub max_sessions: usize,
    /// Maximum open sessions of one IP address; more are rejected with 429. Default: 20,000.
    pub max_sessions_per_address: usize,
    /// First three characters of every `sid`, from the URL-safe base64 alphabet, to distinguish the nodes of a cluster.
    /// Default: `AAA`.
    pub node: [u8; 3],
}

impl Default for SocketIoOptions {
    fn default() -> Self {
        Self {
            path: "/socket.io".into(),
            ping_interval: Duration::from_secs(25),
            ping_timeout: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(10),
            upgrade_timeout: Duration::from_secs(10),
            max_payload: 64 * 1024,
            max_send_queue_bytes: 1024 * 1024,
            max_inbox_packets: 64,
            recovery: None,
            replay_budget_bytes: 256 * 1024 * 1024,
            max_sessions: 100_000,
            max_sessions_per_address: 20_000,
            node: *b"AAA",
        }
    }
}

/// Limits of connection state recovery: how long a detached socket is held, and how much its replay buffer keeps.
#[derive(Debug, Clone, Copy)]
pub struct RecoveryOptions {
    /// Time that a detached socket is held, and maximum age of a frame in its replay buffer.
    pub window: Duration,
    /// Maximum frames in one replay buffer.
    pub max_frames: usize,
    /// Maximum bytes of one replay buffer.
    pub max_bytes: usize,
}

/// The client, as described by the first HTTP request of its session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Client {
    /// IP address that counts against [`max_sessions_per_address`](crate::SocketIoOptions::max_sessions_per_address).
    pub address: Option<IpAddr>,
    /// `User-Agent` header; the caller limits its length.
    pub user_agent: Option<Box<str>>,
    /// The client stores the last argument of an event as its offset and sends the offset when it reconnects, as the
    /// JavaScript clients do. The server detects this from the handshake. Other clients would pass the additional
    /// argument to their event handlers.
    pub supports_recovery: bool,
}

/// Reason why a session or a socket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The client sent a DISCONNECT or close packet.
    ClientDisconnect,
    /// The handler disconnected the socket, or its future panicked.
    ServerDisconnect,
    /// The connection was lost, or closed without a DISCONNECT or close packet.
    TransportClosed,
    /// A ping was not answered in time, or the connect timeout passed.
    PingTimeout,
    /// The send queue of the session exceeded its limit.
    SendQueueOverflow,
    /// A message or a polling body exceeded `max_payload`.
    PayloadTooLarge,
    /// The client sent a malformed packet, or one that is not allowed in the current state.
    ProtocolError,
    /// The client reconnected over another connection.
    ReplacedByReconnect,
    /// The server stops.
    ServerShutdown,
}

impl DisconnectReason {
    /// Name of the reason, for logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientDisconnect => "client_disconnect",
            Self::ServerDisconnect => "server_disconnect",
            Self::TransportClosed => "transport_closed",
            Self::PingTimeout => "ping_timeout",
            Self::SendQueueOverflow => "send_queue_overflow",
            Self::PayloadTooLarge => "payload_too_large",
            Self::ProtocolError => "protocol_error",
            Self::ReplacedByReconnect => "replaced_by_reconnect",
            Self::ServerShutdown => "server_shutdown",
        }
    }

    /// True if the client may recover the socket after this reason: neither side has ended it on purpose.
    pub(crate) const fn is_recoverable(self) -> bool {
        matches!(
            self,
            Self::TransportClosed
                | Self::PingTimeout
                | Self::SendQueueOverflow
                | Self::ReplacedByReconnect
        )
    }
}

/// Counters and gauges of a server at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketIoStats {
    /// Open sessions.
    pub open_sessions: usize,
    /// Open sessions that use polling.
    pub polling_sessions: usize,
    /// Detached sockets: their connection is lost and they can be recovered.
    pub detached_sockets: usize,
    /// Bytes in all send queues.
    pub send_queue_bytes: usize,
    /// Bytes in all replay buffers.
    pub replay_buffer_bytes: usize,
    /// Sessions aborted because of a full send queue, since the start.
    pub send_queue_overflows_total: u64,
    /// Sockets recovered since the start.
    pub recovered: u64,
}

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
