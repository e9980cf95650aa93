//! Publish and subscribe: who listens to what.
//!
//! Always true:
//! 1. A subscriber has one bounded queue. Publishing never waits: what does not fit is dropped, and from then on
//!    everything for that subscriber, until it has read `Lagged` in the place of what is missing.
//! 2. Messages of one channel arrive in the order in which they were published.
//! 3. An [`Ear`] is asked for each message under the lock of the routes, so it must not publish or subscribe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::{Notify, mpsc};

use crate::glob;
use crate::value::Blob;

/// What a subscriber receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Push {
    /// From `PUBLISH` on a channel.
    Message {
        /// The channel.
        channel: Blob,
        /// What was published.
        payload: Blob,
    },
    /// From `PUBLISH` on a channel that matches a pattern.
    PMessage {
        /// The pattern.
        pattern: Blob,
        /// The channel.
        channel: Blob,
        /// What was published.
        payload: Blob,
    },
    /// From `SPUBLISH` on a shard channel.
    SMessage {
        /// The channel.
        channel: Blob,
        /// What was published.
        payload: Blob,
    },
    /// The queue was full: messages are missing here.
    Lagged,
}

/// The three namespaces of subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    Channel,
    Pattern,
    Shard,
}

struct Mailbox {
    queue: mpsc::Sender<Push>,
    lagged: AtomicBool,
    /// Wakes a reader that emptied the queue between the message that did not fit and the note of it.
    noted: Notify,
}

impl Mailbox {
    fn deliver(&self, push: Push) {
        if !self.lagged.load(Ordering::Acquire) && self.queue.try_send(push).is_err() {
            self.lagged.store(true, Ordering::Release);
            self.noted.notify_one();
        }
    }
}

/// Who listens to a topic, by number: most have one, and there are many topics.
type Listeners = SmallVec<[(u64, Arc<Mailbox>); 1]>;
type Topics = IndexMap<Blob, Listeners, RandomState>;

/// Knows by itself which channels it listens to, so that they are not written down twice: there may be very many.
pub trait Ear: Send + Sync + 'static {
    /// The channel, if it listens to it.
    fn hears(&self, channel: &[u8]) -> Option<Blob>;

    /// All channels that it listens to.
    fn channels(&self) -> Vec<Blob>;
}

#[derive(Default)]
struct Routes {
    channels: Topics,
    patterns: Topics,
    shards: Topics,
    ears: Vec<(u64, Arc<Mailbox>, Arc<dyn Ear>)>,
}

impl Routes {
    fn topics(&mut self, space: Space) -> &mut Topics {
        match space {
            Space::Channel => &mut self.channels,
            Space::Pattern => &mut self.patterns,
            Space::Shard => &mut self.shards,
        }
    }
}

/// All subscriptions of one engine.
#[derive(Clone, Default)]
pub struct Hub {
    routes: Arc<Mutex<Routes>>,
    ids: Arc<AtomicU64>,
}

impl Hub {
    /// Sends to the subscribers of a channel and of the patterns it matches. How many there were.
    pub fn publish(&self, channel: &[u8], payload: &[u8]) -> usize {
        let routes = self.routes.lock();
        let listeners = routes.channels.get_key_value(channel);
        let ears = routes.ears.iter();
        let ears = ears.filter_map(|(_, mailbox, ear)| Some((mailbox, ear.hears(channel)?)));
        let ears: SmallVec<[_; 1]> = ears.collect();
        if listeners.is_none() && ears.is_empty() && routes.patterns.is_empty() {
            return 0;
        }
        let payload = Blob::from(payload);
        let mut receivers = ears.len();
        for (mailbox, channel) in ears {
            let payload = payload.clone();
            mailbox.deliver(Push::Message { channel, payload });
        }
        if let Some((channel, listeners)) = listeners {
            receivers += listeners.len();
            for (_, mailbox) in listeners {
                mailbox.deliver(Push::Message {
                    channel: channel.clone(),
                    payload: payload.clone(),
                });
            }
        }
        for (pattern, listeners) in &routes.patterns {
            if !glob::matches(pattern, channel) {
                continue;
            }
            let channel = Blob::from(channel);
            receivers += listeners.len();
            for (_, mailbox) in listeners {
                mailbox.deliver(Push::PMessage {
                    pattern: pattern.clone(),
                    channel: channel.clone(),
                    payload: payload.clone(),
                });
            }
        }
        receivers
    }

    /// Sends to the subscribers of a shard channel. How many there were.
    pub fn publish_sharded(&self, channel: &[u8], payload: &[u8]) -> usize {
        let routes = self.routes.lock();
        let Some((channel, listeners)) = routes.shards.get_key_value(channel) else {
            return 0;
        };
        let payload = Blob::from(payload);
        for (_, mailbox) in listeners {
            mailbox.deliver(Push::SMessage {
                channel: channel.clone(),
                payload: payload.clone(),
            });
        }
        listeners.len()
    }

