//! What is to be done for sockets after they went, or while they are idle.
//!
//! Always true: a socket has at most a few errands waiting, so there are never many more than sockets; each is done once, or
//! by the end of the node.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use parlor_chat::ids::UserId;
use tokio::sync::mpsc;
use tracing::debug;

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

    async fn run_errand(&self, errand: Errand) {
        let presence = self.chat().presence();
        let done = match &errand {
            Errand::Lose(socket) => {
                let state = socket.state();
                let _presence = state.presence.lock().await;
                // It may have come back.
                let gone = state.detached.load(Ordering::Acquire) || state.inner.lock().over;
                match gone {
                    true => presence.lose(&state.device).await,
                    false => Ok(()),
                }
            }
            Errand::Leave(socket) => {
                let _presence = socket.state().presence.lock().await;
                presence.leave(&socket.state().device).await
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
