//! Shared state of a store: time, epoch, and the servers that are down.
//!
//! Invariants:
//! 1. The state is `Up` exactly while no server of the store is marked as down. Each change of the state is reported
//!    once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock::StoreClock;
use crate::epoch::Epoch;
use crate::full_servers::FullServers;
use crate::options::StoreOptions;
use crate::script::LuaScript;
use crate::telemetry;

/// Whether the store answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreState {
    /// All servers answer.
    Up,
    /// At least one server does not answer.
    Down {
        /// Time of the failure by the store's clock, in ms since the Unix epoch.
        since_ms: u64,
        /// The server, and why it is down.
        reason: String,
    },
}

pub(crate) struct StoreShared {
    pub(crate) request_timeout: Duration,
    pub(crate) connections_per_server: usize,
    pub(crate) scripts: Vec<&'static LuaScript>,
    pub(crate) clock: StoreClock,
    pub(crate) epoch: Epoch,
    pub(crate) full_servers: FullServers,
    state: watch::Sender<StoreState>,
    down_servers: Mutex<BTreeMap<String, String>>,
}

impl StoreShared {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        let clock = StoreClock::new(options.clock.clone());
        Self {
            request_timeout: options.request_timeout,
            connections_per_server: options.connections_per_server.max(1),
            scripts: options.scripts.clone(),
            epoch: Epoch::new(&options.key_prefix, clock.clone(), options.read_only),
            clock,
            full_servers: FullServers::default(),
            state: watch::Sender::new(StoreState::Up),
            down_servers: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> watch::Receiver<StoreState> {
        self.state.subscribe()
    }

    /// Marks a server as down, unless its pool was closed.
    pub(crate) fn mark_server_down(&self, server: &str, reason: &str, retired: &AtomicBool) {
        let mut down_servers = self.down_servers.lock();
        // Dropping a pool sets `retired` and then calls `mark_server_up`, which takes this lock. Because `retired` is
        // read under the lock, a retired server is never added after it was removed.
        if retired.load(Ordering::Acquire) {
            return;
        }
        let first = down_servers.is_empty();
        down_servers.insert(server.to_owned(), reason.to_owned());
        if first {
            let reason = format!("{server}: {reason}");
            telemetry::down(&reason);
            self.state.send_replace(StoreState::Down {
                since_ms: self.clock.now_ms(),
                reason,
            });
        }
    }

    /// Marks a server as up, or removes a server whose pool was closed.
    pub(crate) fn mark_server_up(&self, server: &str) {
        let mut down_servers = self.down_servers.lock();
        if down_servers.remove(server).is_some() && down_servers.is_empty() {
            let was = self.state.send_replace(StoreState::Up);
            let since = match was {
                StoreState::Down { since_ms, .. } => since_ms,
                StoreState::Up => self.clock.now_ms(),
            };
            telemetry::up(self.clock.now_ms().saturating_sub(since));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_up_again_only_when_its_last_server_is() {
        let shared = StoreShared::new(&StoreOptions::default());
        let state = shared.state();
        let retired = AtomicBool::new(false);
        shared.mark_server_down("a", "gone", &retired);
        shared.mark_server_down("b", "gone too", &retired);
        assert!(matches!(&*state.borrow(), StoreState::Down { reason, .. } if reason == "a: gone"));
        shared.mark_server_up("a");
        assert!(matches!(&*state.borrow(), StoreState::Down { .. }));
        shared.mark_server_up("b");
        assert_eq!(*state.borrow(), StoreState::Up);
        retired.store(true, Ordering::Release);
        shared.mark_server_down("a", "gone", &retired);
        assert_eq!(
            *state.borrow(),
            StoreState::Up,
            "a retired server does not count"
        );
    }
}
