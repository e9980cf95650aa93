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
use parlor_chat::limits::RateLimitDecision;
use parlor_chat::operation::{AuthRequirement, Operation};
use parlor_chat::sessions::{ConnectionRegistration, Ended, SessionEndWaiter};
use tokio::sync::watch;

use crate::address::{PeerAddress, TrustedProxies};
use crate::config::Config;
use crate::identity::{self, Authenticator};
use crate::lifecycle::StartupState;
use crate::outage::DatabaseBreaker;
use crate::quota::{self, RequestRateLimiter};
use crate::readiness::{self, Readiness};
use crate::wire::Refusal;

/// The running server as the gateways see it. Cloning copies pointers.
#[derive(Clone)]
pub struct AppState {
    authenticator: Arc<Authenticator>,
    proxies: TrustedProxies,
    rate_limiter: Arc<RequestRateLimiter>,
    database_breaker: Arc<DatabaseBreaker>,
    startup: StartupState,
    shutdown: watch::Receiver<bool>,
    readiness_timeouts: readiness::ReadinessTimeouts,
}

/// How a request was received.
#[derive(Debug)]
pub struct Admission {
    /// What is left of the budget it was counted in; none if it was not counted.
    pub rate_limit: Option<RateLimitDecision>,
    /// Who calls, or why they may not.
    pub caller: Result<Caller, Refusal>,
}

/// What a request shows of its caller.
#[derive(Debug, Clone)]
pub struct RequestCredentials<'a> {
    /// The `Authorization` header, or why it cannot be read.
    pub authorization: Result<Option<&'a str>, Refusal>,
    /// The user whom a service names, or why that cannot be read.
    pub acting_user: Result<Option<&'a str>, Refusal>,
    /// Where it comes from.
    pub client_address: Option<IpAddr>,
}

impl AppState {
    /// Puts the parts together.
    pub fn new(
        authenticator: Arc<Authenticator>,
        startup: StartupState,
        shutdown: watch::Receiver<bool>,
        config: &Config,
    ) -> Self {
        Self {
            authenticator,
            proxies: config.server.trusted_proxies.clone(),
            rate_limiter: Arc::new(RequestRateLimiter::new(config.request_limit)),
            database_breaker: Arc::default(),
            startup,
            shutdown,
            readiness_timeouts: readiness::ReadinessTimeouts::new(config),
        }
    }

    /// Where a request comes from.
    pub fn client_address(
        &self,
        peer: Option<&PeerAddress>,
        headers: &HeaderMap,
    ) -> Option<IpAddr> {
        peer.map(|peer| self.proxies.client_address(peer.0, headers))
    }

    /// Counts a request and lets its caller in if they show what an operation needs.
    pub async fn admit_request(
        &self,
        shown: &RequestCredentials<'_>,
        needs: AuthRequirement,
    ) -> Admission {
        let known = match needs {
            AuthRequirement::None => None,
            AuthRequirement::Session | AuthRequirement::Token => {
                Some(self.authenticate(shown).await)
            }
        };
        let budget = match &known {
            Some(Ok(caller)) => quota::limiter_id_of_caller(caller),
            Some(Err(_)) | None => shown.client_address.and_then(quota::limiter_id_of_address),
        };
        let chat = self.chat().ok();
        let quota = match &budget {
            Some(budget) => Some(self.rate_limiter.count(chat.as_deref(), budget).await),
            None => None,
        };
        let caller = match (&quota, known) {
            (Some(verdict), _) if !verdict.allowed => Err(quota::refusal(verdict)),
            (_, Some(known)) => match known.and_then(|caller| resolve_acting_user(caller, shown)) {
                Ok(caller) if needs == AuthRequirement::Session => self.check_session(caller).await,
                known => known,
            },
            (_, None) => Ok(Caller::stranger(shown.client_address)),
        };
        Admission {
            rate_limit: quota,
            caller,
        }
    }

    /// Who calls, by their token.
    async fn authenticate(&self, shown: &RequestCredentials<'_>) -> Result<Caller, Refusal> {
        let token = identity::parse_bearer_token(shown.authorization.clone()?)?;
        self.verified(token, shown.client_address).await
    }

    /// Who shows this token. Nothing is counted, and no session is asked for.
    pub async fn verified(&self, token: &str, address: Option<IpAddr>) -> Result<Caller, Refusal> {
        let mut caller = self.authenticator.verify(token).await?;
        caller.ip_address = address;
        Ok(caller)
    }

