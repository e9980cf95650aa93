//! What the gateways share: who calls, and the chat they talk to.
//!
//! Always true:
//! 1. Until store and database are open and the node has joined the others, an operation answers what it can without
//!    them, or is refused; `/readyz` says why.
//! 2. Nobody runs an operation before [`App::admit`] has let them in for it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use parlor_chat::access::Caller;
use parlor_chat::operation::{Needs, Operation};
use tokio::sync::watch;

use crate::address::{Peer, Proxies};
use crate::config::Config;
use crate::identity::{self, Identity};
use crate::lifecycle::Progress;
use crate::readiness::{self, Readiness};
use crate::wire::Refusal;

/// The running server as the gateways see it. Cloning copies pointers.
#[derive(Clone)]
pub struct App {
    identity: Arc<Identity>,
    proxies: Proxies,
    progress: Progress,
    stopping: watch::Receiver<bool>,
    timeouts: readiness::Timeouts,
}

/// What a request shows of its caller.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The `Authorization` header.
    pub authorization: Option<&'a str>,
    /// The user whom a service names.
    pub acting_for: Option<&'a str>,
    /// Where it comes from.
    pub address: Option<IpAddr>,
}

impl App {
    /// Puts the parts together.
    pub fn new(
        identity: Arc<Identity>,
        progress: Progress,
        stopping: watch::Receiver<bool>,
        config: &Config,
    ) -> Self {
        Self {
            identity,
            proxies: config.server.trusted_proxies.clone(),
            progress,
            stopping,
            timeouts: readiness::Timeouts::new(config),
        }
    }

    /// Where a request comes from.
    pub fn address(&self, peer: Option<&Peer>, headers: &HeaderMap) -> Option<IpAddr> {
        peer.map(|peer| self.proxies.caller(peer.0, headers))
    }

    /// Lets a caller in who shows what an operation needs.
    pub async fn admit(&self, shown: &Shown<'_>, needs: Needs) -> Result<Caller, Refusal> {
        if needs == Needs::Nothing {
            return Ok(Caller::stranger(shown.address));
        }
        let token = identity::bearer(shown.authorization)?;
        let mut caller = self.identity.verify(token).await?;
        caller.address = shown.address;
        match shown.acting_for {
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
        let joining = self.progress.chat.borrow().clone();
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

    /// Whether store and database answer and the node has joined and is to stay, or why not.
    pub async fn readiness(&self) -> Readiness {
        let mut readiness = readiness::ask(&self.progress, self.timeouts).await;
        if self.is_stopping() {
            readiness.node = Err("this node is about to end".into());
        }
        readiness
    }
}
