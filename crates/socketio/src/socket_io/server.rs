//! Public interface of the Socket.IO server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};

use super::layer::SocketIoLayer;
use super::{EncodedEvent, Socket, SocketHandler};
use crate::engine_io::EngineIoServer;
use crate::{ClientInfo, DowncastUpgraded, SocketIoOptions, SocketIoStats};

/// Socket.IO server. Its owner accepts connections, passes requests to it, and spawns one task,
/// [`SocketIoServer::run_timers`].
pub struct SocketIoServer<H: SocketHandler> {
    engine: Arc<EngineIoServer<SocketIoLayer<H>>>,
}

impl<H: SocketHandler> SocketIoServer<H> {
    /// Creates a server without clients.
    pub fn new(handler: Arc<H>, options: SocketIoOptions) -> Arc<Self> {
        let layer = Arc::new(SocketIoLayer::new(handler, &options));
        Arc::new(Self {
            engine: EngineIoServer::new(layer, options),
        })
    }

    fn layer(&self) -> &Arc<SocketIoLayer<H>> {
        self.engine.handler()
    }

    /// The handler.
    pub fn handler(&self) -> &Arc<H> {
        &self.layer().handler
    }

    /// True if a request with this path belongs to the server.
    pub fn matches_path(&self, path: &str) -> bool {
        self.engine.matches_path(path)
    }

    /// Handles a request. If its future is dropped while a poll or a post waits, the client has disconnected and the
    /// session is closed.
    pub async fn handle_request(
        self: &Arc<Self>,
        request: Request<Incoming>,
        client: ClientInfo,
        downcast: DowncastUpgraded,
    ) -> Response<Full<Bytes>> {
        self.engine.handle_request(request, client, downcast).await
    }

    /// Encodes an event that is replayed after a lost connection. If recovery is enabled, its last argument is its
    /// offset.
    pub fn encode_recoverable_event(&self, name: &str, args: &[u8]) -> EncodedEvent {
        self.layer().encode_recoverable_event(name, args)
    }

    /// Runs the timers: without them, no client is pinged and no timeout passes. Never returns.
    pub async fn run_timers(self: Arc<Self>) {
        Arc::clone(&self.engine).run_timers().await;
    }

    /// Calls `each` with every socket, including detached ones. A socket that connects meanwhile may be skipped.
    pub fn for_each_socket(&self, each: impl FnMut(&Arc<Socket<H>>)) {
        self.layer().registry.for_each(each);
    }

    /// Number of sockets, including detached ones.
    pub fn socket_count(&self) -> usize {
        self.layer().registry.len()
    }

    /// Rejects new sessions with 503 from now on; open sessions continue.
    pub fn stop_accepting(&self) {
        self.engine.stop_accepting();
    }

    /// Sends all send queues, closes all sessions and ends all detached sockets. Sessions that are open after `timeout`
    /// are aborted.
    pub async fn shutdown(&self, timeout: Duration) {
        self.engine.close_all_sessions(timeout).await;
        self.layer().end_sockets_without_session();
    }

    /// Counters and gauges at this moment, for tests: locks every session.
    pub fn stats(&self) -> SocketIoStats {
        SocketIoStats {
            detached_sockets: self.layer().detached_sockets.len(),
            replay_buffer_bytes: self.layer().detached_sockets.replay_budget.used_bytes(),
            recovered_sockets_total: self.layer().recovered_total.load(Ordering::Relaxed),
            ..self.engine.stats()
        }
    }
}

impl<H: SocketHandler> fmt::Debug for SocketIoServer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketIoServer").finish_non_exhaustive()
    }
}
