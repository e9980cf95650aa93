//! Free ports.
//!
//! Invariants:
//! 1. The ports lie below the range that systems use for outgoing connections, so only another server can take one
//!    before it is used.
//! 2. The port 10,000 above, which Redis Cluster uses for its bus, is free too and below that range.

use std::net::TcpListener;

use rand::RngExt;

const MIN_PORT: u16 = 10_000;
const MAX_PORT: u16 = 21_999;
/// Distance between the port of a Redis Cluster node and its bus port.
const CLUSTER_BUS_OFFSET: u16 = 10_000;

/// Finds a free port whose cluster bus port is free too.
pub(crate) fn find_free_port() -> u16 {
    loop {
        let port = rand::rng().random_range(MIN_PORT..=MAX_PORT);
        if is_free(port) && is_free(port + CLUSTER_BUS_OFFSET) {
            return port;
        }
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
