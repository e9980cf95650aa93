//! The bus on the embedded engine: one subscriber of the engine for all subscriptions.
//!
//! Always true: the engine asks the registry what is listened to, so that a listener is written down once.

use std::sync::Arc;

use bytes::Bytes;
use parlor_embedded::{Ear, Push, Subscriber};
use tokio::sync::mpsc;

use super::lane::{Command, Lane};
use super::queue::Name;
use super::registry::{Kind, Registry, Topic};

/// Starts the task that carries the subscriptions.
pub(crate) fn start(subscriber: Subscriber, registry: Arc<Registry>) -> Lane {
    subscriber.lend(Arc::clone(&registry) as Arc<dyn Ear>);
    Lane::with(|commands| run(subscriber, registry, commands))
}

impl Ear for Registry {
    fn hears(&self, channel: &[u8]) -> Option<Name> {
        self.find(Kind::Plain, channel)
    }

    fn channels(&self) -> Vec<Name> {
        self.names(Kind::Plain)
    }
}

async fn run(
    mut subscriber: Subscriber,
    registry: Arc<Registry>,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    loop {
        tokio::select! {
            // Commands first: a confirmation that waits behind a stream of messages would look like a dead store.
            biased;
            command = commands.recv() => match command {
                Some(command) => obey(&subscriber, command),
                None => return,
            },
            push = subscriber.recv() => match push {
                Some(push) => hand_out(&registry, push),
                None => return,
            },
        }
    }
}

fn obey(subscriber: &Subscriber, command: Command) {
    match command {
        Command::Want { topic, done, .. } => {
            let Topic { kind, name } = topic;
            match kind {
                Kind::Plain => {}
                Kind::Pattern => subscriber.psubscribe(&name),
                Kind::Sharded => subscriber.ssubscribe(&name),
            }
            if let Some(done) = done {
                // Nobody waits any more if this fails.
                let _ = done.send(Ok(()));
            }
        }
        Command::Drop {
            topic: Topic { kind, name },
        } => match kind {
            Kind::Plain => {}
            Kind::Pattern => subscriber.punsubscribe(&name),
            Kind::Sharded => subscriber.sunsubscribe(&name),
        },
    }
}

fn hand_out(registry: &Registry, push: Push) {
    match push {
        Push::Message { channel, payload } => {
            registry.deliver(Kind::Plain, &channel, None, Bytes::from_owner(payload));
        }
        Push::SMessage { channel, payload } => {
            registry.deliver(Kind::Sharded, &channel, None, Bytes::from_owner(payload));
        }
        Push::PMessage {
            pattern,
            channel,
            payload,
        } => {
            let payload = Bytes::from_owner(payload);
            registry.deliver(Kind::Pattern, &pattern, Some(channel), payload);
        }
        Push::Lagged => registry.tell_all_missed(),
    }
}
