//! Pub/sub on the embedded engine: one subscriber of the engine serves all subscriptions.
//!
//! Invariants:
//! 1. The engine looks plain channels up in the listener registry, so each channel name is stored once.

use std::sync::Arc;

use bytes::Bytes;
use parlor_embedded::{ChannelLookup, EmbeddedSubscriber, PubSubEvent, SubscriptionKind};

use super::ChannelName;
use super::listener_registry::{BusTopic, ListenerRegistry, TopicKind};
use super::pubsub_task::PubSubCommand;
use crate::task_group::TaskGroup;

/// The subscriber, and the task that delivers its events.
pub(crate) struct EmbeddedPubSub {
    subscriber: Arc<EmbeddedSubscriber>,
    tasks: TaskGroup,
}

impl ChannelLookup for ListenerRegistry {
    fn find_channel(&self, channel: &[u8]) -> Option<ChannelName> {
        self.find(TopicKind::Plain, channel)
    }

    fn list_channels(&self) -> Vec<ChannelName> {
        self.list_names(TopicKind::Plain)
    }
}

impl EmbeddedPubSub {
    pub(crate) fn start(subscriber: EmbeddedSubscriber, registry: &Arc<ListenerRegistry>) -> Self {
        subscriber.subscribe_by_lookup(Arc::clone(registry) as Arc<dyn ChannelLookup>);
        let subscriber = Arc::new(subscriber);
        let tasks = TaskGroup::default();
        tasks.spawn(deliver_events(
            Arc::clone(&subscriber),
            Arc::clone(registry),
        ));
        Self { subscriber, tasks }
    }

    /// Applies a command at once. Only patterns have subscriptions of their own: sharded channels exist on a Cluster
    /// only, and plain channels are found in the registry.
    pub(crate) fn send(&self, command: PubSubCommand) {
        let pattern = |topic: BusTopic| (topic.kind == TopicKind::Pattern).then_some(topic.name);
        match command {
            PubSubCommand::Subscribe {
                topic,
                confirmation,
                ..
            } => {
                if let Some(name) = pattern(topic) {
                    self.subscriber.subscribe(SubscriptionKind::Pattern, &name);
                }
                if let Some(confirmation) = confirmation {
                    // An error means that the caller no longer waits.
                    let _ = confirmation.send(Ok(()));
                }
            }
            PubSubCommand::Unsubscribe { topic } => {
                if let Some(name) = pattern(topic) {
                    self.subscriber
                        .unsubscribe(SubscriptionKind::Pattern, &name);
                }
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.tasks.abort_all();
        self.subscriber.unsubscribe_all();
    }
}

async fn deliver_events(subscriber: Arc<EmbeddedSubscriber>, registry: Arc<ListenerRegistry>) {
    while let Some(event) = subscriber.recv().await {
        match event {
            PubSubEvent::Message {
                channel,
                pattern,
                payload,
            } => {
                let payload = Bytes::from_owner(payload);
                match pattern {
                    Some(pattern) => {
                        registry.deliver(TopicKind::Pattern, &pattern, Some(channel), payload);
                    }
                    None => registry.deliver(TopicKind::Plain, &channel, None, payload),
                }
            }
            PubSubEvent::Lagged => registry.notify_gap_all(),
        }
    }
}
