//! Queue of one subscription.

use parlor_embedded::EventQueue;

use super::BusEvent;
use super::listener::BusListener;
use crate::telemetry;

/// Messages that may wait for a slow reader.
const MAX_QUEUED_EVENTS: usize = 1_024;

/// Queue in which the events of a subscription wait. A gap is marked with [`BusEvent::MaybeMissed`].
pub(super) struct SubscriptionQueue(pub(super) EventQueue<BusEvent>);

impl Default for SubscriptionQueue {
    fn default() -> Self {
        Self(EventQueue::new(MAX_QUEUED_EVENTS, BusEvent::MaybeMissed))
    }
}

impl BusListener for SubscriptionQueue {
    fn on_event(&self, event: &BusEvent) {
        if !self.0.push(event.clone())
            && let BusEvent::Message { channel, .. } = event
        {
            telemetry::subscription_lagged(channel);
        }
    }

    fn on_close(&self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_holds_1024_events_and_marks_the_gap_after_them() {
        let queue = SubscriptionQueue::default();
        let message = |number: usize| BusEvent::Message {
            channel: b"channel".as_slice().into(),
            pattern: None,
            payload: number.to_string().into(),
        };
        for number in 0..1_030 {
            queue.on_event(&message(number));
        }
        for number in 0..1_024 {
            assert_eq!(queue.0.try_next(), Some(message(number)));
        }
        assert_eq!(queue.0.try_next(), Some(BusEvent::MaybeMissed));
        assert_eq!(queue.0.try_next(), None);
    }
}
