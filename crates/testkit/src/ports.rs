//! Ports that nobody listens on right now.
//!
//! Always true: they lie below the range from which systems take ports for outgoing connections, so only
//! another server can take one between here and its use; and the port 10,000 above, which Redis Cluster
//! takes for its bus, is free and below that range too.

use std::net::TcpListener;

use rand::RngExt;

const FIRST: u16 = 10_000;
const LAST: u16 = 21_999;
/// Distance from the port of a Redis Cluster node to its bus.
const BUS: u16 = 10_000;

/// A free port whose cluster bus port is free as well.
pub(crate) fn free() -> u16 {
    loop {
        let port = rand::rng().random_range(FIRST..=LAST);
        if is_free(port) && is_free(port + BUS) {
            return port;
        }
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
