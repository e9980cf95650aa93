//! Single-flight: concurrent callers with the same key share one load.
//!
//! Invariants:
//! 1. A flight accepts followers until its leader closes it. The leader decides up to which moment its value is valid
//!    for callers that came after the load began.
//! 2. If a leader is dropped without a value, its followers are woken and get `None`.
//! 3. At most `max_in_flight` flights accept followers at a time.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Loads that still accept followers.
pub(crate) struct SingleFlight<K, V> {
    in_flight: Mutex<HashMap<K, watch::Receiver<Option<V>>>>,
    max_in_flight: usize,
}

/// Role of a caller.
pub(crate) enum FlightRole<'a, K: Eq + Hash, V> {
    /// The caller must load the value.
    Leader(FlightLeader<'a, K, V>),
    /// The caller waits for the value.
    Follower(FlightFollower<V>),
    /// Too many flights are open: the caller loads the value without sharing it.
    Bypass,
}

/// Leader of a flight: loads the value for all followers.
pub(crate) struct FlightLeader<'a, K: Eq + Hash, V> {
    flights: &'a SingleFlight<K, V>,
    /// `None` after the flight is closed.
    key: Option<K>,
    value: watch::Sender<Option<V>>,
}

/// Follower of a flight: waits for the value.
pub(crate) struct FlightFollower<V>(watch::Receiver<Option<V>>);

impl<K: Eq + Hash + Clone, V: Clone> SingleFlight<K, V> {
    pub(crate) fn new(max_in_flight: usize) -> Self {
        Self {
            in_flight: Mutex::default(),
            max_in_flight,
        }
    }

    /// Joins the open flight of this key, or starts one.
    pub(crate) fn join(&self, key: &K) -> FlightRole<'_, K, V> {
        let mut open = self.in_flight.lock();
        if let Some(flight) = open.get(key) {
            return FlightRole::Follower(FlightFollower(flight.clone()));
        }
        if open.len() >= self.max_in_flight {
            return FlightRole::Bypass;
        }
        let (value, flight) = watch::channel(None);
        open.insert(key.clone(), flight);
        FlightRole::Leader(FlightLeader {
            flights: self,
            key: Some(key.clone()),
            value,
        })
    }
}

impl<K: Eq + Hash, V> FlightLeader<'_, K, V> {
    /// Stops accepting followers.
    pub(crate) fn close(&mut self) {
        if let Some(key) = self.key.take() {
            self.flights.in_flight.lock().remove(&key);
        }
    }

    /// Gives the value to all followers.
    pub(crate) fn complete(mut self, value: V) {
        self.close();
        self.value.send_replace(Some(value));
    }
}

impl<K: Eq + Hash, V> Drop for FlightLeader<'_, K, V> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<V: Clone> FlightFollower<V> {
    /// Waits for the value; `None` if the leader was dropped without one.
    pub(crate) async fn wait(mut self) -> Option<V> {
        let value = self.0.wait_for(Option::is_some).await;
        value.ok().and_then(|it| it.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader<'a>(flights: &'a SingleFlight<u8, u8>, key: u8) -> FlightLeader<'a, u8, u8> {
        match flights.join(&key) {
            FlightRole::Leader(leader) => leader,
            _ => panic!("no new flight for {key}"),
        }
    }

    fn follower(flights: &SingleFlight<u8, u8>, key: u8) -> FlightFollower<u8> {
        match flights.join(&key) {
            FlightRole::Follower(follower) => follower,
            _ => panic!("no flight for {key}"),
        }
    }

    #[tokio::test]
    async fn callers_that_join_before_the_load_starts_share_its_result() {
        let flights = SingleFlight::new(2);
        let mut first = leader(&flights, 1);
        let waiting = [follower(&flights, 1), follower(&flights, 1)];
        first.close();
        let second = leader(&flights, 1);
        first.complete(7);
        for follower in waiting {
            assert_eq!(follower.wait().await, Some(7));
        }
        let late = follower(&flights, 1);
        second.complete(8);
        assert_eq!(late.wait().await, Some(8));
    }

    #[tokio::test]
    async fn a_cancelled_loader_releases_the_waiting_callers() {
        let flights = SingleFlight::new(1);
        let cancelled = leader(&flights, 1);
        let waiting = follower(&flights, 1);
        assert!(matches!(flights.join(&2), FlightRole::Bypass));
        drop(cancelled);
        assert_eq!(waiting.wait().await, None);
        drop(leader(&flights, 2));
        assert!(flights.in_flight.lock().is_empty());
    }
}
