//! The server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};

use super::hub::Hub;
use super::{App, Frame, Socket};
use crate::engine::Engine;
use crate::{Client, Figures, Options, TakeBack};

/// A Socket.IO server: gets requests from whoever accepts connections, and has one task of its own, [`Server::run`].
pub struct Server<A: App> {
    engine: Arc<Engine<Hub<A>>>,
}

impl<A: App> Server<A> {
    /// A server without clients.
    pub fn new(app: Arc<A>, options: Options) -> Arc<Self> {
        let hub = Arc::new(Hub::new(app, &options));
        Arc::new(Self {
            engine: Engine::new(hub, options),
        })
    }

    fn hub(&self) -> &Arc<Hub<A>> {
        self.engine.above()
    }

    /// The application.
    pub fn app(&self) -> &Arc<A> {
        &self.hub().app
    }

    /// Whether a request with this path is for it.
    pub fn takes(&self, path: &str) -> bool {
        self.engine.takes(path)
    }

    /// Answers a request. Dropped while it waits, the session that it polls for is over, as the client is gone.
    pub async fn handle(
        self: &Arc<Self>,
        request: Request<Incoming>,
        client: Client,
        take_back: TakeBack,
    ) -> Response<Full<Bytes>> {
        self.engine.handle(request, client, take_back).await
    }

    /// An event that is kept for clients that lose their connection: with recovery on, its last argument is its offset.
    pub fn frame(&self, name: &str, args: &[u8]) -> Frame {
        self.hub().frame(name, args)
    }

    /// The timers. Without it nothing is pinged and nobody times out. Never ends.
    pub async fn run(self: Arc<Self>) {
        Arc::clone(&self.engine).run().await;
    }

    /// Calls `each` with every socket, those held for recovery included. Sockets that come meanwhile may be left out.
    pub fn for_each(&self, each: impl FnMut(&Arc<Socket<A::State>>)) {
        self.hub().roster.for_each(each);
    }

    /// How many sockets there are, those held for recovery included.
    pub fn count(&self) -> usize {
        self.hub().roster.len()
    }

    /// From now on new sessions are refused with 503; open ones go on.
    pub fn stop(&self) {
        self.engine.stop();
    }

    /// Sends what is queued, closes all connections and gives up what is held. Returns when all is closed, at the latest shortly
    /// after `patience`: who is left then is cut.
    pub async fn close(&self, patience: Duration) {
        self.engine.close(patience).await;
        self.hub().give_up();
    }

    /// What it counts now.
    pub fn figures(&self) -> Figures {
        Figures {
            held: self.hub().shelf.len(),
            kept_bytes: self.hub().shelf.account.bytes(),
            recovered: self.hub().recovered.load(Ordering::Relaxed),
            ..self.engine.figures()
        }
    }
}

impl<A: App> fmt::Debug for Server<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}
