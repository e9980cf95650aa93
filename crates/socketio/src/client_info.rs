//! Description of the client of a session.

use std::net::IpAddr;

/// The client, as described by the first HTTP request of its session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientInfo {
    /// IP address, whose network counts against [`max_sessions_per_address`](crate::SocketIoOptions::max_sessions_per_address).
    pub address: Option<IpAddr>,
    /// `User-Agent` header; the caller limits its length.
    pub user_agent: Option<Box<str>>,
    /// The client stores the last argument of an event as its offset and sends the offset when it reconnects, as the
    /// JavaScript clients do. The server detects this from the handshake. Other clients would pass the additional
    /// argument to their event handlers.
    pub supports_recovery: bool,
}
