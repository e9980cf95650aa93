//! Queue of one subscription.
//!
//! Invariants:
//! 1. It holds at most [`MAX_QUEUED_EVENTS`] messages. Adding one never waits.
//! 2. At each place where messages were dropped there is one [`BusEvent::MaybeMissed`], after all earlier messages.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::sink::BusListener;
use crate::telemetry;

/// Messages that may wait for a slow reader.
pub(crate) const MAX_QUEUED_EVENTS: usize = 1_024;

/// Name of a channel or pattern. A clone copies a pointer.
pub type ChannelName = Arc<[u8]>;

/// Event that a [`BusSubscription`](super::BusSubscription) yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusEvent {
    /// A message was published.
    Message {
        /// The channel.
        channel: ChannelName,
        /// The pattern, if the subscription has one.
        pattern: Option<ChannelName>,
        /// The payload.
        payload: Bytes,
    },
    /// Messages may be missing here: the connection was replaced, or this subscription was too slow.
    MaybeMissed,
}

#[derive(Default)]
pub(crate) struct SubscriptionQueue {
    state: Mutex<QueueState>,
    event_available: Notify,
}

#[derive(Default)]
struct QueueState {
    events: VecDeque<BusEvent>,
    closed: bool,
}

impl SubscriptionQueue {
    /// Adds an event. Returns false if it is the first event that had to be dropped.
    pub(crate) fn push(&self, event: BusEvent) -> bool {
        let mut state = self.state.lock();
        let told = state.events.back() == Some(&BusEvent::MaybeMissed);
        let fits = state.events.len() < MAX_QUEUED_EVENTS;
        match event {
            BusEvent::MaybeMissed if told => {}
            BusEvent::MaybeMissed => state.events.push_back(BusEvent::MaybeMissed),
            message if fits => state.events.push_back(message),
            _ if told => {}
            _ => {
                state.events.push_back(BusEvent::MaybeMissed);
                return false;
            }
        }
        drop(state);
        self.event_available.notify_one();
        true
    }

    /// The next event, if there is one.
    pub(crate) fn pop(&self) -> Option<BusEvent> {
        self.state.lock().events.pop_front()
    }

    /// The next event, or `None` after the bus was closed and all events were read.
    pub(crate) async fn next(&self) -> Option<BusEvent> {
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
}

impl BusListener for SubscriptionQueue {
    fn on_event(&self, event: &BusEvent) {
        if !self.push(event.clone())
            && let BusEvent::Message { channel, .. } = event
        {
            telemetry::StoreTelemetryEvent::SubscriptionLagged {
                topic: &String::from_utf8_lossy(channel),
            }
            .emit();
        }
    }

    fn on_close(&self) {
        self.state.lock().closed = true;
        self.event_available.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: usize) -> BusEvent {
        BusEvent::Message {
            channel: ChannelName::from(&b"c"[..]),
            pattern: None,
            payload: number.to_string().into(),
        }
    }

    #[test]
    fn a_full_queue_drops_and_says_so_once_in_the_right_place() {
        let queue = SubscriptionQueue::default();
        for number in 0..MAX_QUEUED_EVENTS {
            assert!(queue.push(message(number)));
        }
        assert!(
            !queue.push(message(MAX_QUEUED_EVENTS)),
            "the first dropped message is reported"
        );
        assert!(
            queue.push(message(MAX_QUEUED_EVENTS + 1)),
            "the second one is not reported"
        );
        for number in 0..MAX_QUEUED_EVENTS {
            assert_eq!(queue.pop(), Some(message(number)));
        }
        queue.push(message(9_999));
        assert_eq!(queue.pop(), Some(BusEvent::MaybeMissed));
        assert_eq!(queue.pop(), Some(message(9_999)));
        assert_eq!(queue.pop(), None);
    }

    #[tokio::test]
    async fn a_closed_queue_is_read_to_its_end() {
        let queue = SubscriptionQueue::default();
        queue.push(message(1));
        queue.on_close();
        assert_eq!(queue.next().await, Some(message(1)));
        assert_eq!(queue.next().await, None);
    }
}
