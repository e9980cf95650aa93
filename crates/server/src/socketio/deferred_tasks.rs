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
        let (sender, receiver) = mpsc::unbounded_channel();
        let receiver = Mutex::new(Some(receiver));
        Self { sender, receiver }
    }
}

impl DeferredTasks {
    pub(super) fn enqueue(&self, task: DeferredTask) {
        // At shutdown the receiver is gone and the task is dropped.
        let _ = self.sender.send(task);
    }
}

impl SocketIoGateway {
    /// Runs the queued tasks. Never completes.
    pub(super) async fn run_deferred_tasks(self: Arc<Self>) {
        let Some(receiver) = self.deferred_tasks.receiver.lock().take() else {
            return;
        };
        let tasks = stream::unfold(receiver, |mut receiver| async {
            let task = receiver.recv().await?;
            Some((task, receiver))
        });
        let run = |task| self.run_deferred_task(task);
        tasks.for_each_concurrent(MAX_CONCURRENT_TASKS, run).await;
    }

    async fn run_deferred_task(&self, task: DeferredTask) {
        let presence = self.chat().presence();
        let result = match &task {
            DeferredTask::ConnectionLost(socket) => {
                let state = socket.state();
                let presence_lock = state.presence_lock();
                let _guard = presence_lock.lock().await;
                // The client may have recovered the socket meanwhile.
                match state.is_detached_or_closed() {
                    true => presence.connection_lost(&state.device).await,
                    false => Ok(()),
                }
            }
            DeferredTask::CleanDisconnect(socket) => {
                let state = socket.state();
                let presence_lock = state.presence_lock();
                let _guard = presence_lock.lock().await;
                presence.disconnect(&state.device).await
            }
            DeferredTask::RenewSession(socket) => {
                let caller = socket.state().caller();
                let checked = self.chat().sessions().check(caller.as_ref().clone());
                // If the session has ended, its end handler closes the socket.
                checked.await.map(drop)
            }
            DeferredTask::ResendUnreadCounts(user) => self.resend_unread_counts(user).await,
        };
        if let Err(error) = result {
            debug!(%error, "deferred task failed");
        }
    }
}
