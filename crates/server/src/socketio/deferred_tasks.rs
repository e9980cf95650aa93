//! Background work for sockets after their disconnect or while they are idle.
//!
//! Invariants:
//! 1. A socket has at most a few queued tasks, so the queue is bounded by the number of sockets.
//! 2. Each task runs once. Tasks that are still queued at shutdown are dropped.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use parlor_chat::ids::UserId;
use tokio::sync::mpsc;
use tracing::debug;

use super::bodies::ClosedReason;
use super::{GatewaySocket, SocketIoGateway};

/// Tasks that run at a time. A bus reconnect queues one task per connected user.
const MAX_CONCURRENT_TASKS: usize = 64;

/// A task.
pub(super) enum DeferredTask {
    /// The connection is lost: starts the grace period of the device.
    ConnectionLost(Arc<GatewaySocket>),
    /// The client disconnected cleanly: removes the device.
    CleanDisconnect(Arc<GatewaySocket>),
    /// The user is connected without sending events: renews the session.
    RenewSession(Arc<GatewaySocket>),
    /// Unread events of a user may have been lost: sends all unread counts again.
    ResendUnreadCounts(UserId),
}

/// Queue of tasks.
pub(super) struct DeferredTasks {
    sender: mpsc::UnboundedSender<DeferredTask>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<DeferredTask>>>,
}

impl Default for DeferredTasks {
    fn default() -> Self {
        let (put, take) = mpsc::unbounded_channel();
        let take = Mutex::new(Some(take));
        Self {
            sender: put,
            receiver: take,
        }
    }
}

impl DeferredTasks {
    pub(super) fn enqueue(&self, errand: DeferredTask) {
        // At shutdown the receiver is gone and the task is dropped.
        let _ = self.sender.send(errand);
    }
}

impl SocketIoGateway {
    /// Runs the queued tasks. Never completes.
    pub(super) async fn run_deferred_tasks(self: Arc<Self>) {
        let Some(take) = self.deferred_tasks.receiver.lock().take() else {
            return;
        };
        let errands = stream::unfold(take, |mut take| async {
            let errand = take.recv().await?;
            Some((errand, take))
        });
        let each = |errand| self.run_deferred_task(errand);
        errands
            .for_each_concurrent(MAX_CONCURRENT_TASKS, each)
            .await;
    }

    /// Moves a device to another socket of the user on this node with the same device id, such as another browser tab.
    /// The departure of the closed socket then has no effect.
    async fn hand_over_device(&self, from: &Arc<GatewaySocket>) {
        let state = from.state();
        let cast_out = matches!(
            state.mutable.lock().close_reason,
            Some(ClosedReason::Blocked | ClosedReason::Logout | ClosedReason::Replaced)
        );
        let holds = || self.chat().presence().holds_socket(&state.device);
        if cast_out || !state.is_detached_or_closed() || !holds() {
            return;
        }
        for other in state.user.sockets() {
            let to = other.state();
            if Arc::ptr_eq(&other, from) || to.device.id != state.device.id {
                continue;
            }
            let telling = to.presence_lock();
            let _telling = telling.lock().await;
            if !to.is_detached_or_closed() {
                let connected = self.chat().presence().connect(Arc::clone(&to.device)).await;
                // While the store is unavailable, presence keeps the registration and writes it later.
                let error = connected
                    .err()
                    .filter(|error| !error.is_store_unavailable());
                debug!(?error, "hand-over of a device to another socket");
                return;
            }
        }
    }

    async fn run_deferred_task(&self, errand: DeferredTask) {
        let presence = self.chat().presence();
        if let DeferredTask::ConnectionLost(socket) | DeferredTask::CleanDisconnect(socket) =
            &errand
        {
            self.hand_over_device(socket).await;
        }
        let done = match &errand {
            DeferredTask::ConnectionLost(socket) => {
                let state = socket.state();
                let telling = state.presence_lock();
                let _telling = telling.lock().await;
                // The client may have recovered the socket meanwhile.
                match state.is_detached_or_closed() {
                    true => presence.connection_lost(&state.device).await,
                    false => Ok(()),
                }
            }
            DeferredTask::CleanDisconnect(socket) => {
                let state = socket.state();
                let telling = state.presence_lock();
                let _telling = telling.lock().await;
                presence.leave(&state.device).await
            }
            DeferredTask::RenewSession(socket) => {
                let caller = socket.state().caller();
                let checked = self.chat().sessions().check(caller.as_ref().clone());
                // If the session has ended, its end handler closes the socket.
                checked.await.map(drop)
            }
            DeferredTask::ResendUnreadCounts(user) => self.resend_unread_counts(user).await,
        };
        if let Err(error) = done {
            debug!(%error, "deferred task failed");
        }
    }
}
