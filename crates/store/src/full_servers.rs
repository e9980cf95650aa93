//! Log of servers that are full.
//!
//! Invariant: a server that stays full is logged once, and then once per [`REPORT_INTERVAL`] with the number of rejected
//! requests, however many requests it rejects.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::telemetry;

const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Servers that have rejected a request because they are out of memory or cannot persist.
#[derive(Debug, Default)]
pub(crate) struct FullServers(Mutex<BTreeMap<String, FullServer>>);

#[derive(Debug)]
struct FullServer {
    reported_at: Instant,
    /// Rejected requests since the last report.
    rejected: u64,
}

impl FullServers {
    /// Counts a rejected request. `code` is the code of its error.
    pub(crate) fn report(&self, server: &str, code: &str) {
        self.report_at(server, code, Instant::now());
    }

    fn report_at(&self, server: &str, code: &str, now: Instant) -> bool {
        telemetry::rejected_as_full();
        let mut servers = self.0.lock();
        let is_new = !servers.contains_key(server);
        let full = servers.entry(server.to_owned()).or_insert(FullServer {
            reported_at: now,
            rejected: 0,
        });
        full.rejected += 1;
        let is_due = is_new || now.duration_since(full.reported_at) >= REPORT_INTERVAL;
        if is_due {
            telemetry::full(server, code, full.rejected);
            *full = FullServer {
                reported_at: now,
                rejected: 0,
            };
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_server_is_logged_once_per_interval() {
        let (servers, now) = (FullServers::default(), Instant::now());
        let reports = |at: Instant| {
            (0..100)
                .filter(|_| servers.report_at("a", "OOM", at))
                .count()
        };
        assert_eq!(reports(now), 1);
        assert_eq!(reports(now + REPORT_INTERVAL / 2), 0);
        assert_eq!(reports(now + REPORT_INTERVAL), 1);
        assert!(servers.report_at("b", "OOM", now), "each server is logged");
    }
}
