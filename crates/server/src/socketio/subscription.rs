//! Subscription of this node to the live events of a conversation or user, shared by all sockets.

use std::sync::Arc;

use parking_lot::Mutex;
use parlor_chat::api::error::Result;
use parlor_chat::live::LiveSubscription;

/// A subscription that is made on first use. It is small, because a node has many.
#[derive(Default)]
pub(super) struct SharedSubscription(Mutex<SubscriptionState>);

enum SubscriptionState {
    /// Not subscribed. A task that subscribes holds the lock.
    Inactive(Option<Arc<tokio::sync::Mutex<()>>>),
    Active(LiveSubscription),
}

impl Default for SubscriptionState {
    fn default() -> Self {
        Self::Inactive(None)
    }
}

impl SharedSubscription {
    /// Awaits `subscribe`, unless the subscription is active. Concurrent callers wait for each other.
    pub(super) async fn activate(
        &self,
        subscribe: impl Future<Output = Result<LiveSubscription>>,
    ) -> Result<()> {
        let lock = match &mut *self.0.lock() {
            SubscriptionState::Active(_) => return Ok(()),
            SubscriptionState::Inactive(lock) => Arc::clone(lock.get_or_insert_default()),
        };
        let _guard = lock.lock().await;
        if let SubscriptionState::Active(_) = &*self.0.lock() {
            return Ok(());
        }
        let subscription = subscribe.await?;
        *self.0.lock() = SubscriptionState::Active(subscription);
        Ok(())
    }

    /// Ends the subscription when the returned value is dropped, which must happen without a lock.
    pub(super) fn take(&self) -> Option<LiveSubscription> {
        match std::mem::take(&mut *self.0.lock()) {
            SubscriptionState::Active(subscription) => Some(subscription),
            SubscriptionState::Inactive(_) => None,
        }
    }
}
