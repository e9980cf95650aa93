//! Callbacks for published messages, without a queue or a task in between.
//!
//! Invariants:
//! 1. A listener is called on the task that read the message, in the order of its channel. The bus holds no lock
//!    meanwhile.
//! 2. A removed listener is kept alive until deliveries that had begun are over. It gets no message that is read later.

use std::sync::Arc;

use super::listener_registry::BusTopic;
use super::pubsub_task::PubSubCommand;
use super::{BusEvent, BusInner};

/// Callback for published messages.
///
/// The bus calls a listener on the task that reads the connection of all channels. Slow work there delays every
/// channel, so a listener stores the event and returns. [`BusEvent::MaybeMissed`] may come from another task at the
/// same time, so a listener that depends on the order needs its own lock. A listener may add listeners, and may drop
/// its own guard or another one.
pub trait BusListener: Send + Sync + 'static {
    /// A message was published, or messages may be missing.
    fn on_event(&self, event: &BusEvent);

    /// The store was closed, and no event follows. May be called twice.
    fn on_close(&self) {}
}

/// Guard of a listener. Dropping it removes the listener. A call that has begun on another thread may end after the
/// drop.
#[must_use = "the listener is removed when this guard is dropped"]
pub struct BusListenerGuard {
    pub(super) topic: BusTopic,
    pub(super) listener: Arc<dyn BusListener>,
    pub(super) bus: Arc<BusInner>,
}

impl Drop for BusListenerGuard {
    fn drop(&mut self) {
        let Self {
            topic,
            listener,
            bus,
        } = self;
        bus.registry.remove(topic, listener, || {
            bus.pubsub_tasks.send(PubSubCommand::Unsubscribe {
                topic: topic.clone(),
            });
        });
    }
}

impl std::fmt::Debug for BusListenerGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = String::from_utf8_lossy(&self.topic.name);
        write!(f, "BusListenerGuard({:?} {name})", self.topic.kind)
    }
}
