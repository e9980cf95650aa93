//! What the gateways share: who calls, and the chat they talk to.
//!
//! Always true:
//! 1. Until store and database are open and the node has joined the others, an operation answers what it can without
//!    them, or is refused; `/readyz` says why.
//! 2. Nobody runs an operation before [`App::admit`] has let them in for it.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use parlor_chat::access::{Caller, Role};
use parlor_chat::chat::Chat;
use parlor_chat::error::Error;
use parlor_chat::ids::DeviceId;
use parlor_chat::limits::Verdict;
use parlor_chat::operation::{Needs, Operation};
use parlor_chat::sessions::{Attached, Attachment, Ended};
use tokio::sync::watch;

use crate::address::{Peer, Proxies};
use crate::config::Config;
use crate::identity::{self, Identity};
use crate::lifecycle::Progress;
use crate::outage::Outage;
use crate::quota::{self, Quota};
use crate::readiness::{self, Readiness};
use crate::wire::Refusal;

/// The running server as the gateways see it. Cloning copies pointers.
#[derive(Clone)]
pub struct App {
    identity: Arc<Identity>,
    proxies: Proxies,
    quota: Arc<Quota>,
    outage: Arc<Outage>,
    progress: Progress,
    stopping: watch::Receiver<bool>,
    timeouts: readiness::Timeouts,
}

/// How a request was received.
#[derive(Debug)]
pub struct Admission {
    /// What is left of the budget it was counted in; none if it was not counted.
    pub quota: Option<Verdict>,
    /// Who calls, or why they may not.
    pub caller: Result<Caller, Refusal>,
}

/// What a request shows of its caller.
#[derive(Debug, Clone)]
pub struct Shown<'a> {
    /// The `Authorization` header, or why it cannot be read.
    pub authorization: Result<Option<&'a str>, Refusal>,
    /// The user whom a service names, or why that cannot be read.
    pub acting_for: Result<Option<&'a str>, Refusal>,
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
            quota: Arc::new(Quota::new(config.calls)),
            outage: Arc::default(),
            progress,
            stopping,
            timeouts: readiness::Timeouts::new(config),
        }
    }

    /// Where a request comes from.
    pub fn address(&self, peer: Option<&Peer>, headers: &HeaderMap) -> Option<IpAddr> {
        peer.map(|peer| self.proxies.caller(peer.0, headers))
    }

    /// Counts a request and lets its caller in if they show what an operation needs.
    pub async fn admit(&self, shown: &Shown<'_>, needs: Needs) -> Admission {
        let known = match needs {
            Needs::Nothing => None,
            Needs::Session | Needs::Token => Some(self.known(shown).await),
        };
        let budget = match &known {
            Some(Ok(caller)) => quota::of_caller(caller),
            Some(Err(_)) | None => shown.address.and_then(quota::of_address),
        };
        let chat = self.chat().ok();
        let quota = match &budget {
            Some(budget) => Some(self.quota.count(chat.as_deref(), budget).await),
            None => None,
        };
        let caller = match (&quota, known) {
            (Some(verdict), _) if !verdict.allowed => Err(quota::refusal(verdict)),
            (_, Some(known)) => match known.and_then(|caller| for_whom(caller, shown)) {
                Ok(caller) if needs == Needs::Session => self.with_session(caller).await,
                known => known,
            },
            (_, None) => Ok(Caller::stranger(shown.address)),
        };
        Admission { quota, caller }
    }

    /// Who calls, by their token.
    async fn known(&self, shown: &Shown<'_>) -> Result<Caller, Refusal> {
        let token = identity::bearer(shown.authorization.clone()?)?;
        self.verified(token, shown.address).await
    }

    /// Who shows this token. Nothing is counted, and no session is asked for.
    pub async fn verified(&self, token: &str, address: Option<IpAddr>) -> Result<Caller, Refusal> {
        let mut caller = self.identity.verify(token).await?;
        caller.address = address;
        Ok(caller)
    }

    /// Lets a caller in once more who was let in before and has stayed. `counted` takes one place of their budget.
    pub async fn readmit(&self, caller: &Caller, counted: bool) -> Result<Caller, Refusal> {
        if counted && let Some(budget) = quota::of_caller(caller) {
            let chat = self.chat().ok();
            let verdict = self.quota.count(chat.as_deref(), &budget).await;
            if !verdict.allowed {
                return Err(quota::refusal(&verdict));
            }
        }
        self.with_session(caller.clone()).await
    }

    /// Lets a caller in who comes to stay: their session goes on, or one begins. `ended` is called when it has to end.
    pub async fn enter(
        &self,
        caller: Caller,
        device: Option<&DeviceId>,
        ended: Ended,
    ) -> Result<(Caller, Option<Attachment>), Refusal> {
        let chat = self.chat()?;
        let entered = pin!(chat.sessions().enter(caller, device, ended));
        let ping = || chat.database().ping();
        self.outage.bounded(ping, entered).await
    }

    /// The chat, once this node has joined the others.
    pub fn chat(&self) -> Result<Arc<Chat>, Refusal> {
        let joining = self.progress.chat.borrow().clone();
        joining.map_err(|_| Error::StoreNotOpen.into())
    }

    /// Waits until this node has joined the others.
    pub async fn joined(&self) -> Arc<Chat> {
        let mut joining = self.progress.chat.clone();
        loop {
            if let Ok(chat) = &*joining.borrow_and_update() {
                return Arc::clone(chat);
            }
            if joining.changed().await.is_err() {
                // The start has failed; the process ends.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Runs an operation.
    pub async fn run<O: Operation>(
        &self,
        caller: &Caller,
        operation: O,
    ) -> Result<O::Reply, Refusal> {
        let joining = self.progress.chat.borrow().clone();
        match joining {
            Ok(chat) => {
                let ping = || chat.database().ping();
                let reply = pin!(operation.run(&chat, caller));
                match O::CHANGES_ROWS {
                    true => self.outage.asked_first(ping, reply).await,
                    false => self.outage.bounded(ping, reply).await,
                }
            }
            Err(_) => Ok(operation.without_store()?),
        }
    }

    /// What tells when the caller's session ends: what goes on for ever has to end then. A service has none.
    pub async fn attached(&self, caller: &Caller) -> Result<Option<Attached>, Refusal> {
        let joining = self.progress.chat.borrow().clone();
        match joining {
            Ok(chat) if caller.role != Role::Service => {
                let attached = pin!(chat.sessions().attach(caller, None));
                let ping = || chat.database().ping();
                Ok(Some(self.outage.bounded(ping, attached).await?))
            }
            _ => Ok(None),
        }
    }

    /// The caller as their session allows. Before there is a chat, nothing is answered but what needs none.
    pub async fn with_session(&self, caller: Caller) -> Result<Caller, Refusal> {
        match self.chat() {
            Ok(chat) => {
                let checked = pin!(chat.sessions().check(caller));
                let ping = || chat.database().ping();
                self.outage.bounded(ping, checked).await
            }
            Err(_) => Ok(caller),
        }
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

fn for_whom(caller: Caller, shown: &Shown<'_>) -> Result<Caller, Refusal> {
    match shown.acting_for.clone()? {
        Some(user) => Ok(caller.acting_for(user)?),
        None => Ok(caller),
    }
}
