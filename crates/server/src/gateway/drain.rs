//! The end of the node, as its sockets see it.
//!
//! Always true: everybody is told when to come back, spread over a time that grows with their number, so that the other nodes
//! are not stormed; nobody is made offline by it: presence is kept through the grace time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::RngExt;
use tracing::info;

use super::words::ClosedReason;
use super::{GatewayServer, SocketIoGateway};

/// How many come back in a second.
const RECONNECTS_PER_SECOND: usize = 2_000;
/// The shortest time they are spread over, …
const MIN_RECONNECT_SPREAD: Duration = Duration::from_millis(100);
/// … and the longest: presence waits no longer.
const MAX_RECONNECT_SPREAD: Duration = Duration::from_secs(4);
/// How long clients may take to read what waits for them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(4);

impl SocketIoGateway {
    /// Says goodbye to everybody.
    pub(super) async fn drain(&self, server: &Arc<GatewayServer>) {
        server.stop_accepting();
        self.is_draining.store(true, Ordering::Release);
        let mut sockets = Vec::with_capacity(server.count());
        server.for_each_socket(|socket| sockets.push(Arc::clone(socket)));
        if !sockets.is_empty() {
            info!(sockets = sockets.len(), "asking all sockets to reconnect");
        }
        let spread = reconnect_spread_ms(sockets.len());
        for socket in sockets {
            let wait = rand::rng().random_range(0..=spread);
            self.close_with(&socket, ClosedReason::Shutdown, Some(wait));
        }
        server.shutdown(DRAIN_TIMEOUT).await;
    }
}

/// Over how many milliseconds so many sockets come back.
fn reconnect_spread_ms(sockets: usize) -> u64 {
    let time = Duration::from_millis((sockets * 1_000 / RECONNECTS_PER_SECOND) as u64);
    parlor_chat::context::duration_millis(time.clamp(MIN_RECONNECT_SPREAD, MAX_RECONNECT_SPREAD))
}
