//! A pub/sub connection and the handler of its push messages.
//!
//! Invariants:
//! 1. A message is delivered on the task that read it, so the messages of one connection keep their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use redis::aio::{MultiplexedConnection, SendError};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use super::ChannelName;
use super::listener_registry::{ListenerRegistry, TopicKind};
use crate::url::ServerAddress;

/// Signals from the connection's own task to the worker.
#[derive(Default)]
pub(super) struct PubSubSignals {
    pub(super) connection_lost: Notify,
    /// `SUNSUBSCRIBE`s that the worker sent and the server has not confirmed.
    pub(super) pending_sunsubscribes: AtomicUsize,
}

/// An open pub/sub connection.
pub(super) struct PubSubConnection {
    pub(super) con: MultiplexedConnection,
    pub(super) server: ServerAddress,
    pub(super) signals: Arc<PubSubSignals>,
}

/// Handler of the push messages of a connection. It runs on the connection's own task.
pub(super) fn push_handler(
    registry: &Arc<ListenerRegistry>,
    signals: &Arc<PubSubSignals>,
) -> impl Fn(PushInfo) -> Result<(), SendError> + Send + Sync + 'static {
    let (registry, signals) = (Arc::clone(registry), Arc::clone(signals));
    move |push| {
        let mut data = push.data.into_iter().map_while(|value| match value {
            Value::BulkString(bytes) => Some(Bytes::from(bytes)),
            _ => None,
        });
        match push.kind {
            PushKind::Message | PushKind::SMessage => {
                let kind = if push.kind == PushKind::Message {
                    TopicKind::Plain
                } else {
                    TopicKind::Sharded
                };
                if let (Some(channel), Some(payload)) = (data.next(), data.next()) {
                    registry.deliver(kind, &channel, None, payload);
                }
            }
            PushKind::PMessage => {
                if let (Some(pattern), Some(channel), Some(payload)) =
                    (data.next(), data.next(), data.next())
                {
                    let channel = Some(ChannelName::from(&channel[..]));
                    registry.deliver(TopicKind::Pattern, &pattern, channel, payload);
                }
            }
            PushKind::SUnsubscribe => {
                let expected = signals.pending_sunsubscribes.fetch_update(
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                    |pending| pending.checked_sub(1),
                );
                if expected.is_err() {
                    signals.connection_lost.notify_one();
                }
            }
            PushKind::Disconnection => signals.connection_lost.notify_one(),
            _ => {}
        }
        Ok(())
    }
}
