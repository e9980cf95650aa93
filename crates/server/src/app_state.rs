//! State shared by the gateways: authentication, rate limiting, and the chat that runs the operations.
//!
//! Invariants:
//! 1. Until store and database are open and the node has joined the cluster, an operation returns its reply without a
//!    store or fails; `/readyz` returns the reason.
//! 2. A gateway runs an operation only for a caller from [`AppState::admit_request`], or from
//!    [`AppState::recheck_caller`] on a connection that is already authenticated.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use parlor_chat::Chat;
use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::api::error::Error;
use parlor_chat::api::operation::{AuthRequirement, Operation};
use parlor_chat::ids::DeviceId;
use parlor_chat::limits::RateLimitDecision;
use parlor_chat::sessions::{ConnectionRegistration, Ended, SessionEndWaiter};
use tokio::sync::watch;

use crate::api_error::ApiError;
use crate::auth::{self, Authenticator};
use crate::client_address::{PeerAddress, TrustedProxies};
use crate::config::Config;
use crate::database_breaker::DatabaseBreaker;
use crate::lifecycle::StartupState;
use crate::rate_limit::{self, RequestRateLimiter};
use crate::readiness::{self, Readiness};

/// State of the running server for the gateways. Cloning copies pointers.
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

/// Result of rate limiting and authorizing a request.
#[derive(Debug)]
pub struct Admission {
    /// Rate limit state after this request; `None` if the request was not counted.
    pub rate_limit: Option<RateLimitDecision>,
    /// Authorized caller, or the error to return.
    pub caller: Result<Caller, ApiError>,
}

/// Credentials and client address of a request.
#[derive(Debug, Clone)]
pub struct RequestCredentials<'a> {
    /// Value of the `Authorization` header, or an error if the header is not text.
    pub authorization: Result<Option<&'a str>, ApiError>,
    /// User that a service acts for, or an error if the header is not text.
    pub acting_user: Result<Option<&'a str>, ApiError>,
    /// Client address, if known.
    pub client_address: Option<IpAddr>,
}

impl AppState {
    /// Creates the shared state.
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

    /// Client address of a request, behind trusted proxies.
    pub fn client_address(
        &self,
        peer: Option<&PeerAddress>,
        headers: &HeaderMap,
    ) -> Option<IpAddr> {
        peer.map(|peer| self.proxies.client_address(peer.0, headers))
    }

    /// Counts a request against the rate limit and authorizes its caller as the operation requires.
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
            Some(Ok(caller)) => rate_limit::limiter_id_of_caller(caller),
            Some(Err(_)) | None => shown
                .client_address
                .and_then(rate_limit::limiter_id_of_address),
        };
        let chat = self.chat().ok();
        let quota = match &budget {
            Some(budget) => Some(self.rate_limiter.count(chat.as_deref(), budget).await),
            None => None,
        };
        let caller = match (&quota, known) {
            (Some(verdict), _) if !verdict.allowed => Err(rate_limit::refusal(verdict)),
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

    /// Verifies the token in the `Authorization` header.
    async fn authenticate(&self, shown: &RequestCredentials<'_>) -> Result<Caller, ApiError> {
        let token = auth::parse_bearer_token(shown.authorization.clone()?)?;
        self.verified(token, shown.client_address).await
    }

    /// Verifies a token. Does not count a request and does not check the session.
    pub async fn verified(&self, token: &str, address: Option<IpAddr>) -> Result<Caller, ApiError> {
        let mut caller = self.authenticator.verify(token).await?;
        caller.ip_address = address;
        Ok(caller)
    }

    /// Checks the session of a connected caller again. Optionally counts one request of the user first.
    pub async fn recheck_caller(&self, caller: &Caller, counted: bool) -> Result<Caller, ApiError> {
        if counted && let Some(budget) = rate_limit::limiter_id_of_caller(caller) {
            let chat = self.chat().ok();
            let verdict = self.rate_limiter.count(chat.as_deref(), &budget).await;
            if !verdict.allowed {
                return Err(rate_limit::refusal(&verdict));
            }
        }
        self.check_session(caller.clone()).await
    }

    /// Admits a long-lived connection: continues the caller's session or begins one. The handler is called when the
    /// session ends.
    pub async fn admit_connection(
        &self,
        caller: Caller,
        device: Option<&DeviceId>,
        ended: Ended,
    ) -> Result<(Caller, Option<ConnectionRegistration>), ApiError> {
        let chat = self.chat()?;
        let entered = pin!(chat.sessions().admit_connection(caller, device, ended));
        let ping = || chat.database().ping();
        self.database_breaker.run_with_probe(ping, entered).await
    }

    /// The chat; an error until this node has joined the cluster.
    pub fn chat(&self) -> Result<Arc<Chat>, ApiError> {
        let joining = self.startup.chat.borrow().clone();
        joining.map_err(|_| Error::StoreNotOpen.into())
    }

    /// Waits until this node has joined the cluster.
    pub async fn wait_for_chat(&self) -> Arc<Chat> {
        let mut joining = self.startup.chat.clone();
        loop {
            if let Ok(chat) = &*joining.borrow_and_update() {
                return Arc::clone(chat);
            }
            if joining.changed().await.is_err() {
                // The sender is gone because the start failed. The process is about to exit.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Runs an operation. Until this node has joined the cluster, returns the operation's reply without a store.
    pub async fn run_operation<O: Operation>(
        &self,
        caller: &Caller,
        operation: O,
    ) -> Result<O::Reply, ApiError> {
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

    /// Waiter for the end of the caller's session; a stream must end when it completes. `None` for a service, and until
    /// this node has joined the cluster.
    pub async fn session_end_waiter(
        &self,
        caller: &Caller,
    ) -> Result<Option<SessionEndWaiter>, ApiError> {
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

    /// Checks the caller's session and applies its rights. Until this node has joined the cluster there is nothing to
    /// check, because operations only return their reply without a store.
    pub async fn check_session(&self, caller: Caller) -> Result<Caller, ApiError> {
        match self.chat() {
            Ok(chat) => {
                let checked = pin!(chat.sessions().check(caller));
                let ping = || chat.database().ping();
                self.database_breaker.run_with_probe(ping, checked).await
            }
            Err(_) => Ok(caller),
        }
    }

    /// Waits for the shutdown to begin; streams and connections must end then.
    pub async fn wait_for_shutdown(&self) {
        // A dropped sender also means shutdown.
        let _ = self.shutdown.clone().wait_for(|stopping| *stopping).await;
    }

    /// True once the shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        *self.shutdown.borrow()
    }

    /// Remaining lifetime of the caller's token; a stream must end when it is over.
    pub fn token_time_left(&self, caller: &Caller) -> Duration {
        self.authenticator.token_time_left(caller)
    }

    /// Readiness of store, database and node. A node that is shutting down is not ready.
    pub async fn readiness(&self) -> Readiness {
        let mut readiness = readiness::ask(&self.startup, self.readiness_timeouts).await;
        if self.is_shutting_down() {
            readiness.node = Err("this node is shutting down".into());
        }
        readiness
    }
}

fn resolve_acting_user(caller: Caller, shown: &RequestCredentials<'_>) -> Result<Caller, ApiError> {
    match shown.acting_user.clone()? {
        Some(user) => Ok(caller.on_behalf_of(user)?),
        None => Ok(caller),
    }
}
