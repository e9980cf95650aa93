//! What all parts of one store share: time, epoch, and whether it is up.
//!
//! Always true: the state is `Up` exactly while no server of the store is in trouble, and each change of it is told once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::epoch::Epoch;
use crate::options::Options;
use crate::script::Script;
use crate::telemetry::Event;

/// Whether the store answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It does.
    Up,
    /// It does not, or a part of it does not.
    Down {
        /// Since when, by the store's clock.
        since_ms: u64,
        /// Which server, and why.
        reason: String,
    },
}

pub(crate) struct Shared {
    pub(crate) timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) scripts: Vec<&'static Script>,
    pub(crate) clock: Clock,
    pub(crate) epoch: Epoch,
    state: watch::Sender<State>,
    troubles: Mutex<BTreeMap<String, String>>,
}

impl Shared {
    pub(crate) fn new(options: &Options) -> Self {
        let clock = Clock::new(options.clock.clone());
        Self {
            timeout: options.timeout,
            connections: options.connections.max(1),
            scripts: options.scripts.clone(),
            epoch: Epoch::new(&options.prefix, clock.clone(), options.read_only),
            clock,
            state: watch::Sender::new(State::Up),
            troubles: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// A server is in trouble, unless it is not one of ours any more.
    pub(crate) fn trouble(&self, server: &str, reason: &str, retired: &AtomicBool) {
        let mut troubles = self.troubles.lock();
        // Looked at under the lock that `well` takes after a server was retired: nobody stays in trouble for ever.
        if retired.load(Ordering::Acquire) {
            return;
        }
        let first = troubles.is_empty();
        troubles.insert(server.to_owned(), reason.to_owned());
        if first {
            let reason = format!("{server}: {reason}");
            Event::Down { reason: &reason }.emit();
            self.state.send_replace(State::Down {
                since_ms: self.clock.now_ms(),
                reason,
            });
        }
    }

    /// A server is well, or not one of ours any more.
    pub(crate) fn well(&self, server: &str) {
        let mut troubles = self.troubles.lock();
        if troubles.remove(server).is_some() && troubles.is_empty() {
            let was = self.state.send_replace(State::Up);
            let since = match was {
                State::Down { since_ms, .. } => since_ms,
                State::Up => self.clock.now_ms(),
            };
            Event::Up {
                after_ms: self.clock.now_ms().saturating_sub(since),
            }
            .emit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_up_again_only_when_its_last_server_is() {
        let shared = Shared::new(&Options::default());
        let state = shared.state();
        let retired = AtomicBool::new(false);
        shared.trouble("a", "gone", &retired);
        shared.trouble("b", "gone too", &retired);
        assert!(matches!(&*state.borrow(), State::Down { reason, .. } if reason == "a: gone"));
        shared.well("a");
        assert!(matches!(&*state.borrow(), State::Down { .. }));
        shared.well("b");
        assert_eq!(*state.borrow(), State::Up);
        retired.store(true, Ordering::Release);
        shared.trouble("a", "gone", &retired);
        assert_eq!(
            *state.borrow(),
            State::Up,
            "a retired server is nobody's trouble"
        );
    }
}
