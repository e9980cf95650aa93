//! Drain: moves all sockets to other nodes when this node shuts down.
//!
//! Invariants:
//! 1. Each socket gets a random reconnect delay. The range of the delays grows with the number of sockets, so that the
//!    reconnects do not overload the other nodes.
//! 2. The drain makes no user offline: presence keeps the devices for the grace period.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::RngExt;
use tracing::info;

use super::bodies::SessionCloseReason;
use super::{GatewayServer, SocketIoGateway};

/// Target rate of reconnects.
const RECONNECTS_PER_SECOND: usize = 2_000;
/// Minimum range of the reconnect delays.
const MIN_RECONNECT_SPREAD: Duration = Duration::from_millis(100);
/// Maximum range of the reconnect delays. It has to be shorter than the grace period of presence (default 5 s).
const MAX_RECONNECT_SPREAD: Duration = Duration::from_secs(4);
/// Time for the clients to read their send queues.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(4);

impl SocketIoGateway {
    /// Asks all sockets to reconnect, and closes them.
    pub(super) async fn drain(&self, server: &Arc<GatewayServer>) {
        server.stop_accepting();
        self.is_draining.store(true, Ordering::Release);
        let mut sockets = Vec::with_capacity(server.socket_count());
        server.for_each_socket(|socket| sockets.push(Arc::clone(socket)));
        if !sockets.is_empty() {
            info!(sockets = sockets.len(), "asking all sockets to reconnect");
        }
        let spread = reconnect_spread_ms(sockets.len());
        for socket in sockets {
            let wait = rand::rng().random_range(0..=spread);
            self.close(&socket, SessionCloseReason::Shutdown, Some(wait));
        }
        server.shutdown(DRAIN_TIMEOUT).await;
    }
}

/// Range of the reconnect delays in milliseconds.
fn reconnect_spread_ms(sockets: usize) -> u64 {
    let time = Duration::from_millis((sockets * 1_000 / RECONNECTS_PER_SECOND) as u64);
    parlor_chat::clock::duration_millis(time.clamp(MIN_RECONNECT_SPREAD, MAX_RECONNECT_SPREAD))
}
