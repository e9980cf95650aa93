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
use super::{Gateway, Socket};

/// Errands that are run at a time: a bus that comes back makes one for each user.
const AT_ONCE: usize = 64;

/// Something to be done.
pub(super) enum Errand {
    /// The connection is lost: the device has the grace time.
    Lose(Arc<Socket>),
    /// The client said goodbye: the device is gone.
    Leave(Arc<Socket>),
    /// The user is here and asks for nothing: the session goes on.
    Renew(Arc<Socket>),
    /// News of what waits for a user may have been missed.
    Recount(UserId),
}

/// The errands that wait.
pub(super) struct Errands {
    put: mpsc::UnboundedSender<Errand>,
    take: Mutex<Option<mpsc::UnboundedReceiver<Errand>>>,
}

impl Default for Errands {
    fn default() -> Self {
        let (put, take) = mpsc::unbounded_channel();
        let take = Mutex::new(Some(take));
        Self { put, take }
    }
}

impl Errands {
    pub(super) fn add(&self, errand: Errand) {
        // When the node ends, nobody takes them any more.
        let _ = self.put.send(errand);
    }
}

impl Gateway {
    /// Runs the errands, for as long as it is polled.
    pub(super) async fn run_errands(self: Arc<Self>) {
        let Some(take) = self.errands.take.lock().take() else {
            return;
        };
        let errands = stream::unfold(take, |mut take| async {
            let errand = take.recv().await?;
            Some((errand, take))
        });
        let each = |errand| self.run_errand(errand);
        errands.for_each_concurrent(AT_ONCE, each).await;
    }

    /// Where a user has another socket here by the name of the same device, as the tabs of a browser may, the device is
    /// that one's from now on: what is told of the one that went is no news then.
    async fn hand_over(&self, from: &Arc<Socket>) {
        let state = from.state();
        let cast_out = matches!(
            state.inner.lock().closed,
            Some(ClosedReason::Blocked | ClosedReason::Logout | ClosedReason::Replaced)
        );
        let holds = || self.chat().presence().holds(&state.device);
        if cast_out || !state.is_gone() || !holds() {
            return;
        }
        for other in state.person.sockets() {
            let to = other.state();
            if Arc::ptr_eq(&other, from) || to.device.id != state.device.id {
                continue;
            }
            let telling = to.telling();
            let _telling = telling.lock().await;
            if !to.is_gone() {
                let connected = self.chat().presence().connect(Arc::clone(&to.device)).await;
                // While the store is away it is remembered.
                let error = connected.err().filter(|error| !error.is_away());
                debug!(?error, "a device goes on by another socket");
                return;
            }
        }
    }

    async fn run_errand(&self, errand: Errand) {
        let presence = self.chat().presence();
        if let Errand::Lose(socket) | Errand::Leave(socket) = &errand {
            self.hand_over(socket).await;
        }
        let done = match &errand {
            Errand::Lose(socket) => {
                let state = socket.state();
                let telling = state.telling();
                let _telling = telling.lock().await;
                // It may have come back.
                match state.is_gone() {
                    true => presence.lose(&state.device).await,
                    false => Ok(()),
                }
            }
            Errand::Leave(socket) => {
                let state = socket.state();
                let telling = state.telling();
                let _telling = telling.lock().await;
                presence.leave(&state.device).await
            }
            Errand::Renew(socket) => {
                let caller = socket.state().caller();
                let checked = self.chat().sessions().check(caller.as_ref().clone());
                // If it is over, whoever looks after sessions closes the socket.
                checked.await.map(drop)
            }
            Errand::Recount(user) => self.recount(user).await,
        };
        if let Err(error) = done {
            debug!(%error, "an errand of a socket failed");
        }
    }
}
