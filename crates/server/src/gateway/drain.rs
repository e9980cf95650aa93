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
use super::{Gateway, Server};

/// How many come back in a second.
const PER_SECOND: usize = 2_000;
/// The shortest time they are spread over, …
const SHORTEST: Duration = Duration::from_millis(100);
/// … and the longest: presence waits no longer.
const LONGEST: Duration = Duration::from_secs(4);
/// How long clients may take to read what waits for them.
const PATIENCE: Duration = Duration::from_secs(4);

impl Gateway {
    /// Says goodbye to everybody.
    pub(super) async fn drain(&self, server: &Arc<Server>) {
        server.stop();
        self.draining.store(true, Ordering::Release);
        let mut sockets = Vec::with_capacity(server.count());
        server.for_each(|socket| sockets.push(Arc::clone(socket)));
        if !sockets.is_empty() {
            info!(sockets = sockets.len(), "the sockets are told to come back");
        }
        let spread = spread(sockets.len());
        for socket in sockets {
            let wait = rand::rng().random_range(0..=spread);
            self.close_with(&socket, ClosedReason::Shutdown, Some(wait));
        }
        server.close(PATIENCE).await;
    }
}

/// Over how many milliseconds so many sockets come back.
fn spread(sockets: usize) -> u64 {
    let time = Duration::from_millis((sockets * 1_000 / PER_SECOND) as u64);
    parlor_chat::context::millis(time.clamp(SHORTEST, LONGEST))
}
