//! Rate limit of handshakes per client network, counted by this node alone.
//!
//! Invariants:
//! 1. The map has at most [`MAX_NETWORKS`] entries. When it is full, entries that no longer limit a network are
//!    removed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use parking_lot::Mutex;

use super::rate_limit::{GcraRate, GcraState};
use crate::config::BurstRate;

/// Maximum number of networks in the map.
const MAX_NETWORKS: usize = 100_000;

/// Rate limiter of handshakes by IP network.
#[derive(Debug)]
pub(super) struct HandshakeRateLimiter {
    pace: GcraRate,
    state_by_network: Mutex<HashMap<IpAddr, GcraState>>,
}

impl HandshakeRateLimiter {
    pub(super) fn new(rate: BurstRate) -> Self {
        Self {
            pace: GcraRate::new(rate),
            state_by_network: Mutex::default(),
        }
    }

    /// Counts a handshake at `now`, in microseconds. Above the rate: milliseconds to wait.
    pub(super) fn try_acquire(&self, address: IpAddr, now: u64) -> Result<(), u64> {
        let network = client_network(address);
        let mut seen = self.state_by_network.lock();
        if seen.len() >= MAX_NETWORKS && !seen.contains_key(&network) {
            seen.retain(|_, used| *used > now);
            if seen.len() >= MAX_NETWORKS {
                // Clients with very many addresses have filled the map: new networks have to wait.
                return Err(1_000);
            }
        }
        let used = seen.entry(network).or_default();
        *used = self.pace.try_acquire(*used, now)?;
        Ok(())
    }
}

/// Network that counts as one client: the address itself for IPv4, the /64 for IPv6.
fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_rate_limited_per_address() {
        let arrivals = HandshakeRateLimiter::new(BurstRate {
            per_second: 10,
            burst: 2,
        });
        let one = "2001:db8::1".parse().unwrap();
        assert_eq!(arrivals.try_acquire(one, 0), Ok(()));
        assert_eq!(arrivals.try_acquire(one, 0), Ok(()));
        assert_eq!(
            arrivals.try_acquire("2001:db8::2".parse().unwrap(), 0),
            Err(100)
        );
        assert_eq!(
            arrivals.try_acquire("2001:db8:0:1::1".parse().unwrap(), 0),
            Ok(())
        );
        assert_eq!(arrivals.try_acquire(one, 100_000), Ok(()));
    }
}
