//! Publish and subscribe.
//!
//! Invariants:
//! 1. A subscriber has one bounded queue, and publishing never waits. If a message does not fit, it is dropped, and so
//!    is every later message for that subscriber until the subscriber has read `Lagged` at the place of the gap.
//! 2. Messages of one channel arrive in the order in which they were published.
//! 3. The engine asks every [`ChannelLookup`] for each message while it holds the lock of the subscription tables. A
//!    lookup must therefore not publish or subscribe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::{Notify, mpsc};

use crate::glob;
use crate::value::SharedBytes;

/// Event that a subscriber receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PubSubEvent {
    /// Message that `PUBLISH` sent to a channel.
    Message {
        /// The channel.
        channel: SharedBytes,
        /// The payload.
        payload: SharedBytes,
    },
    /// Message that `PUBLISH` sent to a channel that matches a pattern.
    PMessage {
        /// The pattern.
        pattern: SharedBytes,
        /// The channel.
        channel: SharedBytes,
        /// The payload.
        payload: SharedBytes,
    },
    /// Message that `SPUBLISH` sent to a shard channel.
    SMessage {
        /// The channel.
        channel: SharedBytes,
        /// The payload.
        payload: SharedBytes,
    },
    /// The queue was full: one or more messages are missing here.
    Lagged,
}

/// Namespace of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubscriptionKind {
    Channel,
    Pattern,
    Shard,
}

struct SubscriberQueue {
    sender: mpsc::Sender<PubSubEvent>,
    lagged: AtomicBool,
    /// Wakes a reader that emptied the queue after a message was dropped and before `lagged` was set.
    lag_signal: Notify,
}

impl SubscriberQueue {
    fn deliver(&self, push: PubSubEvent) {
        if !self.lagged.load(Ordering::Acquire) && self.sender.try_send(push).is_err() {
            self.lagged.store(true, Ordering::Release);
            self.lag_signal.notify_one();
        }
    }
}

/// Subscribers of a topic with their ids. There are many topics, and most have one subscriber.
type SubscriberList = SmallVec<[(u64, Arc<SubscriberQueue>); 1]>;
type SubscriptionMap = IndexMap<SharedBytes, SubscriberList, RandomState>;

/// The caller's own table of subscribed channels.
///
/// The listener registry of the store already holds every channel name of the node. With this trait the engine asks the
/// registry instead of keeping a second copy of possibly hundreds of thousands of names. The engine calls both methods
/// while it holds its subscription lock: an implementation must not publish, subscribe or unsubscribe.
pub trait ChannelLookup: Send + Sync + 'static {
    /// The stored name of a channel, if the table contains the channel.
    fn find_channel(&self, channel: &[u8]) -> Option<SharedBytes>;

    /// All channels in the table.
    fn channels(&self) -> Vec<SharedBytes>;
}

#[derive(Default)]
struct SubscriptionTables {
    channels: SubscriptionMap,
    patterns: SubscriptionMap,
    shards: SubscriptionMap,
    lookups: Vec<(u64, Arc<SubscriberQueue>, Arc<dyn ChannelLookup>)>,
}

impl SubscriptionTables {
    fn table_mut(&mut self, space: SubscriptionKind) -> &mut SubscriptionMap {
        match space {
            SubscriptionKind::Channel => &mut self.channels,
            SubscriptionKind::Pattern => &mut self.patterns,
            SubscriptionKind::Shard => &mut self.shards,
        }
    }
}

/// All subscriptions of one engine.
#[derive(Clone, Default)]
pub struct PubSubRegistry {
    tables: Arc<Mutex<SubscriptionTables>>,
    next_subscriber_id: Arc<AtomicU64>,
}

