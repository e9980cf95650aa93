//! Rate limits of the gateway: events per socket, and handshakes per client network.
//!
//! Invariants:
//! 1. A rejected event does not count, so a client that waits for the returned time is accepted.
//! 2. The map of networks has at most [`MAX_NETWORKS`] entries. When it is full, entries that no longer limit a network
//!    are removed.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::Mutex;
use parlor_chat::ids::LimiterId;

use crate::config::BurstRate;

/// Maximum number of networks in the map.
const MAX_NETWORKS: usize = 100_000;

/// Rate with a burst (GCRA: the state is one number).
#[derive(Debug, Clone, Copy)]
pub(super) struct GcraRate {
    /// Microseconds per event.
    micros_per_event: u64,
    /// Maximum distance of the state from now, in microseconds: the burst.
    tolerance_micros: u64,
}

/// State: time up to which the rate is used up, in microseconds of the caller's clock.
pub(super) type GcraState = u64;

impl GcraRate {
    pub(super) fn new(rate: BurstRate) -> Self {
        let each = 1_000_000 / u64::from(rate.per_second.max(1));
        let micros_per_event = each.max(1);
        Self {
            micros_per_event,
            tolerance_micros: micros_per_event * u64::from(rate.burst.max(1)),
        }
    }

    /// Counts an event at `now` and returns the new state; above the rate, the milliseconds to wait.
    pub(super) fn try_acquire(&self, used: GcraState, now: u64) -> Result<GcraState, u64> {
        let after = used.max(now) + self.micros_per_event;
        match after.saturating_sub(now + self.tolerance_micros) {
            0 => Ok(after),
            early => Err(early.div_ceil(1_000)),
        }
    }
}

/// Rate limiter of handshakes by client network, counted by this node alone.
#[derive(Debug)]
pub(super) struct HandshakeRateLimiter {
    rate: GcraRate,
    state_by_network: Mutex<HashMap<LimiterId, GcraState>>,
}

impl HandshakeRateLimiter {
    pub(super) fn new(rate: BurstRate) -> Self {
        Self {
            rate: GcraRate::new(rate),
            state_by_network: Mutex::default(),
        }
    }

    /// Counts a handshake at `now`, in microseconds. Above the rate: milliseconds to wait.
    pub(super) fn try_acquire(&self, address: IpAddr, now: u64) -> Result<(), u64> {
        let network = LimiterId::from_ip(address);
        let mut states = self.state_by_network.lock();
        if states.len() >= MAX_NETWORKS && !states.contains_key(&network) {
            states.retain(|_, state| *state > now);
            if states.len() >= MAX_NETWORKS {
                // Clients with very many addresses have filled the map: new networks have to wait.
                return Err(1_000);
            }
        }
        let state = states.entry(network).or_default();
        *state = self.rate.try_acquire(*state, now)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_admitted_then_one_event_per_interval() {
        let rate = GcraRate::new(BurstRate {
            per_second: 50,
            burst: 200,
        });
        let (mut used, now) = (0, 5_000_000);
        for _ in 0..200 {
            used = rate.try_acquire(used, now).unwrap();
        }
        assert_eq!(rate.try_acquire(used, now), Err(20));
        assert_eq!(rate.try_acquire(used, now + 19_000), Err(1));
        let later = rate.try_acquire(used, now + 20_000).unwrap();
        assert_eq!(rate.try_acquire(later, now + 20_000), Err(20));
        let rested = now + 10_000_000;
        assert_eq!(rate.try_acquire(later, rested), Ok(rested + 20_000));
    }

    #[test]
    fn handshakes_are_rate_limited_per_address() {
        let limiter = HandshakeRateLimiter::new(BurstRate {
            per_second: 10,
            burst: 2,
        });
        let one = "2001:db8::1".parse().unwrap();
        assert_eq!(limiter.try_acquire(one, 0), Ok(()));
        assert_eq!(limiter.try_acquire(one, 0), Ok(()));
        assert_eq!(
            limiter.try_acquire("2001:db8::2".parse().unwrap(), 0),
            Err(100)
        );
        assert_eq!(
            limiter.try_acquire("2001:db8:0:1::1".parse().unwrap(), 0),
            Ok(())
        );
        assert_eq!(limiter.try_acquire(one, 100_000), Ok(()));
    }
}
