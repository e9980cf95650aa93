//! The listeners of this node by topic.
//!
//! Invariants:
//! 1. A topic is in the registry exactly while it has a listener. A listener that is added after the registry was
//!    closed gets `on_close`.
//! 2. No lock is held while a listener is called or dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;
use smallvec::SmallVec;

use super::listener::BusListener;
use super::{BusEvent, ChannelName};

/// Namespace of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TopicKind {
    Plain,
    Pattern,
    Sharded,
}

/// A channel or pattern to subscribe to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BusTopic {
    pub(crate) kind: TopicKind,
    pub(crate) name: ChannelName,
}

impl BusTopic {
    pub(crate) fn subscribe(&self) -> redis::Cmd {
        self.cmd(["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"])
    }

    pub(crate) fn unsubscribe(&self) -> redis::Cmd {
        self.cmd(["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"])
    }

    fn cmd(&self, names: [&str; 3]) -> redis::Cmd {
        let mut cmd = redis::cmd(names[self.kind as usize]);
        cmd.arg(&self.name[..]);
        cmd
    }
}

/// Listeners of a topic. Most topics have one, which needs no allocation.
type TopicListeners = SmallVec<[Arc<dyn BusListener>; 1]>;

/// Compares the addresses only, because a type can have several vtables.
fn is_same_listener(one: &Arc<dyn BusListener>, other: &Arc<dyn BusListener>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

#[derive(Default)]
pub(crate) struct ListenerRegistry {
    topics: [RwLock<HashMap<ChannelName, TopicListeners>>; 3],
    closed: AtomicBool,
}

impl ListenerRegistry {
    /// Adds a listener and runs `while_locked` before any other change to topics of this kind.
    pub(crate) fn add(
        &self,
        topic: &BusTopic,
        listener: &Arc<dyn BusListener>,
        while_locked: impl FnOnce(),
    ) {
        let mut topics = self.topics[topic.kind as usize].write();
        let listeners = topics.entry(topic.name.clone()).or_default();
        listeners.push(Arc::clone(listener));
        while_locked();
        drop(topics);
        // `close` sets the flag before it visits the listeners, so one of the two calls `on_close`.
        if self.closed.load(Ordering::Acquire) {
            listener.on_close();
        }
    }

    /// Removes a listener, and runs `if_last` if it was the last one of its topic.
    pub(crate) fn remove(
        &self,
        topic: &BusTopic,
        listener: &Arc<dyn BusListener>,
        if_last: impl FnOnce(),
    ) {
        let mut topics = self.topics[topic.kind as usize].write();
        let Some(listeners) = topics.get_mut(&topic.name) else {
            return;
        };
        let index = listeners
            .iter()
            .position(|other| is_same_listener(other, listener));
        let removed = index.map(|index| listeners.swap_remove(index));
        if listeners.is_empty() {
            topics.remove(&topic.name);
            if_last();
        }
        drop(topics);
        drop(removed);
    }

    /// Passes a message to the listeners of a topic.
    pub(crate) fn deliver(
        &self,
        kind: TopicKind,
        name: &[u8],
        channel: Option<ChannelName>,
        payload: Bytes,
    ) {
        let found = {
            let topics = self.topics[kind as usize].read();
            let found = topics.get_key_value(name);
            found.map(|(name, listeners)| (name.clone(), listeners.clone()))
        };
        let Some((name, listeners)) = found else {
            return;
        };
        let event = BusEvent::Message {
            pattern: channel.is_some().then(|| name.clone()),
            channel: channel.unwrap_or(name),
            payload,
        };
        listeners
            .iter()
            .for_each(|listener| listener.on_event(&event));
    }

    /// The stored name of a topic, if it has a listener.
    pub(crate) fn find(&self, kind: TopicKind, name: &[u8]) -> Option<ChannelName> {
        let topics = self.topics[kind as usize].read();
        topics.get_key_value(name).map(|(name, _)| name.clone())
    }

    pub(crate) fn list_names(&self, kind: TopicKind) -> Vec<ChannelName> {
        self.topics[kind as usize].read().keys().cloned().collect()
    }

    /// Sends `MaybeMissed` to the listeners of a topic.
    pub(crate) fn notify_gap(&self, topic: &BusTopic) {
        let found = self.topics[topic.kind as usize]
            .read()
            .get(&topic.name)
            .cloned();
        for listener in found.iter().flatten() {
            listener.on_event(&BusEvent::MaybeMissed);
        }
    }

    /// Sends `MaybeMissed` to all listeners.
    pub(crate) fn notify_gap_all(&self) {
        self.for_each_listener(|listener| listener.on_event(&BusEvent::MaybeMissed));
    }

    /// Closes the registry and notifies all listeners.
    pub(crate) fn close(&self) {
        // Set before the locks are taken: a listener that is added later sees the flag, a listener that was added
        // before is visited.
        self.closed.store(true, Ordering::Release);
        self.for_each_listener(BusListener::on_close);
    }

    fn for_each_listener(&self, work: impl Fn(&dyn BusListener)) {
        for topics in &self.topics {
            let all: Vec<TopicListeners> = topics.read().values().cloned().collect();
            for listener in all.iter().flatten() {
                work(&**listener);
            }
        }
    }
}
