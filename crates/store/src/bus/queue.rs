//! The mailbox of one subscription.
//!
//! Always true:
//! 1. It holds at most [`ROOM`] messages; putting one in never waits.
//! 2. Where messages had to be dropped stands one [`Event::MaybeMissed`], after all that came before them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::sink::Sink;
use crate::telemetry;

/// Messages that wait for a slow reader.
pub(crate) const ROOM: usize = 1_024;

/// The name of a channel or pattern; cloning one copies a pointer.
pub type Name = Arc<[u8]>;

/// What a [`Subscription`](super::Subscription) yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Something was published.
    Message {
        /// The channel.
        channel: Name,
        /// The pattern, if the subscription is one to a pattern.
        pattern: Option<Name>,
        /// What was published.
        payload: Bytes,
    },
    /// Messages may be missing here: the connection was replaced, or this reader was too slow.
    MaybeMissed,
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    closed: bool,
}

impl Queue {
    /// Puts an event in. False if it was the first that had to be dropped.
    pub(crate) fn push(&self, event: Event) -> bool {
        let mut state = self.state.lock();
        let told = state.events.back() == Some(&Event::MaybeMissed);
        let fits = state.events.len() < ROOM;
        match event {
            Event::MaybeMissed if told => {}
            Event::MaybeMissed => state.events.push_back(Event::MaybeMissed),
            message if fits => state.events.push_back(message),
            _ if told => {}
            _ => {
                state.events.push_back(Event::MaybeMissed);
                return false;
            }
        }
        drop(state);
        self.filled.notify_one();
        true
    }

    /// The next event, if one is there.
    pub(crate) fn pop(&self) -> Option<Event> {
        self.state.lock().events.pop_front()
    }

    /// The next event; none when the bus was closed and everything is read.
    pub(crate) async fn next(&self) -> Option<Event> {
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
            self.filled.notified().await;
        }
    }
}

impl Sink for Queue {
    fn tell(&self, event: &Event) {
        if !self.push(event.clone())
            && let Event::Message { channel, .. } = event
        {
            telemetry::Event::ReaderLagged {
                topic: &String::from_utf8_lossy(channel),
            }
            .emit();
        }
    }

    fn closed(&self) {
        self.state.lock().closed = true;
        self.filled.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: usize) -> Event {
        Event::Message {
            channel: Name::from(&b"c"[..]),
            pattern: None,
            payload: number.to_string().into(),
        }
    }

    #[test]
    fn a_full_queue_drops_and_says_so_once_in_the_right_place() {
        let queue = Queue::default();
        for number in 0..ROOM {
            assert!(queue.push(message(number)));
        }
        assert!(!queue.push(message(ROOM)), "the first dropped one is told");
        assert!(queue.push(message(ROOM + 1)), "the second is not");
        for number in 0..ROOM {
            assert_eq!(queue.pop(), Some(message(number)));
        }
        queue.push(message(9_999));
        assert_eq!(queue.pop(), Some(Event::MaybeMissed));
        assert_eq!(queue.pop(), Some(message(9_999)));
        assert_eq!(queue.pop(), None);
    }

    #[tokio::test]
    async fn a_closed_queue_is_read_to_its_end() {
        let queue = Queue::default();
        queue.push(message(1));
        queue.closed();
        assert_eq!(queue.next().await, Some(message(1)));
        assert_eq!(queue.next().await, None);
    }
}
