//! What the gateways share: who calls, and the chat they talk to.
//!
//! Always true: until the store is open and the node has joined the others, an operation answers what it can without a
//! store, or is refused with `store_unavailable`; `/readyz` says why.

use std::sync::Arc;
use std::time::Duration;

use parlor_chat::access::Caller;
use parlor_chat::operation::Operation;
use tokio::sync::watch;

use crate::identity::{self, Identity};
use crate::lifecycle::{Joining, Opening};
use crate::wire::Refusal;

/// The running server as the gateways see it. Cloning copies pointers.
#[derive(Clone)]
pub struct App {
    identity: Arc<Identity>,
    store: watch::Receiver<Opening>,
    chat: watch::Receiver<Joining>,
    stopping: watch::Receiver<bool>,
    timeout: Duration,
}

impl App {
    /// Puts the parts together. `timeout` is how long the store may take to answer.
    pub fn new(
        identity: Arc<Identity>,
        store: watch::Receiver<Opening>,
        chat: watch::Receiver<Joining>,
        stopping: watch::Receiver<bool>,
        timeout: Duration,
    ) -> Self {
        Self {
            identity,
            store,
            chat,
            stopping,
            timeout,
        }
    }

    /// Who calls, by the `Authorization` header, for the user that a service names.
    pub async fn caller(
        &self,
        authorization: Option<&str>,
        acting_for: Option<&str>,
    ) -> Result<Caller, Refusal> {
        let token = identity::bearer(authorization)?;
        let caller = self.identity.verify(token).await?;
        match acting_for {
            Some(user) => Ok(caller.acting_for(user)?),
            None => Ok(caller),
        }
    }

    /// Runs an operation.
    pub async fn run<O: Operation>(
        &self,
        caller: &Caller,
        operation: O,
    ) -> Result<O::Reply, Refusal> {
        let joining = self.chat.borrow().clone();
        let reply = match joining {
            Ok(chat) => operation.run(&chat, caller).await,
            Err(_) => operation.without_store(),
        };
        Ok(reply?)
    }

    /// Ends when the server is about to end: what goes on for ever has to end then.
    pub async fn stopping(&self) {
        // A sender that is gone has ended, too.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    /// Whether the server is about to end.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// How long the caller's token still counts: what goes on for ever has to end then.
    pub fn time_left(&self, caller: &Caller) -> Duration {
        self.identity.time_left(caller)
    }

    /// Whether the store answers and the node has joined and is to stay, or why not.
    pub async fn ready(&self) -> Result<(), String> {
        if self.is_stopping() {
            return Err("this node is about to end".into());
        }
        let opening = self.store.borrow().clone();
        let mut store = match opening {
            Opening::Open(store) => store,
            Opening::Waiting(reason) => return Err(reason),
        };
        let ping = redis::cmd("PING");
        match tokio::time::timeout(self.timeout, ping.query_async::<String>(&mut store)).await {
            Ok(Ok(_)) => self.chat.borrow().clone().map(drop),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!(
                "the store did not answer within {} ms",
                self.timeout.as_millis()
            )),
        }
    }
}
