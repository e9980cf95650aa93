//! Statistics of a server.

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
    pub recovered_sockets_total: u64,
}
