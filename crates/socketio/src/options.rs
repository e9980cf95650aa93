//! What the server is told once, and the small types that every layer speaks of.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use tokio::net::TcpStream;

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct SocketIoOptions {
    /// Where it answers, without the slash at the end.
    pub path: String,
    /// The pause between two pings to a client.
    pub ping_interval: Duration,
    /// How long a client may take to answer one.
    pub ping_timeout: Duration,
    /// How long a client may take to ask for a namespace, and the application to answer.
    pub connect_timeout: Duration,
    /// How long a WebSocket may take to replace polling.
    pub upgrade_timeout: Duration,
    /// Bytes of one message or of one polling body; who sends more is cut (1009, or 413).
    pub max_payload: usize,
    /// Bytes that wait for one slow client; who lets more wait is cut at once. A packet that finds nothing waiting may be larger.
    pub max_send_queue_bytes: usize,
    /// Packets that wait for the application; with more, the client is not read until it has caught up.
    pub max_inbox_packets: usize,
    /// Whether sockets outlive their connection for a while.
    pub recovery: Option<RecoveryOptions>,
    /// Bytes that are kept for the recovery of all sockets together; with more, those that are sent something are not recovered.
    pub replay_budget_bytes: usize,
    /// Open sessions, and at most as many sockets held for recovery; more are refused with 503.
    pub max_sessions: usize,
    /// Open sessions of one address; more are refused with 429.
    pub max_sessions_per_address: usize,
    /// The first characters of every session id, of the URL-safe base64 alphabet: tells the nodes of a cluster apart.
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

/// How long and how much is kept of what a socket was sent, for a client that lost its connection.
#[derive(Debug, Clone, Copy)]
pub struct RecoveryOptions {
    /// How long a socket without a connection is held, and how long a frame is kept.
    pub window: Duration,
    /// Frames kept per socket, …
    pub max_frames: usize,
    /// … and their bytes.
    pub max_bytes: usize,
}

/// Who is at the other end, as far as the first request tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Client {
    /// The address that counts against [`Options::most_per_address`].
    pub address: Option<IpAddr>,
    /// The `User-Agent`, cut by whoever gives it.
    pub user_agent: Option<Box<str>>,
    /// Whether it keeps the last argument of an event and shows it when it comes back, as clients in JavaScript do. Found out by
    /// the server from the handshake. Others would hand an argument that they did not ask for to their handlers.
    pub supports_recovery: bool,
}

/// Why a connection or a socket came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The client said goodbye.
    ClientDisconnect,
    /// The application ended it.
    ServerDisconnect,
    /// The connection broke or was closed without a goodbye.
    TransportClosed,
    /// A ping was not answered in time, or no namespace was asked for.
    PingTimeout,
    /// More waited for the client than may.
    SendQueueOverflow,
    /// The client sent more at once than it may.
    PayloadTooLarge,
    /// The client sent what is no packet, or one that may not come now.
    ProtocolError,
    /// The client has come back by another connection.
    ReplacedByReconnect,
    /// The server ends.
    ServerShutdown,
}

impl DisconnectReason {
    /// The reason in words, for logs and metrics.
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

    /// Nobody wanted it: the client may come back to what is kept for it.
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

/// What a server counts, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketIoStats {
    /// Open sessions, …
    pub open_sessions: usize,
    /// … and how many of them are on polling.
    pub polling_sessions: usize,
    /// Sockets that wait for their client to come back.
    pub detached_sockets: usize,
    /// Bytes that wait for slow clients.
    pub send_queue_bytes: usize,
    /// Bytes kept for clients that come back.
    pub replay_buffer_bytes: usize,
    /// Connections cut because too much waited for them, since the start.
    pub send_queue_overflows_total: u64,
    /// Sockets that came back to what was kept for them, since the start.
    pub recovered: u64,
}

/// Gets the TCP stream back out of what hyper upgraded.
pub type DowncastUpgraded = fn(Upgraded) -> Result<UpgradedTcpStream, Upgraded>;

/// A TCP stream that was hyper's.
#[derive(Debug)]
pub struct UpgradedTcpStream {
    /// The stream. Whoever listens sees to it that it has `TCP_NODELAY`, or small packets wait until the client has acknowledged
    /// earlier ones.
    pub stream: TcpStream,
    /// What hyper had read ahead.
    pub read_buf: Bytes,
    /// What hyper wrote and the client was not sent yet: whoever keeps the answer back lets it go out with the first packet.
    pub unsent_response: Bytes,
}
