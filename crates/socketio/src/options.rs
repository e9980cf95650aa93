//! Settings of a Socket.IO server.

use std::net::IpAddr;
use std::time::Duration;

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
    /// Connection state recovery; `None` ends every socket with its connection. Default: `None`.
    pub recovery: Option<RecoveryOptions>,
    /// Maximum open sessions (more are rejected with 503), and maximum detached sockets. Default: 100,000.
    pub max_sessions: usize,
    /// Maximum open sessions of one client network; more are rejected with 429. Default: 20,000.
    pub max_sessions_per_address: usize,
    /// Network of an IP address, for that maximum. Default: the address itself.
    pub client_network: fn(IpAddr) -> IpAddr,
    /// First three characters of every `sid`, from the URL-safe base64 alphabet, to distinguish the nodes of a cluster.
    /// Default: `AAA`.
    pub sid_prefix: [u8; 3],
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
            recovery: None,
            max_sessions: 100_000,
            max_sessions_per_address: 20_000,
            client_network: |address| address,
            sid_prefix: *b"AAA",
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
    /// Maximum bytes of all replay buffers together. Above it, the replay buffer of each socket that is sent an event
    /// is cleared.
    pub max_total_bytes: usize,
}
