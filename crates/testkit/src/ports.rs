//! Ports that nobody listens on right now.
//!
//! Always true: they lie below the range from which systems take ports for outgoing connections, so only
//! another server can take one between here and its use; and the port 10,000 above, which Redis Cluster
//! takes for its bus, is free and below that range too.

use std::net::TcpListener;

use rand::RngExt;

const MIN_PORT: u16 = 10_000;
const MAX_PORT: u16 = 21_999;
/// Distance from the port of a Redis Cluster node to its bus.
const CLUSTER_BUS_OFFSET: u16 = 10_000;

/// A free port whose cluster bus port is free as well.
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
