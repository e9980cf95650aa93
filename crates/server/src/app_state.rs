//! State shared by the gateways: authentication, rate limiting, and the chat that runs the operations.
//!
//! Invariants:
//! 1. Until store and database are open and the node has joined the cluster, an operation returns its reply without a
//!    store or fails; `/readyz` returns the reason.
//! 2. A gateway runs an operation only for a caller from [`AppState::admit_request`], or from
//!    [`AppState::recheck_caller`] on a connection that is already authenticated.

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::HeaderMap;
use parlor_chat::Chat;
use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::api::error::{Error, Result as ChatResult};
use parlor_chat::api::operation::{AuthRequirement, Operation};
use parlor_chat::ids::{DeviceId, LimiterId};
use parlor_chat::limits::RateLimitDecision;
use parlor_chat::sessions::{ConnectionRegistration, SessionEndHandler, SessionEndWaiter};
use tokio::sync::watch;

use crate::api_error::ApiError;
use crate::auth::{self, Authenticator};
use crate::client_address::{PeerAddress, TrustedProxies};
use crate::config::Config;
use crate::database_breaker::DatabaseBreaker;
use crate::lifecycle::StartupState;
use crate::rate_limit::{self, RequestRateLimiter};
use crate::readiness::{self, NotReady, Readiness};

