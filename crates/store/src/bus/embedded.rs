//! Pub/sub on the embedded engine: one subscriber of the engine serves all subscriptions.
//!
//! Invariants:
//! 1. The engine looks plain channels up in the listener registry, so each channel name is stored once.

use std::sync::Arc;

use bytes::Bytes;
use parlor_embedded::{ChannelLookup, EmbeddedSubscriber, PubSubEvent};
use tokio::sync::mpsc;

use super::lane::{PubSubCommand, PubSubTask};
use super::queue::ChannelName;
use super::registry::{BusTopic, ListenerRegistry, TopicKind};

/// Starts the task that serves the subscriptions.
pub(crate) fn start(subscriber: EmbeddedSubscriber, registry: Arc<ListenerRegistry>) -> PubSubTask {
    subscriber.subscribe_by_lookup(Arc::clone(&registry) as Arc<dyn ChannelLookup>);
    PubSubTask::start_with(|commands| run_embedded_task(subscriber, registry, commands))
}

impl ChannelLookup for ListenerRegistry {
    fn find_channel(&self, channel: &[u8]) -> Option<ChannelName> {
        self.find(TopicKind::Plain, channel)
    }

    fn channels(&self) -> Vec<ChannelName> {
        self.list_names(TopicKind::Plain)
    }
}

async fn run_embedded_task(
    mut subscriber: EmbeddedSubscriber,
    registry: Arc<ListenerRegistry>,
    mut commands: mpsc::UnboundedReceiver<PubSubCommand>,
) {
    loop {
        tokio::select! {
            // Commands come first: a confirmation that waits behind a stream of messages would make the store look
            // dead.
            biased;
            command = commands.recv() => match command {
                Some(command) => apply_command(&subscriber, command),
                None => return,
            },
            push = subscriber.recv() => match push {
                Some(push) => deliver_event(&registry, push),
                None => return,
            },
        }
    }
}

fn apply_command(subscriber: &EmbeddedSubscriber, command: PubSubCommand) {
    match command {
        PubSubCommand::Subscribe {
            topic,
            confirmation: done,
            ..
        } => {
            let BusTopic { kind, name } = topic;
            match kind {
                TopicKind::Plain => {}
                TopicKind::Pattern => subscriber.psubscribe(&name),
                TopicKind::Sharded => subscriber.ssubscribe(&name),
            }
            if let Some(done) = done {
                // An error means that the caller no longer waits.
                let _ = done.send(Ok(()));
            }
        }
        PubSubCommand::Unsubscribe {
            topic: BusTopic { kind, name },
        } => match kind {
            TopicKind::Plain => {}
            TopicKind::Pattern => subscriber.punsubscribe(&name),
            TopicKind::Sharded => subscriber.sunsubscribe(&name),
        },
    }
}

fn deliver_event(registry: &ListenerRegistry, push: PubSubEvent) {
    match push {
        PubSubEvent::Message { channel, payload } => {
            registry.deliver(TopicKind::Plain, &channel, None, Bytes::from_owner(payload));
        }
        PubSubEvent::SMessage { channel, payload } => {
            registry.deliver(
                TopicKind::Sharded,
                &channel,
                None,
                Bytes::from_owner(payload),
            );
        }
        PubSubEvent::PMessage {
            pattern,
            channel,
            payload,
        } => {
            let payload = Bytes::from_owner(payload);
            registry.deliver(TopicKind::Pattern, &pattern, Some(channel), payload);
        }
        PubSubEvent::Lagged => registry.notify_gap_all(),
    }
}