impl PubSubRegistry {
    /// Sends a message to the subscribers of a channel and of matching patterns. Returns their number.
    pub fn publish(&self, channel: &[u8], payload: &[u8]) -> usize {
        let routes = self.tables.lock();
        let listeners = routes.channels.get_key_value(channel);
        let ears = routes.lookups.iter();
        let ears = ears.filter_map(|(_, mailbox, ear)| Some((mailbox, ear.find_channel(channel)?)));
        let ears: SmallVec<[_; 1]> = ears.collect();
        if listeners.is_none() && ears.is_empty() && routes.patterns.is_empty() {
            return 0;
        }
        let payload = SharedBytes::from(payload);
        let mut receivers = ears.len();
        for (mailbox, channel) in ears {
            let payload = payload.clone();
            mailbox.deliver(PubSubEvent::Message { channel, payload });
        }
        if let Some((channel, listeners)) = listeners {
            receivers += listeners.len();
            for (_, mailbox) in listeners {
                mailbox.deliver(PubSubEvent::Message {
                    channel: channel.clone(),
                    payload: payload.clone(),
                });
            }
        }
        for (pattern, listeners) in &routes.patterns {
            if !glob::matches(pattern, channel) {
                continue;
            }
            let channel = SharedBytes::from(channel);
            receivers += listeners.len();
            for (_, mailbox) in listeners {
                mailbox.deliver(PubSubEvent::PMessage {
                    pattern: pattern.clone(),
                    channel: channel.clone(),
                    payload: payload.clone(),
                });
            }
        }
        receivers
    }

    /// Sends a message to the subscribers of a shard channel. Returns their number.
    pub fn publish_sharded(&self, channel: &[u8], payload: &[u8]) -> usize {
        let routes = self.tables.lock();
        let Some((channel, listeners)) = routes.shards.get_key_value(channel) else {
            return 0;
        };
        let payload = SharedBytes::from(payload);
        for (_, mailbox) in listeners {
            mailbox.deliver(PubSubEvent::SMessage {
                channel: channel.clone(),
                payload: payload.clone(),
            });
        }
        listeners.len()
    }

    /// Channels with subscribers that match a pattern; shard channels if `sharded` is set.
    pub fn channels(&self, pattern: Option<&[u8]>, sharded: bool) -> Vec<SharedBytes> {
        let routes = self.tables.lock();
        let topics = if sharded {
            &routes.shards
        } else {
            &routes.channels
        };
        let wanted =
            |channel: &SharedBytes| pattern.is_none_or(|pattern| glob::matches(pattern, channel));
        let mut channels: Vec<_> = topics.keys().filter(|it| wanted(it)).cloned().collect();
        if !sharded {
            let heard = routes.lookups.iter().flat_map(|(.., ear)| ear.channels());
            let heard = heard.filter(|it| wanted(it) && !topics.contains_key(it));
            channels.extend(heard);
        }
        channels
    }

    /// Number of subscribers of a channel, without pattern subscribers.
    pub fn count_subscribers(&self, channel: &[u8], sharded: bool) -> usize {
        let routes = self.tables.lock();
        let topics = if sharded {
            &routes.shards
        } else {
            &routes.channels
        };
        let ears = match sharded {
            true => 0,
            false => {
                let ears = routes.lookups.iter();
                ears.filter(|(.., ear)| ear.find_channel(channel).is_some())
                    .count()
            }
        };
        ears + topics.get(channel).map_or(0, SmallVec::len)
    }

    /// Number of patterns with subscribers.
    pub fn count_patterns(&self) -> usize {
        self.tables.lock().patterns.len()
    }

    /// Creates a subscriber whose queue holds `capacity` messages.
    pub fn new_subscriber(&self, capacity: usize) -> EmbeddedSubscriber {
        let (queue, messages) = mpsc::channel(capacity.max(1));
        let mailbox = Arc::new(SubscriberQueue {
            sender: queue,
            lagged: AtomicBool::new(false),
            lag_signal: Notify::new(),
        });
        let id = self.next_subscriber_id.fetch_add(1, Ordering::Relaxed);
        EmbeddedSubscriber {
            hub: self.clone(),
            id,
            queue: mailbox,
            receiver: messages,
        }
    }
}

/// Receives the messages of any number of channels. Dropping it removes its subscriptions.
pub struct EmbeddedSubscriber {
    hub: PubSubRegistry,
    id: u64,
    queue: Arc<SubscriberQueue>,
    receiver: mpsc::Receiver<PubSubEvent>,
}