/// State of the running server for the gateways. Cloning copies pointers.
#[derive(Clone)]
pub struct AppState {
    authenticator: Arc<Authenticator>,
    proxies: TrustedProxies,
    rate_limiter: Arc<RequestRateLimiter>,
    database_breaker: Arc<DatabaseBreaker>,
    startup: StartupState,
    /// The chat, once this node has joined the cluster.
    chat: Arc<OnceLock<Arc<Chat>>>,
    shutdown: watch::Receiver<bool>,
    store_timeout: Duration,
    database_timeout: Duration,
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
            chat: Arc::default(),
            shutdown,
            store_timeout: config.store.request_timeout,
            database_timeout: config.database.timeout,
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
        credentials: &RequestCredentials<'_>,
        required: AuthRequirement,
    ) -> Admission {
        let address = credentials.client_address;
        let authenticated = match required {
            AuthRequirement::None => None,
            AuthRequirement::Session | AuthRequirement::Token => {
                Some(self.authenticate(credentials).await)
            }
        };
        let limiter_id = match &authenticated {
            Some(Ok(caller)) => rate_limit::limiter_id_of_caller(caller),
            Some(Err(_)) | None => address.and_then(rate_limit::limiter_id_of_address),
        };
        let rate_limit = match &limiter_id {
            Some(id) => Some(self.count_request(id).await),
            None => None,
        };
        let caller = match (&rate_limit, authenticated) {
            (Some(decision), _) if !decision.allowed => Err(rate_limit_error(decision)),
            (_, Some(Ok(caller))) => match credentials
                .acting_user
                .clone()
                .and_then(|user| resolve_acting_user(caller, user))
            {
                Ok(caller) if required == AuthRequirement::Session => {
                    self.check_session(caller).await
                }
                resolved => resolved,
            },
            (_, Some(error)) => error,
            (_, None) => Ok(Caller::unauthenticated(address)),
        };
        Admission { rate_limit, caller }
    }

    async fn count_request(&self, id: &LimiterId) -> RateLimitDecision {
        let chat = self.chat().ok();
        self.rate_limiter
            .count_request(chat.map(Arc::as_ref), id)
            .await
    }

    /// Verifies the token in the `Authorization` header.
    async fn authenticate(&self, credentials: &RequestCredentials<'_>) -> Result<Caller, ApiError> {
        let token = auth::parse_bearer_token(credentials.authorization.clone()?)?;
        self.verify_token(token, credentials.client_address).await
    }

    /// Verifies a token. Does not count a request and does not check the session.
    pub async fn verify_token(
        &self,
        token: &str,
        address: Option<IpAddr>,
    ) -> Result<Caller, ApiError> {
        let mut caller = self.authenticator.verify(token).await?;
        caller.ip_address = address;
        Ok(caller)
    }

    /// Checks the session of a connected caller again. Optionally counts one request of the user first.
    pub async fn recheck_caller(
        &self,
        caller: &Caller,
        is_rate_limited: bool,
    ) -> Result<Caller, ApiError> {
        if is_rate_limited && let Some(id) = rate_limit::limiter_id_of_caller(caller) {
            let decision = self.count_request(&id).await;
            if !decision.allowed {
                return Err(rate_limit_error(&decision));
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
        handler: Arc<dyn SessionEndHandler>,
    ) -> Result<(Caller, Option<ConnectionRegistration>), ApiError> {
        let chat = self.chat()?;
        let admitted = pin!(chat.sessions().admit_connection(caller, device, handler));
        self.run_with_breaker(chat, admitted).await
    }

    /// The chat; an error until this node has joined the cluster.
    pub fn chat(&self) -> Result<&Arc<Chat>, Error> {
        if let Some(chat) = self.chat.get() {
            return Ok(chat);
        }
        let started = self.startup.chat.borrow().clone();
        let chat = started.map_err(|_| Error::StoreNotOpen)?;
        Ok(self.chat.get_or_init(|| chat))
    }

    /// Runs work that only reads the database, through the circuit breaker.
    fn run_with_breaker<'a, T>(
        &'a self,
        chat: &'a Chat,
        work: Pin<&'a mut impl Future<Output = ChatResult<T>>>,
    ) -> impl Future<Output = Result<T, ApiError>> {
        let ping = move || chat.database().ping();
        self.database_breaker.run_with_probe(ping, work)
    }

    /// Waits until this node has joined the cluster.
    pub async fn wait_for_chat(&self) -> Arc<Chat> {
        let mut startup = self.startup.chat.clone();
        loop {
            if let Ok(chat) = &*startup.borrow_and_update() {
                return Arc::clone(chat);
            }
            if startup.changed().await.is_err() {
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
        let Ok(chat) = self.chat() else {
            return Ok(operation.run_without_store()?);
        };
        let reply = pin!(operation.run(chat, caller));
        if O::WRITES_DATABASE {
            let ping = || chat.database().ping();
            return self.database_breaker.probe_then_run(ping, reply).await;
        }
        self.run_with_breaker(chat, reply).await
    }

    /// Waiter for the end of the caller's session; a stream must end when it completes. `None` for a service, and until
    /// this node has joined the cluster.
    pub async fn session_end_waiter(
        &self,
        caller: &Caller,
    ) -> Result<Option<SessionEndWaiter>, ApiError> {
        match self.chat() {
            Ok(chat) if caller.role != Role::Service => {
                let waiter = pin!(chat.sessions().wait_for_session_end(caller, None));
                self.run_with_breaker(chat, waiter).await.map(Some)
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
                self.run_with_breaker(chat, checked).await
            }
            Err(_) => Ok(caller),
        }
    }

    /// Waits for the shutdown to begin; streams and connections must end then.
    pub async fn wait_for_shutdown(&self) {
        wait_for_shutdown(self.shutdown.clone()).await;
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
        let mut readiness =
            readiness::check_readiness(&self.startup, self.store_timeout, self.database_timeout)
                .await;
        if self.is_shutting_down() {
            readiness.node = Err(NotReady::not_started("this node is shutting down".into()));
        }
        readiness
    }
}

/// Waits until the shutdown flag is set or its sender is dropped.
pub(crate) async fn wait_for_shutdown(mut shutdown: watch::Receiver<bool>) {
    let _ = shutdown
        .wait_for(|is_shutting_down| *is_shutting_down)
        .await;
}

/// The caller, acting for the user that the request names, if it names one.
pub(crate) fn resolve_acting_user(caller: Caller, user: Option<&str>) -> Result<Caller, ApiError> {
    match user {
        Some(user) => Ok(caller.on_behalf_of(user)?),
        None => Ok(caller),
    }
}

fn rate_limit_error(decision: &RateLimitDecision) -> ApiError {
    ApiError::rate_limited(decision.retry_after_ms.unwrap_or(decision.reset_ms))
}
