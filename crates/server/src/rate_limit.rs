//! Rate limit of requests.
//!
//! Invariants:
//! 1. A user has one limit for all gateways and all nodes. Requests without a valid token are counted by client
//!    address. Services are not counted.
//! 2. A rejected request does not count.
//! 3. While the store cannot count, each node counts locally.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use parlor_chat::Chat;
use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::clock::Timestamp;
use parlor_chat::ids::LimiterId;
use parlor_chat::limits::{LocalRateLimiter, RateLimit, RateLimitDecision};
use tokio::time::Instant;
use tracing::warn;

/// Rate limiter of requests.
#[derive(Debug)]
pub struct RequestRateLimiter {
    limit: RateLimit,
    local_limiter: LocalRateLimiter,
    /// Zero of the local limiter's clock.
    started_at: Instant,
    /// An error other than an outage was logged. Each request repeats the error, so the log mentions it once.
    is_error_reported: AtomicBool,
}

impl RequestRateLimiter {
    /// Applies `limit` to each user and each address.
    pub fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            local_limiter: LocalRateLimiter::new(),
            started_at: Instant::now(),
            is_error_reported: AtomicBool::new(false),
        }
    }

    /// Counts a request and returns the decision. `chat` is `None` until the store is open.
    pub async fn count_request(&self, chat: Option<&Chat>, id: &LimiterId) -> RateLimitDecision {
        if let Some(chat) = chat {
            match chat.limits().check(id, &self.limit, 1, false).await {
                Ok(decision) => return decision,
                // Not logged here: operations that need the store return these errors.
                Err(error) if error.is_store_outage() => {}
                Err(_) if self.is_error_reported.swap(true, Ordering::Relaxed) => {}
                Err(error) => {
                    let error = anyhow::Error::new(error);
                    warn!(
                        error = format!("{error:#}"),
                        "the store cannot count requests; counting locally"
                    );
                }
            }
        }
        let elapsed = self.started_at.elapsed().as_millis();
        let now = Timestamp(u64::try_from(elapsed).unwrap_or(u64::MAX));
        self.local_limiter.check(id, &self.limit, now)
    }
}

/// Limiter id of an authenticated caller; `None` for a service.
pub fn limiter_id_of_caller(caller: &Caller) -> Option<LimiterId> {
    let user = caller.user.as_ref()?;
    match caller.role {
        Role::Service => None,
        Role::User | Role::Admin => limiter_id(&format!("http:user:{user}")),
    }
}

/// Limiter id of requests without a valid token from this address. An IPv6 address counts as its /64 network.
pub fn limiter_id_of_address(address: IpAddr) -> Option<LimiterId> {
    let network = LimiterId::from_ip(address);
    limiter_id(&format!("http:addr:{network}"))
}

fn limiter_id(id: &str) -> Option<LimiterId> {
    // User ids and addresses contain only characters that a limiter id allows.
    LimiterId::new(id).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parlor_chat::limits::RateLimitAlgorithm;

    use super::*;

    fn person(user: &str, role: Role) -> Caller {
        Caller {
            user: parlor_chat::ids::UserId::new(user).ok(),
            role,
            ..Caller::unauthenticated(None)
        }
    }

    #[test]
    fn each_user_has_a_limit_and_services_have_none() {
        let id = |caller: &Caller| limiter_id_of_caller(caller).map(|id| id.to_string());
        let longest = "u".repeat(128);
        for role in [Role::User, Role::Admin] {
            assert_eq!(id(&person("alice", role)).unwrap(), "http:user:alice");
            assert_eq!(
                id(&person(&longest, role)).unwrap(),
                format!("http:user:{longest}")
            );
        }
        assert_eq!(id(&person("alice", Role::Service)), None);
        assert_eq!(id(&Caller::unauthenticated(None)), None);
    }

    #[test]
    fn ipv6_addresses_are_limited_per_64_bit_network() {
        for (address, id) in [
            ("203.0.113.7", "http:addr:203.0.113.7"),
            ("::ffff:203.0.113.7", "http:addr:203.0.113.7"),
            ("2001:db8:1:2:3:4:5:6", "http:addr:2001:db8:1:2::"),
            ("::1", "http:addr:::"),
        ] {
            let found = limiter_id_of_address(address.parse().unwrap()).unwrap();
            assert_eq!(found.to_string(), id);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_node_counts_locally_while_the_store_is_unavailable() {
        let limit = RateLimit::new(RateLimitAlgorithm::Gcra, 2, Duration::from_secs(10)).unwrap();
        let (limiter, id) = (
            RequestRateLimiter::new(limit),
            limiter_id("http:user:alice").unwrap(),
        );
        assert_eq!(limiter.count_request(None, &id).await.remaining, 1);
        assert!(limiter.count_request(None, &id).await.allowed);
        let third = limiter.count_request(None, &id).await;
        assert!(!third.allowed);
        assert_eq!(third.retry_after_ms, Some(5_000));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(limiter.count_request(None, &id).await.allowed);
    }
}
