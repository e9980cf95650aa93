//! Who listens to what on this node.
//!
//! Always true: a topic is in the registry exactly while it has a reader, and a reader that comes after the registry was
//! closed is told so.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;

use super::queue::{Event, Queue};
use crate::telemetry;

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
    pub(crate) name: Bytes,
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

type Readers = HashMap<Bytes, Vec<Arc<Queue>>>;

#[derive(Default)]
pub(crate) struct Registry {
    topics: [RwLock<Readers>; 3],
    closed: AtomicBool,
}

impl Registry {
    /// Adds a reader and runs `then` before any other change to this kind of topics.
    pub(crate) fn add(&self, topic: &Topic, queue: &Arc<Queue>, then: impl FnOnce()) {
        let mut readers = self.topics[topic.kind as usize].write();
        readers
            .entry(topic.name.clone())
            .or_default()
            .push(Arc::clone(queue));
        if self.closed.load(Ordering::Acquire) {
            queue.close();
        }
        then();
    }

    /// Removes a reader, and runs `last` if it was the topic's last.
    pub(crate) fn remove(&self, topic: &Topic, queue: &Arc<Queue>, last: impl FnOnce()) {
        let mut readers = self.topics[topic.kind as usize].write();
        let Some(queues) = readers.get_mut(&topic.name) else {
            return;
        };
        queues.retain(|other| !Arc::ptr_eq(other, queue));
        if queues.is_empty() {
            readers.remove(&topic.name);
            last();
        }
    }

    /// Hands a message to the readers of a topic.
    pub(crate) fn deliver(&self, kind: Kind, name: &[u8], channel: Option<Bytes>, payload: Bytes) {
        let readers = self.topics[kind as usize].read();
        let Some((name, queues)) = readers.get_key_value(name) else {
            return;
        };
        let event = Event::Message {
            pattern: channel.is_some().then(|| name.clone()),
            channel: channel.unwrap_or_else(|| name.clone()),
            payload,
        };
        for queue in queues {
            if !queue.push(event.clone()) {
                telemetry::Event::ReaderLagged {
                    topic: &String::from_utf8_lossy(name),
                }
                .emit();
            }
        }
    }

    /// Tells the readers of a topic that messages may be missing.
    pub(crate) fn tell_missed(&self, topic: &Topic) {
        let readers = self.topics[topic.kind as usize].read();
        for queue in readers.get(&topic.name).into_iter().flatten() {
            queue.push(Event::MaybeMissed);
        }
    }

    /// Tells all readers that messages may be missing.
    pub(crate) fn tell_all_missed(&self) {
        self.each(|queue| {
            queue.push(Event::MaybeMissed);
        });
    }

    /// Ends all subscriptions.
    pub(crate) fn close(&self) {
        // Before the locks are taken: who adds later sees it, who added before is found.
        self.closed.store(true, Ordering::Release);
        self.each(super::queue::Queue::close);
    }

    fn each(&self, work: impl Fn(&Queue)) {
        for topics in &self.topics {
            topics
                .read()
                .values()
                .flatten()
                .for_each(|queue| work(queue));
        }
    }
}
