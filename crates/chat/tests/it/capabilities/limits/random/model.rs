//! Model of rate limits: the expected decisions.

use parlor_chat::limits::{RateLimit, RateLimitAlgorithm, RateLimitDecision};

use crate::capabilities::limits::fixture::{allowed, refused};

pub enum Model {
    /// Start of the window, and its used requests.
    Fixed(u64, u64),
    /// Times of the counted requests.
    Sliding(Vec<u64>),
    /// Token bucket: its level, where one token has `window` parts, and the time of that level.
    Gcra(u64, u64),
}

impl Model {
    pub fn new(limit: &RateLimit, now: u64) -> Self {
        match limit.algorithm() {
            RateLimitAlgorithm::Fixed => Self::Fixed(0, 0),
            RateLimitAlgorithm::Sliding => Self::Sliding(Vec::new()),
            RateLimitAlgorithm::Gcra => {
                Self::Gcra(u64::from(limit.requests()) * limit.window_ms(), now)
            }
        }
    }

    pub fn check(
        &mut self,
        limit: &RateLimit,
        cost: u32,
        peek: bool,
        now: u64,
    ) -> RateLimitDecision {
        let fits = self.wait(limit, cost, now) == 0;
        if fits && !peek {
            self.take(cost, limit, now);
        }
        let requests = limit.requests();
        let remaining = (0..=requests).rev();
        let mut remaining = remaining.skip_while(|it| self.wait(limit, *it, now) > 0);
        let remaining = remaining.next().unwrap();
        let reset = self.wait(limit, requests, now);
        if fits {
            allowed(requests, remaining, reset)
        } else {
            refused(requests, remaining, reset, self.wait(limit, cost, now))
        }
    }

    /// Time until so many requests fit.
    fn wait(&self, limit: &RateLimit, places: u32, now: u64) -> u64 {
        let (requests, window) = (u64::from(limit.requests()), limit.window_ms());
        let places = u64::from(places);
        match self {
            Self::Fixed(began, used) => {
                let end = began + window;
                if now >= end || used + places <= requests {
                    0
                } else {
                    end - now
                }
            }
            Self::Sliding(taken) => {
                let mut ends: Vec<_> = taken.iter().map(|it| it + window).collect();
                ends.retain(|it| *it > now);
                let used = u64::try_from(ends.len()).unwrap();
                let over = usize::try_from((used + places).saturating_sub(requests)).unwrap();
                over.checked_sub(1).map_or(0, |last| ends[last] - now)
            }
            Self::Gcra(level, at) => {
                let level = (level + (now - at) * requests).min(requests * window);
                (places * window).saturating_sub(level).div_ceil(requests)
            }
        }
    }

    fn take(&mut self, cost: u32, limit: &RateLimit, now: u64) {
        let (requests, window) = (u64::from(limit.requests()), limit.window_ms());
        match self {
            Self::Fixed(began, used) => {
                if now >= *began + window {
                    (*began, *used) = (now, 0);
                }
                *used += u64::from(cost);
            }
            Self::Sliding(taken) => taken.extend((0..cost).map(|_| now)),
            Self::Gcra(level, at) => {
                let full = (*level + (now - *at) * requests).min(requests * window);
                (*level, *at) = (full - u64::from(cost) * window, now);
            }
        }
    }
}
