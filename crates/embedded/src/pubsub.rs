//! Publish and subscribe.
//!
//! Invariants:
//! 1. A subscriber has one bounded queue, and publishing never waits. If a message does not fit, it is dropped, and the
//!    subscriber reads `Lagged` at the place of the gap.
//! 2. Messages of one channel arrive in the order in which they were published.
//! 3. The engine asks every [`ChannelLookup`] for each message while it holds the lock of the subscription tables. A
//!    lookup must therefore not publish or subscribe.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::event_queue::EventQueue;
use crate::glob;
use crate::values::SharedBytes;

/// Event that a subscriber receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PubSubEvent {
    /// A message was published.
    Message {
        /// The channel.
        channel: SharedBytes,
        /// The pattern that the channel matches, if the subscription has one.
        pattern: Option<SharedBytes>,
        /// The payload.
        payload: SharedBytes,
    },
    /// The queue was full: one or more messages are missing here.
    Lagged,
}

/// Messages that a subscription receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// Messages that `PUBLISH` sends to a channel.
    Channel,
    /// Messages that `PUBLISH` sends to any channel that matches a pattern.
    Pattern,
    /// Messages that `SPUBLISH` sends to a shard channel.
    Shard,
}

type SubscriberQueue = EventQueue<PubSubEvent>;
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
    fn list_channels(&self) -> Vec<SharedBytes>;
}

#[derive(Default)]
struct SubscriptionTables {
    /// Topics with their subscribers, by [`SubscriptionKind`].
    topics: [SubscriptionMap; 3],
    lookups: Vec<(u64, Arc<SubscriberQueue>, Arc<dyn ChannelLookup>)>,
}

/// All subscriptions of one engine.
#[derive(Clone, Default)]
pub struct PubSubRegistry {
    tables: Arc<Mutex<SubscriptionTables>>,
    next_subscriber_id: Arc<AtomicU64>,
}

impl PubSubRegistry {
    /// Sends a message to the subscribers of a channel or shard channel, and of patterns that match the channel.
    /// Returns their number.
    pub fn publish(&self, kind: SubscriptionKind, channel: &[u8], payload: &[u8]) -> usize {
        let tables = self.tables.lock();
        let mut payload_copy = None;
        let mut receivers = 0;
        let mut deliver = |queue: &SubscriberQueue, channel: &SharedBytes, pattern| {
            receivers += 1;
            queue.push(PubSubEvent::Message {
                channel: channel.clone(),
                pattern,
                payload: payload_copy
                    .get_or_insert_with(|| SharedBytes::from(payload))
                    .clone(),
            });
        };
        if let Some((channel, subscribers)) = tables.topics[kind as usize].get_key_value(channel) {
            for (_, queue) in subscribers {
                deliver(queue, channel, None);
            }
        }
        if kind == SubscriptionKind::Channel {
            for (_, queue, lookup) in &tables.lookups {
                if let Some(channel) = lookup.find_channel(channel) {
                    deliver(queue, &channel, None);
                }
            }
            for (pattern, subscribers) in &tables.topics[SubscriptionKind::Pattern as usize] {
                if glob::matches(pattern, channel) {
                    let channel = SharedBytes::from(channel);
                    for (_, queue) in subscribers {
                        deliver(queue, &channel, Some(pattern.clone()));
                    }
                }
            }
        }
        receivers
    }

    /// Channels or shard channels with subscribers that match a pattern.
    pub fn list_channels(
        &self,
        pattern: Option<&[u8]>,
        kind: SubscriptionKind,
    ) -> Vec<SharedBytes> {
        let tables = self.tables.lock();
        let topics = &tables.topics[kind as usize];
        let mut channels: Vec<_> = topics.keys().cloned().collect();
        if kind == SubscriptionKind::Channel {
            let found = tables.lookups.iter();
            let found = found.flat_map(|(.., lookup)| lookup.list_channels());
            channels.extend(found.filter(|channel| !topics.contains_key(channel)));
        }
        channels.retain(|channel| pattern.is_none_or(|pattern| glob::matches(pattern, channel)));
        channels
    }

