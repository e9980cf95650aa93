//! Who listens to what on this node.
//!
//! Always true:
//! 1. A topic is in the registry exactly while it has a sink, and a sink that comes after the registry was closed is told so.
//! 2. No lock is held while a sink is called or dropped.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;

use super::queue::{Event, Name};
use super::sink::Sink;

/// The three namespaces of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Plain,
    Pattern,
    Sharded,
}

/// Something to subscribe to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Topic {
    pub(crate) kind: Kind,
    pub(crate) name: Name,
}

impl Topic {
    /// The command that subscribes.
    pub(crate) fn subscribe(&self) -> redis::Cmd {
        self.cmd(["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"])
    }

    /// The command that unsubscribes.
    pub(crate) fn unsubscribe(&self) -> redis::Cmd {
        self.cmd(["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"])
    }

    fn cmd(&self, names: [&str; 3]) -> redis::Cmd {
        let mut cmd = redis::cmd(names[self.kind as usize]);
        cmd.arg(&self.name[..]);
        cmd
    }
}

/// The sinks of a topic; most have one.
#[derive(Clone)]
enum Sinks {
    One(Arc<dyn Sink>),
    Many(Arc<[Arc<dyn Sink>]>),
}

impl Sinks {
    fn all(&self) -> &[Arc<dyn Sink>] {
        match self {
            Self::One(sink) => std::slice::from_ref(sink),
            Self::Many(sinks) => sinks,
        }
    }

    fn with(&self, sink: &Arc<dyn Sink>) -> Self {
        let sinks = self.all().iter().chain([sink]);
        Self::Many(sinks.cloned().collect())
    }

    /// Without one; none if it was the only one.
    fn without(&self, sink: &Arc<dyn Sink>) -> Option<Self> {
        let others = self.all().iter().filter(|other| !same(other, sink));
        let others: Vec<_> = others.cloned().collect();
        match others.len() {
            0 => None,
            1 => others.into_iter().next().map(Self::One),
            _ => Some(Self::Many(others.into())),
        }
    }
}

/// By address: the tables of a type's functions may be many.
fn same(one: &Arc<dyn Sink>, other: &Arc<dyn Sink>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

#[derive(Default)]
pub(crate) struct Registry {
    topics: [RwLock<HashMap<Name, Sinks>>; 3],
    closed: AtomicBool,
}

impl Registry {
    /// Adds a sink and runs `then` before any other change to this kind of topics.
    pub(crate) fn add(&self, topic: &Topic, sink: &Arc<dyn Sink>, then: impl FnOnce()) {
        let mut topics = self.topics[topic.kind as usize].write();
        let before = match topics.entry(topic.name.clone()) {
            Entry::Vacant(place) => {
                place.insert(Sinks::One(Arc::clone(sink)));
                None
            }
            Entry::Occupied(mut place) => {
                let sinks = place.get().with(sink);
                Some(place.insert(sinks))
            }
        };
        then();
        drop(topics);
        drop(before);
        // Whoever closes says so first and looks for sinks then.
        if self.closed.load(Ordering::Acquire) {
            sink.closed();
        }
    }

    /// Removes a sink, and runs `last` if it was the topic's last.
    pub(crate) fn remove(&self, topic: &Topic, sink: &Arc<dyn Sink>, last: impl FnOnce()) {
        let mut topics = self.topics[topic.kind as usize].write();
        let Some(sinks) = topics.get_mut(&topic.name) else {
            return;
        };
        let removed = match sinks.without(sink) {
            Some(others) => Some(std::mem::replace(sinks, others)),
            None => {
                let removed = topics.remove(&topic.name);
                last();
                removed
            }
        };
        drop(topics);
        drop(removed);
    }

    /// Hands a message to the sinks of a topic.
    pub(crate) fn deliver(&self, kind: Kind, name: &[u8], channel: Option<Name>, payload: Bytes) {
        let found = {
            let topics = self.topics[kind as usize].read();
            let found = topics.get_key_value(name);
            found.map(|(name, sinks)| (name.clone(), sinks.clone()))
        };
        let Some((name, sinks)) = found else {
            return;
        };
        let event = Event::Message {
            pattern: channel.is_some().then(|| name.clone()),
            channel: channel.unwrap_or(name),
            payload,
        };
        sinks.all().iter().for_each(|sink| sink.tell(&event));
    }

    /// The name of a topic, if somebody listens to it.
    pub(crate) fn find(&self, kind: Kind, name: &[u8]) -> Option<Name> {
        let topics = self.topics[kind as usize].read();
        topics.get_key_value(name).map(|(name, _)| name.clone())
    }

    /// The names of all topics of a kind.
    pub(crate) fn names(&self, kind: Kind) -> Vec<Name> {
        self.topics[kind as usize].read().keys().cloned().collect()
    }

    /// Tells the sinks of a topic that messages may be missing.
    pub(crate) fn tell_missed(&self, topic: &Topic) {
        let found = self.topics[topic.kind as usize]
            .read()
            .get(&topic.name)
            .cloned();
        for sink in found.iter().flat_map(Sinks::all) {
            sink.tell(&Event::MaybeMissed);
        }
    }

    /// Tells all sinks that messages may be missing.
    pub(crate) fn tell_all_missed(&self) {
        self.each(|sink| sink.tell(&Event::MaybeMissed));
    }

    /// Ends all subscriptions.
    pub(crate) fn close(&self) {
        // Before the locks are taken: who adds later sees it, who added before is found.
        self.closed.store(true, Ordering::Release);
        self.each(Sink::closed);
    }

    fn each(&self, work: impl Fn(&dyn Sink)) {
        for topics in &self.topics {
            let all: Vec<Sinks> = topics.read().values().cloned().collect();
            for sink in all.iter().flat_map(Sinks::all) {
                work(&**sink);
            }
        }
    }
}