    /// Channels with subscribers that match a pattern; shard channels when `sharded`.
    pub fn channels(&self, pattern: Option<&[u8]>, sharded: bool) -> Vec<Blob> {
        let routes = self.routes.lock();
        let topics = if sharded {
            &routes.shards
        } else {
            &routes.channels
        };
        let wanted = |channel: &Blob| pattern.is_none_or(|pattern| glob::matches(pattern, channel));
        let mut channels: Vec<_> = topics.keys().filter(|it| wanted(it)).cloned().collect();
        if !sharded {
            let heard = routes.ears.iter().flat_map(|(.., ear)| ear.channels());
            let heard = heard.filter(|it| wanted(it) && !topics.contains_key(it));
            channels.extend(heard);
        }
        channels
    }

    /// How many subscribers a channel has.
    pub fn subscribers(&self, channel: &[u8], sharded: bool) -> usize {
        let routes = self.routes.lock();
        let topics = if sharded {
            &routes.shards
        } else {
            &routes.channels
        };
        let ears = match sharded {
            true => 0,
            false => {
                let ears = routes.ears.iter();
                ears.filter(|(.., ear)| ear.hears(channel).is_some())
                    .count()
            }
        };
        ears + topics.get(channel).map_or(0, SmallVec::len)
    }

    /// How many patterns are subscribed to.
    pub fn patterns(&self) -> usize {
        self.routes.lock().patterns.len()
    }

    /// A new subscriber whose queue holds `capacity` messages.
    pub fn subscriber(&self, capacity: usize) -> Subscriber {
        let (queue, messages) = mpsc::channel(capacity.max(1));
        let mailbox = Arc::new(Mailbox {
            queue,
            lagged: AtomicBool::new(false),
            noted: Notify::new(),
        });
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        Subscriber {
            hub: self.clone(),
            id,
            mailbox,
            messages,
        }
    }
}

/// One reader of any number of channels. Dropping it ends its subscriptions.
pub struct Subscriber {
    hub: Hub,
    id: u64,
    mailbox: Arc<Mailbox>,
    messages: mpsc::Receiver<Push>,
}

impl Subscriber {
    fn add(&self, space: Space, topic: &[u8]) {
        let mut routes = self.hub.routes.lock();
        let listeners = routes.topics(space).entry(topic.into()).or_default();
        if !listeners.iter().any(|(id, _)| *id == self.id) {
            listeners.push((self.id, self.mailbox.clone()));
        }
    }

    fn remove(&self, space: Space, topic: &[u8]) {
        let mut routes = self.hub.routes.lock();
        let topics = routes.topics(space);
        if let Some(listeners) = topics.get_mut(topic) {
            listeners.retain(|(id, _)| *id != self.id);
            if listeners.is_empty() {
                topics.swap_remove(topic);
            }
        }
    }

    /// Listens to the channels that `ear` hears, beside those subscribed to: a channel is for one of the two.
    pub fn lend(&self, ear: Arc<dyn Ear>) {
        let mut routes = self.hub.routes.lock();
        routes.ears.push((self.id, self.mailbox.clone(), ear));
    }

    /// Listens to a channel. Whatever is published after this returns is received.
    pub fn subscribe(&self, channel: &[u8]) {
        self.add(Space::Channel, channel);
    }

    /// Stops listening to a channel.
    pub fn unsubscribe(&self, channel: &[u8]) {
        self.remove(Space::Channel, channel);
    }

    /// Listens to all channels that match a pattern.
    pub fn psubscribe(&self, pattern: &[u8]) {
        self.add(Space::Pattern, pattern);
    }

    /// Stops listening to a pattern.
    pub fn punsubscribe(&self, pattern: &[u8]) {
        self.remove(Space::Pattern, pattern);
    }

    /// Listens to a shard channel.
    pub fn ssubscribe(&self, channel: &[u8]) {
        self.add(Space::Shard, channel);
    }

    /// Stops listening to a shard channel.
    pub fn sunsubscribe(&self, channel: &[u8]) {
        self.remove(Space::Shard, channel);
    }

    /// The next message; never ends while the subscriber lives, as it holds its own sending half.
    pub async fn recv(&mut self) -> Option<Push> {
        loop {
            if let Ok(push) = self.messages.try_recv() {
                return Some(push);
            }
            if self.mailbox.lagged.swap(false, Ordering::AcqRel) {
                return Some(Push::Lagged);
            }
            tokio::select! {
                push = self.messages.recv() => return push,
                () = self.mailbox.noted.notified() => {}
            }
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let mut routes = self.hub.routes.lock();
        routes.ears.retain(|(id, ..)| *id != self.id);
        for space in [Space::Channel, Space::Pattern, Space::Shard] {
            routes.topics(space).retain(|_, listeners| {
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
        let hub = Hub::default();
        let mut subscriber = hub.subscriber(1);
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
            let push = read.expect("it is woken while there are messages");
            lagged += u32::from(push == Some(Push::Lagged));
        }
        enough.store(true, Ordering::Relaxed);
        publisher.join().unwrap();
    }
}
