//! Who is told what is published, without a queue and a task in between.
//!
//! Always true:
//! 1. A sink is called where the message was read, in the order of its channel; no lock of the bus is held meanwhile.
//! 2. A sink that was taken away is kept until calls that had begun are over, and none begins later.

use std::sync::Arc;

use super::Inner;
use super::lane::Command;
use super::queue::Event;
use super::registry::Topic;

/// Something that is told what is published.
///
/// It is called on the task that reads the connection of all channels: whatever takes long there delays everybody, so a
/// sink notes and returns. [`Event::MaybeMissed`] may come from another task at the same time, so a sink that cares for
/// the order takes a lock of its own. It may listen, and drop its own listening or another one.
pub trait Sink: Send + Sync + 'static {
    /// Something was published, or may have been missed.
    fn tell(&self, event: &Event);

    /// The store was closed: nothing follows. May be said twice.
    fn closed(&self) {}
}

/// A sink that is called. Dropping it ends that; a call that has begun on another thread may end after it.
#[must_use = "listening ends when this is dropped"]
pub struct Listening {
    pub(super) topic: Topic,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) bus: Arc<Inner>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Self { topic, sink, bus } = self;
        bus.registry.remove(topic, sink, || {
            if bus.lanes.carry(topic.kind) {
                bus.lanes.send(Command::Drop {
                    topic: topic.clone(),
                });
            }
        });
    }
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = String::from_utf8_lossy(&self.topic.name);
        write!(f, "Listening({:?} {name})", self.topic.kind)
    }
}