impl EmbeddedSubscriber {
    fn add_subscription(&self, space: SubscriptionKind, topic: &[u8]) {
        let mut routes = self.hub.tables.lock();
        let listeners = routes.table_mut(space).entry(topic.into()).or_default();
        if !listeners.iter().any(|(id, _)| *id == self.id) {
            listeners.push((self.id, self.queue.clone()));
        }
    }

    fn remove_subscription(&self, space: SubscriptionKind, topic: &[u8]) {
        let mut routes = self.hub.tables.lock();
        let topics = routes.table_mut(space);
        if let Some(listeners) = topics.get_mut(topic) {
            listeners.retain(|(id, _)| *id != self.id);
            if listeners.is_empty() {
                topics.swap_remove(topic);
            }
        }
    }

    /// Subscribes to all channels that a lookup finds. A channel that is also subscribed to by name would deliver every
    /// message twice.
    pub fn subscribe_by_lookup(&self, ear: Arc<dyn ChannelLookup>) {
        let mut routes = self.hub.tables.lock();
        routes.lookups.push((self.id, self.queue.clone(), ear));
    }

    /// Subscribes to a channel. The subscriber receives every message that is published after this call returns.
    pub fn subscribe(&self, channel: &[u8]) {
        self.add_subscription(SubscriptionKind::Channel, channel);
    }

    /// Unsubscribes from a channel.
    pub fn unsubscribe(&self, channel: &[u8]) {
        self.remove_subscription(SubscriptionKind::Channel, channel);
    }

    /// Subscribes to all channels that match a pattern.
    pub fn psubscribe(&self, pattern: &[u8]) {
        self.add_subscription(SubscriptionKind::Pattern, pattern);
    }

    /// Unsubscribes from a pattern.
    pub fn punsubscribe(&self, pattern: &[u8]) {
        self.remove_subscription(SubscriptionKind::Pattern, pattern);
    }

    /// Subscribes to a shard channel.
    pub fn ssubscribe(&self, channel: &[u8]) {
        self.add_subscription(SubscriptionKind::Shard, channel);
    }

    /// Unsubscribes from a shard channel.
    pub fn sunsubscribe(&self, channel: &[u8]) {
        self.remove_subscription(SubscriptionKind::Shard, channel);
    }

    /// The next event. Never `None`, because the subscriber holds a sender of its own queue.
    pub async fn recv(&mut self) -> Option<PubSubEvent> {
        loop {
            if let Ok(push) = self.receiver.try_recv() {
                return Some(push);
            }
            if self.queue.lagged.swap(false, Ordering::AcqRel) {
                return Some(PubSubEvent::Lagged);
            }
            tokio::select! {
                push = self.receiver.recv() => return push,
                () = self.queue.lag_signal.notified() => {}
            }
        }
    }
}

impl Drop for EmbeddedSubscriber {
    fn drop(&mut self) {
        let mut routes = self.hub.tables.lock();
        routes.lookups.retain(|(id, ..)| *id != self.id);
        for space in [
            SubscriptionKind::Channel,
            SubscriptionKind::Pattern,
            SubscriptionKind::Shard,
        ] {
            routes.table_mut(space).retain(|_, listeners| {
                listeners.retain(|(id, _)| *id != self.id);
                !listeners.is_empty()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_reader_that_lags_again_and_again_is_never_left_asleep() {
        let hub = PubSubRegistry::default();
        let mut subscriber = hub.new_subscriber(1);
        subscriber.subscribe(b"c");
        let enough = Arc::new(AtomicBool::new(false));
        let publisher = std::thread::spawn({
            let enough = enough.clone();
            move || {
                while !enough.load(Ordering::Relaxed) {
                    hub.publish(b"c", b"x");
                }
            }
        });
        let mut lagged = 0;
        while lagged < 20_000 {
            let read = tokio::time::timeout(Duration::from_secs(60), subscriber.recv()).await;
            let push = read.expect("the subscriber is woken while there are messages");
            lagged += u32::from(push == Some(PubSubEvent::Lagged));
        }
        enough.store(true, Ordering::Relaxed);
        publisher.join().unwrap();
    }
}
