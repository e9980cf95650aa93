//! What is to be done for sockets after they went, or while they are idle.
//!
//! Always true: a socket has at most a few errands waiting, so there are never many more than sockets; each is done once, or
//! by the end of the node.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use parlor_chat::ids::UserId;
use tokio::sync::mpsc;
use tracing::debug;

use super::words::ClosedReason;
use super::{GatewaySocket, SocketIoGateway};

/// Errands that are run at a time: a bus that comes back makes one for each user.
const MAX_CONCURRENT_TASKS: usize = 64;

/// Something to be done.
pub(super) enum DeferredTask {
    /// The connection is lost: the device has the grace time.
    ConnectionLost(Arc<GatewaySocket>),
    /// The client said goodbye: the device is gone.
    CleanDisconnect(Arc<GatewaySocket>),
    /// The user is here and asks for nothing: the session goes on.
    RenewSession(Arc<GatewaySocket>),
    /// News of what waits for a user may have been missed.
    ResendUnreadCounts(UserId),
}

/// The errands that wait.
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
        // When the node ends, nobody takes them any more.
        let _ = self.sender.send(errand);
    }
}

impl SocketIoGateway {
    /// Runs the errands, for as long as it is polled.
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

    /// Where a user has another socket here by the name of the same device, as the tabs of a browser may, the device is
    /// that one's from now on: what is told of the one that went is no news then.
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
                // While the store is away it is remembered.
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
                // It may have come back.
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
                // If it is over, whoever looks after sessions closes the socket.
                checked.await.map(drop)
            }
            DeferredTask::ResendUnreadCounts(user) => self.resend_unread_counts(user).await,
        };
        if let Err(error) = done {
            debug!(%error, "deferred task failed");
        }
    }
}
