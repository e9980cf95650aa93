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
pub(super) struct Flights<K, V> {
    open: Mutex<HashMap<K, watch::Receiver<Option<V>>>>,
    most: usize,
}

/// Where somebody who asks finds themself.
pub(super) enum Seat<'a, K: Eq + Hash, V> {
    /// They are to find the answer.
    Pilot(Pilot<'a, K, V>),
    /// They wait for it.
    Passenger(Passenger<V>),
    /// There are too many flights: they are to ask for themself.
    None,
}

/// Finds the answer for all who are aboard.
pub(super) struct Pilot<'a, K: Eq + Hash, V> {
    flights: &'a Flights<K, V>,
    /// There until the flight is closed.
    key: Option<K>,
    answer: watch::Sender<Option<V>>,
}

/// Waits for an answer.
pub(super) struct Passenger<V>(watch::Receiver<Option<V>>);

impl<K: Eq + Hash + Clone, V: Clone> Flights<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            open: Mutex::default(),
            most,
        }
    }

    /// Joins the flight that asks this, or starts it.
    pub(super) fn board(&self, key: &K) -> Seat<'_, K, V> {
        let mut open = self.open.lock();
        if let Some(flight) = open.get(key) {
            return Seat::Passenger(Passenger(flight.clone()));
        }
        if open.len() >= self.most {
            return Seat::None;
        }
        let (answer, flight) = watch::channel(None);
        open.insert(key.clone(), flight);
        Seat::Pilot(Pilot {
            flights: self,
            key: Some(key.clone()),
            answer,
        })
    }
}

impl<K: Eq + Hash, V> Pilot<'_, K, V> {
    /// Takes no more passengers.
    pub(super) fn close(&mut self) {
        if let Some(key) = self.key.take() {
            self.flights.open.lock().remove(&key);
        }
    }

    /// Gives everybody aboard the answer.
    pub(super) fn land(mut self, answer: V) {
        self.close();
        self.answer.send_replace(Some(answer));
    }
}

impl<K: Eq + Hash, V> Drop for Pilot<'_, K, V> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<V: Clone> Passenger<V> {
    /// The answer; none if the pilot had none for those who came late, or gave up.
    pub(super) async fn arrive(mut self) -> Option<V> {
        let answer = self.0.wait_for(Option::is_some).await;
        answer.ok().and_then(|it| it.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pilot<'a>(flights: &'a Flights<u8, u8>, key: u8) -> Pilot<'a, u8, u8> {
        match flights.board(&key) {
            Seat::Pilot(pilot) => pilot,
            _ => panic!("no new flight for {key}"),
        }
    }

    fn passenger(flights: &Flights<u8, u8>, key: u8) -> Passenger<u8> {
        match flights.board(&key) {
            Seat::Passenger(passenger) => passenger,
            _ => panic!("no flight for {key}"),
        }
    }

    #[tokio::test]
    async fn whoever_boards_in_time_gets_the_answer() {
        let flights = Flights::new(2);
        let mut first = pilot(&flights, 1);
        let waiting = [passenger(&flights, 1), passenger(&flights, 1)];
        first.close();
        let second = pilot(&flights, 1);
        first.land(7);
        for one in waiting {
            assert_eq!(one.arrive().await, Some(7));
        }
        let late = passenger(&flights, 1);
        second.land(8);
        assert_eq!(late.arrive().await, Some(8));
    }

    #[tokio::test]
    async fn a_pilot_who_gives_up_keeps_nobody_waiting() {
        let flights = Flights::new(1);
        let gone = pilot(&flights, 1);
        let waiting = passenger(&flights, 1);
        assert!(matches!(flights.board(&2), Seat::None));
        drop(gone);
        assert_eq!(waiting.arrive().await, None);
        drop(pilot(&flights, 2));
        assert!(flights.open.lock().is_empty());
    }
}
