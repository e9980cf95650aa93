//! Questions under way: who asks what somebody else is asking right now waits for that answer.
//!
//! Always true:
//! 1. A flight takes passengers until its pilot closes it, and never after: the pilot decides up to when an answer is good
//!    for those who came later than the question.
//! 2. A pilot who gives up lets the passengers go without an answer; nobody waits for nothing.
//! 3. There are at most so many flights at once.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The open flights.
pub(super) struct SingleFlight<K, V> {
    in_flight: Mutex<HashMap<K, watch::Receiver<Option<V>>>>,
    max_in_flight: usize,
}

/// Where somebody who asks finds themself.
pub(super) enum FlightRole<'a, K: Eq + Hash, V> {
    /// They are to find the answer.
    Leader(FlightLeader<'a, K, V>),
    /// They wait for it.
    Follower(FlightFollower<V>),
    /// There are too many flights: they are to ask for themself.
    Bypass,
}

/// Finds the answer for all who are aboard.
pub(super) struct FlightLeader<'a, K: Eq + Hash, V> {
    flights: &'a SingleFlight<K, V>,
    /// There until the flight is closed.
    key: Option<K>,
    value: watch::Sender<Option<V>>,
}

/// Waits for an answer.
pub(super) struct FlightFollower<V>(watch::Receiver<Option<V>>);

impl<K: Eq + Hash + Clone, V: Clone> SingleFlight<K, V> {
    pub(super) fn new(max_in_flight: usize) -> Self {
        Self {
            in_flight: Mutex::default(),
            max_in_flight,
        }
    }

    /// Joins the flight that asks this, or starts it.
    pub(super) fn join(&self, key: &K) -> FlightRole<'_, K, V> {
        let mut open = self.in_flight.lock();
        if let Some(flight) = open.get(key) {
            return FlightRole::Follower(FlightFollower(flight.clone()));
        }
        if open.len() >= self.max_in_flight {
            return FlightRole::Bypass;
        }
        let (answer, flight) = watch::channel(None);
        open.insert(key.clone(), flight);
        FlightRole::Leader(FlightLeader {
            flights: self,
            key: Some(key.clone()),
            value: answer,
        })
    }
}

impl<K: Eq + Hash, V> FlightLeader<'_, K, V> {
    /// Takes no more passengers.
    pub(super) fn close(&mut self) {
        if let Some(key) = self.key.take() {
            self.flights.in_flight.lock().remove(&key);
        }
    }

    /// Gives everybody aboard the answer.
    pub(super) fn complete(mut self, answer: V) {
        self.close();
        self.value.send_replace(Some(answer));
    }
}

impl<K: Eq + Hash, V> Drop for FlightLeader<'_, K, V> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<V: Clone> FlightFollower<V> {
    /// The answer; none if the pilot had none for those who came late, or gave up.
    pub(super) async fn wait(mut self) -> Option<V> {
        let answer = self.0.wait_for(Option::is_some).await;
        answer.ok().and_then(|it| it.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pilot<'a>(flights: &'a SingleFlight<u8, u8>, key: u8) -> FlightLeader<'a, u8, u8> {
        match flights.join(&key) {
            FlightRole::Leader(pilot) => pilot,
            _ => panic!("no new flight for {key}"),
        }
    }

    fn passenger(flights: &SingleFlight<u8, u8>, key: u8) -> FlightFollower<u8> {
        match flights.join(&key) {
            FlightRole::Follower(passenger) => passenger,
            _ => panic!("no flight for {key}"),
        }
    }

    #[tokio::test]
    async fn callers_that_join_before_the_load_starts_share_its_result() {
        let flights = SingleFlight::new(2);
        let mut first = pilot(&flights, 1);
        let waiting = [passenger(&flights, 1), passenger(&flights, 1)];
        first.close();
        let second = pilot(&flights, 1);
        first.complete(7);
        for one in waiting {
            assert_eq!(one.wait().await, Some(7));
        }
        let late = passenger(&flights, 1);
        second.complete(8);
        assert_eq!(late.wait().await, Some(8));
    }

    #[tokio::test]
    async fn a_cancelled_loader_releases_the_waiting_callers() {
        let flights = SingleFlight::new(1);
        let gone = pilot(&flights, 1);
        let waiting = passenger(&flights, 1);
        assert!(matches!(flights.join(&2), FlightRole::Bypass));
        drop(gone);
        assert_eq!(waiting.wait().await, None);
        drop(pilot(&flights, 2));
        assert!(flights.in_flight.lock().is_empty());
    }
}