    /// Lets a caller in once more who was let in before and has stayed. `counted` takes one place of their budget.
    pub async fn recheck_caller(&self, caller: &Caller, counted: bool) -> Result<Caller, Refusal> {
        if counted && let Some(budget) = quota::limiter_id_of_caller(caller) {
            let chat = self.chat().ok();
            let verdict = self.rate_limiter.count(chat.as_deref(), &budget).await;
            if !verdict.allowed {
                return Err(quota::refusal(&verdict));
            }
        }
        self.check_session(caller.clone()).await
    }

    /// Lets a caller in who comes to stay: their session goes on, or one begins. `ended` is called when it has to end.
    pub async fn admit_connection(
        &self,
        caller: Caller,
        device: Option<&DeviceId>,
        ended: Ended,
    ) -> Result<(Caller, Option<ConnectionRegistration>), Refusal> {
        let chat = self.chat()?;
        let entered = pin!(chat.sessions().admit_connection(caller, device, ended));
        let ping = || chat.database().ping();
        self.database_breaker.run_with_probe(ping, entered).await
    }

    /// The chat, once this node has joined the others.
    pub fn chat(&self) -> Result<Arc<Chat>, Refusal> {
        let joining = self.startup.chat.borrow().clone();
        joining.map_err(|_| Error::StoreNotOpen.into())
    }

    /// Waits until this node has joined the others.
    pub async fn wait_for_chat(&self) -> Arc<Chat> {
        let mut joining = self.startup.chat.clone();
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
    pub async fn run_operation<O: Operation>(
        &self,
        caller: &Caller,
        operation: O,
    ) -> Result<O::Reply, Refusal> {
        let joining = self.startup.chat.borrow().clone();
        match joining {
            Ok(chat) => {
                let ping = || chat.database().ping();
                let reply = pin!(operation.run(&chat, caller));
                match O::WRITES_DATABASE {
                    true => self.database_breaker.probe_then_run(ping, reply).await,
                    false => self.database_breaker.run_with_probe(ping, reply).await,
                }
            }
            Err(_) => Ok(operation.run_without_store()?),
        }
    }

    /// What tells when the caller's session ends: what goes on for ever has to end then. A service has none.
    pub async fn session_end_waiter(
        &self,
        caller: &Caller,
    ) -> Result<Option<SessionEndWaiter>, Refusal> {
        let joining = self.startup.chat.borrow().clone();
        match joining {
            Ok(chat) if caller.role != Role::Service => {
                let attached = pin!(chat.sessions().wait_for_session_end(caller, None));
                let ping = || chat.database().ping();
                Ok(Some(
                    self.database_breaker.run_with_probe(ping, attached).await?,
                ))
            }
            _ => Ok(None),
        }
    }

    /// The caller as their session allows. Before there is a chat, nothing is answered but what needs none.
    pub async fn check_session(&self, caller: Caller) -> Result<Caller, Refusal> {
        match self.chat() {
            Ok(chat) => {
                let checked = pin!(chat.sessions().check(caller));
                let ping = || chat.database().ping();
                self.database_breaker.run_with_probe(ping, checked).await
            }
            Err(_) => Ok(caller),
        }
    }

    /// Ends when the server is about to end: what goes on for ever has to end then.
    pub async fn wait_for_shutdown(&self) {
        // A sender that is gone has ended, too.
        let _ = self.shutdown.clone().wait_for(|stopping| *stopping).await;
    }

    /// Whether the server is about to end.
    pub fn is_shutting_down(&self) -> bool {
        *self.shutdown.borrow()
    }

    /// How long the caller's token still counts: what goes on for ever has to end then.
    pub fn token_time_left(&self, caller: &Caller) -> Duration {
        self.authenticator.token_time_left(caller)
    }

    /// Whether store and database answer and the node has joined and is to stay, or why not.
    pub async fn readiness(&self) -> Readiness {
        let mut readiness = readiness::ask(&self.startup, self.readiness_timeouts).await;
        if self.is_shutting_down() {
            readiness.node = Err("this node is shutting down".into());
        }
        readiness
    }
}

fn resolve_acting_user(caller: Caller, shown: &RequestCredentials<'_>) -> Result<Caller, Refusal> {
    match shown.acting_user.clone()? {
        Some(user) => Ok(caller.on_behalf_of(user)?),
        None => Ok(caller),
    }
}
