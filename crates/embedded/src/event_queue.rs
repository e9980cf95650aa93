//! Bounded queue of one subscriber.
//!
//! Invariants:
//! 1. It holds at most `capacity` events and one gap mark. Adding an event never waits.
//! 2. At each place where events were dropped there is one gap mark, after all earlier events.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Bounded queue that drops events while it is full. One value of the event type is the mark of a gap.
pub struct EventQueue<T> {
    capacity: usize,
    gap: T,
    state: Mutex<QueueState<T>>,
    event_available: Notify,
}

struct QueueState<T> {
    events: VecDeque<T>,
    closed: bool,
}

impl<T: Clone + PartialEq> EventQueue<T> {
    /// Creates a queue for `capacity` events, with this gap mark.
    pub fn new(capacity: usize, gap: T) -> Self {
        let state = QueueState {
            events: VecDeque::new(),
            closed: false,
        };
        Self {
            capacity,
            gap,
            state: Mutex::new(state),
            event_available: Notify::new(),
        }
    }

    /// Adds an event, or a gap mark. Returns false if the event is the first one that had to be dropped.
    pub fn push(&self, event: T) -> bool {
        let mut state = self.state.lock();
        let gap_marked = state.events.back() == Some(&self.gap);
        let is_gap = event == self.gap;
        let fits = is_gap || state.events.len() < self.capacity;
        match (fits, gap_marked) {
            (true, true) if is_gap => {}
            (true, _) => state.events.push_back(event),
            (false, true) => {}
            (false, false) => state.events.push_back(self.gap.clone()),
        }
        drop(state);
        self.event_available.notify_one();
        fits || gap_marked
    }

    /// Returns the next event if there is one already.
    pub fn try_next(&self) -> Option<T> {
        self.state.lock().events.pop_front()
    }

    /// Returns the next event, or `None` after the queue was closed and all events were read. Cancel safe. Only one
    /// task may wait at a time.
    pub async fn next(&self) -> Option<T> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(event) = state.events.pop_front() {
                    return Some(event);
                }
                if state.closed {
                    return None;
                }
            }
            self.event_available.notified().await;
        }
    }

    /// Closes the queue. Events that wait in it can still be read.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.event_available.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: usize = usize::MAX;

    #[test]
    fn a_full_queue_drops_events_and_marks_the_gap_once_in_the_right_place() {
        let queue = EventQueue::new(100, GAP);
        for number in 0..100 {
            assert!(queue.push(number));
        }
        assert!(!queue.push(100), "the first dropped event is reported");
        assert!(queue.push(101), "the second one is not reported");
        for number in 0..100 {
            assert_eq!(queue.try_next(), Some(number));
        }
        queue.push(200);
        assert_eq!(queue.try_next(), Some(GAP));
        assert_eq!(queue.try_next(), Some(200));
        assert_eq!(queue.try_next(), None);
    }

    #[tokio::test]
    async fn a_closed_queue_is_read_to_its_end() {
        let queue = EventQueue::new(100, GAP);
        queue.push(1);
        queue.close();
        assert_eq!(queue.next().await, Some(1));
        assert_eq!(queue.next().await, None);
    }
}
