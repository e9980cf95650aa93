//! Who is told what is published, without a queue and a task in between.
//!
//! Always true:
//! 1. A sink is called where the message was read, in the order of its channel; no lock of the bus is held meanwhile.
//! 2. A sink that was taken away is kept until calls that had begun are over, and none begins later.

use std::sync::Arc;

use super::BusInner;
use super::lane::PubSubCommand;
use super::queue::BusEvent;
use super::registry::BusTopic;

/// Something that is told what is published.
///
/// It is called on the task that reads the connection of all channels: whatever takes long there delays everybody, so a
/// sink notes and returns. [`Event::MaybeMissed`] may come from another task at the same time, so a sink that cares for
/// the order takes a lock of its own. It may listen, and drop its own listening or another one.
pub trait BusListener: Send + Sync + 'static {
    /// Something was published, or may have been missed.
    fn on_event(&self, event: &BusEvent);

    /// The store was closed: nothing follows. May be said twice.
    fn on_close(&self) {}
}

/// A sink that is called. Dropping it ends that; a call that has begun on another thread may end after it.
#[must_use = "the listener is removed when this guard is dropped"]
pub struct BusListenerGuard {
    pub(super) topic: BusTopic,
    pub(super) sink: Arc<dyn BusListener>,
    pub(super) bus: Arc<BusInner>,
}

impl Drop for BusListenerGuard {
    fn drop(&mut self) {
        let Self { topic, sink, bus } = self;
        bus.registry.remove(topic, sink, || {
            if bus.pubsub_tasks.needs_subscribe(topic.kind) {
                bus.pubsub_tasks.send(PubSubCommand::Unsubscribe {
                    topic: topic.clone(),
                });
            }
        });
    }
}

impl std::fmt::Debug for BusListenerGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = String::from_utf8_lossy(&self.topic.name);
        write!(f, "BusListenerGuard({:?} {name})", self.topic.kind)
    }
}
