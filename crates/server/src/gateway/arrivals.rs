//! How often somebody may knock: handshakes by address, counted by this node alone.
//!
//! Always true: what is remembered of an address is forgotten when it makes no difference any more, and of at most
//! [`MOST`] at a time.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use parking_lot::Mutex;

use super::rate::{Pace, Used};
use crate::config::Rate;

/// Addresses that are remembered.
const MOST: usize = 100_000;

/// Who came, and how often.
#[derive(Debug)]
pub(super) struct Arrivals {
    pace: Pace,
    seen: Mutex<HashMap<IpAddr, Used>>,
}

impl Arrivals {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            pace: Pace::new(rate),
            seen: Mutex::default(),
        }
    }

    /// Counts one at `now`, in microseconds. If it was too often: when to try again, in milliseconds.
    pub(super) fn one(&self, address: IpAddr, now: u64) -> Result<(), u64> {
        let network = network(address);
        let mut seen = self.seen.lock();
        if seen.len() >= MOST && !seen.contains_key(&network) {
            seen.retain(|_, used| *used > now);
            if seen.len() >= MOST {
                // Somebody has a great many addresses: those that are new wait for the others.
                return Err(1_000);
            }
        }
        let used = seen.entry(network).or_default();
        *used = self.pace.one(*used, now)?;
        Ok(())
    }
}

/// What counts as one client: the address itself in IPv4, the /64 in IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_knocks_too_often_waits_and_no_other_does() {
        let arrivals = Arrivals::new(Rate {
            per_second: 10,
            burst: 2,
        });
        let one = "2001:db8::1".parse().unwrap();
        assert_eq!(arrivals.one(one, 0), Ok(()));
        assert_eq!(arrivals.one(one, 0), Ok(()));
        assert_eq!(arrivals.one("2001:db8::2".parse().unwrap(), 0), Err(100));
        assert_eq!(arrivals.one("2001:db8:0:1::1".parse().unwrap(), 0), Ok(()));
        assert_eq!(arrivals.one(one, 100_000), Ok(()));
    }
}
