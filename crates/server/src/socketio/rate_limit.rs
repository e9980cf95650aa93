//! Rate limits of the gateway: events per socket, and handshakes per client network. This node counts them alone.
//!
//! Invariants:
//! 1. A rejected event does not count, so a client that waits for the returned time is accepted.

use std::net::IpAddr;

use parlor_chat::clock::Timestamp;
use parlor_chat::ids::LimiterId;
use parlor_chat::limits::gcra::{self, TheoreticalArrival};
use parlor_chat::limits::{LocalRateLimiter, RateLimit, RateLimitDecision};

use crate::config::BurstRate;

/// Rate limiter of the events of a socket. The state of a socket is one number, 0 at the beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventRateLimiter(RateLimit);

impl EventRateLimiter {
    pub(super) fn new(rate: BurstRate) -> Self {
        Self(RateLimit::with_burst(rate.per_second, rate.burst))
    }

    /// Counts an event and returns the new state; above the rate, the milliseconds to wait.
    pub(super) fn try_acquire(&self, state: u64, now: Timestamp) -> Result<u64, u64> {
        let known = TheoreticalArrival::from_bits(state);
        let (decision, arrival) = gcra::apply_request(Some(known), &self.0, 1, now);
        wait_time(&decision)?;
        Ok(arrival.unwrap_or(known).to_bits())
    }
}

/// Rate limiter of handshakes by client network.
#[derive(Debug)]
pub(super) struct HandshakeRateLimiter {
    rate: RateLimit,
    limiter: LocalRateLimiter,
}

impl HandshakeRateLimiter {
    pub(super) fn new(rate: BurstRate) -> Self {
        Self {
            rate: RateLimit::with_burst(rate.per_second, rate.burst),
            limiter: LocalRateLimiter::new(),
        }
    }

    /// Counts a handshake. Above the rate: milliseconds to wait.
    pub(super) fn try_acquire(&self, address: IpAddr, now: Timestamp) -> Result<(), u64> {
        let network = LimiterId::from_ip(address);
        wait_time(&self.limiter.check(&network, &self.rate, now))
    }
}

fn wait_time(decision: &RateLimitDecision) -> Result<(), u64> {
    decision.retry_after_ms.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_admitted_then_one_event_per_interval() {
        let limiter = EventRateLimiter::new(BurstRate {
            per_second: 50,
            burst: 200,
        });
        let (mut state, now) = (0, 5_000);
        for _ in 0..200 {
            state = limiter.try_acquire(state, Timestamp(now)).unwrap();
        }
        assert_eq!(limiter.try_acquire(state, Timestamp(now)), Err(20));
        assert_eq!(limiter.try_acquire(state, Timestamp(now + 19)), Err(1));
        let later = limiter.try_acquire(state, Timestamp(now + 20)).unwrap();
        assert_eq!(limiter.try_acquire(later, Timestamp(now + 20)), Err(20));
        let rested = Timestamp(now + 10_000);
        let first_of_burst = limiter.try_acquire(0, rested);
        assert_eq!(limiter.try_acquire(later, rested), first_of_burst);
    }

    #[test]
    fn the_largest_configurable_rate_is_exact() {
        let limiter = EventRateLimiter::new(BurstRate {
            per_second: 1_000_000,
            burst: 10_000_000,
        });
        let mut state = 0;
        for _ in 0..3 {
            state = limiter.try_acquire(state, Timestamp(0)).unwrap();
        }
        let arrival = TheoreticalArrival::from_bits(state);
        assert_eq!(arrival.to_bits(), state);
        assert_eq!(
            limiter.try_acquire(state, Timestamp(1)),
            limiter.try_acquire(0, Timestamp(1))
        );
    }

    #[test]
    fn handshakes_are_rate_limited_per_address() {
        let limiter = HandshakeRateLimiter::new(BurstRate {
            per_second: 10,
            burst: 2,
        });
        let one = "2001:db8::1".parse().unwrap();
        let start = Timestamp(0);
        assert_eq!(limiter.try_acquire(one, start), Ok(()));
        assert_eq!(limiter.try_acquire(one, start), Ok(()));
        let same_network = "2001:db8::2".parse().unwrap();
        assert_eq!(limiter.try_acquire(same_network, start), Err(100));
        let other_network = "2001:db8:0:1::1".parse().unwrap();
        assert_eq!(limiter.try_acquire(other_network, start), Ok(()));
        assert_eq!(limiter.try_acquire(one, Timestamp(100)), Ok(()));
    }
}