    /// Number of subscribers of a channel or shard channel, without pattern subscribers.
    pub fn count_subscribers(&self, channel: &[u8], kind: SubscriptionKind) -> usize {
        let tables = self.tables.lock();
        let by_name = tables.topics[kind as usize]
            .get(channel)
            .map_or(0, SmallVec::len);
        let finds = |lookup: &dyn ChannelLookup| lookup.find_channel(channel).is_some();
        match kind {
            SubscriptionKind::Channel => {
                let lookups = tables.lookups.iter();
                by_name + lookups.filter(|(.., lookup)| finds(&**lookup)).count()
            }
            _ => by_name,
        }
    }

    /// Number of patterns with subscribers.
    pub fn count_patterns(&self) -> usize {
        self.tables.lock().topics[SubscriptionKind::Pattern as usize].len()
    }

    /// Creates a subscriber whose queue holds `capacity` messages.
    pub fn new_subscriber(&self, capacity: usize) -> EmbeddedSubscriber {
        EmbeddedSubscriber {
            pubsub: self.clone(),
            id: self.next_subscriber_id.fetch_add(1, Ordering::Relaxed),
            queue: Arc::new(EventQueue::new(capacity.max(1), PubSubEvent::Lagged)),
        }
    }
}

/// Receives the messages of any number of channels. Dropping it removes its subscriptions.
pub struct EmbeddedSubscriber {
    pubsub: PubSubRegistry,
    id: u64,
    queue: Arc<SubscriberQueue>,
}

impl EmbeddedSubscriber {
    /// Subscribes to a topic. The subscriber receives every message that is published after this call returns.
    pub fn subscribe(&self, kind: SubscriptionKind, topic: &[u8]) {
        let mut tables = self.pubsub.tables.lock();
        let topics = &mut tables.topics[kind as usize];
        let subscribers = topics.entry(topic.into()).or_default();
        if !subscribers.iter().any(|(id, _)| *id == self.id) {
            subscribers.push((self.id, self.queue.clone()));
        }
    }

    /// Unsubscribes from a topic.
    pub fn unsubscribe(&self, kind: SubscriptionKind, topic: &[u8]) {
        let mut tables = self.pubsub.tables.lock();
        let topics = &mut tables.topics[kind as usize];
        if let Some(subscribers) = topics.get_mut(topic) {
            subscribers.retain(|(id, _)| *id != self.id);
            if subscribers.is_empty() {
                topics.swap_remove(topic);
            }
        }
    }

    /// Unsubscribes from everything.
    pub fn unsubscribe_all(&self) {
        let mut tables = self.pubsub.tables.lock();
        tables.lookups.retain(|(id, ..)| *id != self.id);
        for topics in &mut tables.topics {
            topics.retain(|_, subscribers| {
                subscribers.retain(|(id, _)| *id != self.id);
                !subscribers.is_empty()
            });
        }
    }

    /// Subscribes to all channels that a lookup finds. A channel that is also subscribed to by name would deliver every
    /// message twice.
    pub fn subscribe_by_lookup(&self, lookup: Arc<dyn ChannelLookup>) {
        let mut tables = self.pubsub.tables.lock();
        tables.lookups.push((self.id, self.queue.clone(), lookup));
    }

    /// Returns the next event. Never `None`, because the queue of a subscriber is never closed.
    pub async fn recv(&self) -> Option<PubSubEvent> {
        self.queue.next().await
    }
}

impl Drop for EmbeddedSubscriber {
    fn drop(&mut self) {
        self.unsubscribe_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lagging_subscriber_is_always_woken() {
        let pubsub = PubSubRegistry::default();
        let subscriber = pubsub.new_subscriber(1);
        subscriber.subscribe(SubscriptionKind::Channel, b"c");
        let enough = Arc::new(AtomicBool::new(false));
        let publisher = std::thread::spawn({
            let enough = enough.clone();
            move || {
                while !enough.load(Ordering::Relaxed) {
                    pubsub.publish(SubscriptionKind::Channel, b"c", b"x");
                }
            }
        });
        let mut lagged = 0;
        while lagged < 20_000 {
            let read = tokio::time::timeout(Duration::from_secs(60), subscriber.recv()).await;
            let event = read.expect("the subscriber is woken while there are messages");
            lagged += u32::from(event == Some(PubSubEvent::Lagged));
        }
        enough.store(true, Ordering::Relaxed);
        publisher.join().unwrap();
    }
}
