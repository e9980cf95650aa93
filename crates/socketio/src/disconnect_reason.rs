//! Why sessions and sockets end.

/// Reason why a session or a socket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The client sent a DISCONNECT or close packet.
    ClientDisconnect,
    /// The handler disconnected the socket, or its future panicked.
    ServerDisconnect,
    /// The connection was lost, or closed without a DISCONNECT or close packet.
    TransportClosed,
    /// A ping was not answered in time.
    PingTimeout,
    /// The client did not connect to a namespace in time, or the handler did not answer its CONNECT in time.
    ConnectTimeout,
    /// The send queue of the session exceeded its limit.
    SendQueueOverflow,
    /// The client sent too many events.
    TooManyEvents,
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
    /// True if the client may recover the socket after this reason: neither side has ended it on purpose.
    pub(crate) const fn is_recoverable(self) -> bool {
        matches!(
            self,
            Self::TransportClosed
                | Self::PingTimeout
                | Self::ConnectTimeout
                | Self::SendQueueOverflow
                | Self::TooManyEvents
                | Self::ReplacedByReconnect
        )
    }
}
