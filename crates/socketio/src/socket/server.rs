//! The server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};

use super::hub::SocketIoLayer;
use super::{EncodedEvent, Socket, SocketHandler};
use crate::engine::EngineIoServer;
use crate::{Client, DowncastUpgraded, SocketIoOptions, SocketIoStats};

/// A Socket.IO server: gets requests from whoever accepts connections, and has one task of its own, [`Server::run`].
pub struct SocketIoServer<A: SocketHandler> {
    engine: Arc<EngineIoServer<SocketIoLayer<A>>>,
}

impl<A: SocketHandler> SocketIoServer<A> {
    /// A server without clients.
    pub fn new(app: Arc<A>, options: SocketIoOptions) -> Arc<Self> {
        let hub = Arc::new(SocketIoLayer::new(app, &options));
        Arc::new(Self {
            engine: EngineIoServer::new(hub, options),
        })
    }

    fn hub(&self) -> &Arc<SocketIoLayer<A>> {
        self.engine.handler()
    }

    /// The application.
    pub fn handler(&self) -> &Arc<A> {
        &self.hub().app
    }

    /// Whether a request with this path is for it.
    pub fn matches_path(&self, path: &str) -> bool {
        self.engine.matches_path(path)
    }

    /// Answers a request. Dropped while it waits, the session that it polls for is over, as the client is gone.
    pub async fn handle_request(
        self: &Arc<Self>,
        request: Request<Incoming>,
        client: Client,
        take_back: DowncastUpgraded,
    ) -> Response<Full<Bytes>> {
        self.engine.handle_request(request, client, take_back).await
    }

    /// An event that is kept for clients that lose their connection: with recovery on, its last argument is its offset.
    pub fn encode_recoverable_event(&self, name: &str, args: &[u8]) -> EncodedEvent {
        self.hub().frame(name, args)
    }

    /// The timers. Without it nothing is pinged and nobody times out. Never ends.
    pub async fn run_timers(self: Arc<Self>) {
        Arc::clone(&self.engine).run_timers().await;
    }

    /// Calls `each` with every socket, those held for recovery included. Sockets that come meanwhile may be left out.
    pub fn for_each_socket(&self, each: impl FnMut(&Arc<Socket<A::State>>)) {
        self.hub().registry.for_each(each);
    }

    /// How many sockets there are, those held for recovery included.
    pub fn count(&self) -> usize {
        self.hub().registry.len()
    }

    /// From now on new sessions are refused with 503; open ones go on.
    pub fn stop_accepting(&self) {
        self.engine.stop_accepting();
    }

    /// Sends what is queued, closes all connections and gives up what is held. Returns when all is closed, at the latest shortly
    /// after `patience`: who is left then is cut.
    pub async fn shutdown(&self, patience: Duration) {
        self.engine.close_all_sessions(patience).await;
        self.hub().end_sockets_without_session();
    }

    /// What it counts now.
    pub fn stats(&self) -> SocketIoStats {
        SocketIoStats {
            detached_sockets: self.hub().detached_sockets.len(),
            replay_buffer_bytes: self.hub().detached_sockets.replay_budget.used_bytes(),
            recovered: self.hub().recovered_total.load(Ordering::Relaxed),
            ..self.engine.stats()
        }
    }
}

impl<A: SocketHandler> fmt::Debug for SocketIoServer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketIoServer").finish_non_exhaustive()
    }
}
