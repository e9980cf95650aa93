//! Start and shutdown of the server process.
//!
//! ```text
//! open store ────┐
//!                ├─ join the cluster (checks that both belong together) ─ ready: /readyz returns 200
//! open database ─┘
//! SIGTERM ─ drain requests ─ leave the cluster ─ close the database ─ flush the store ─ exit
//! ```
//!
//! Invariants:
//! 1. An unavailable Redis or PostgreSQL does not fail the start. The server retries until it is reachable; meanwhile
//!    `/readyz` returns 503 with the reason. Errors that a retry cannot fix (wrong password, locked folder, corrupt
//!    data, store of another database) stop the process at once.
//! 2. The shutdown takes at most [`SHUTDOWN_TIMEOUT`].
//! 3. The caller provides the listeners and the shutdown future, so a test controls both.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use parlor_chat::api::caller::Role;
use parlor_chat::database::{self, Database};
use parlor_chat::keys::Keyspace;
use parlor_chat::sessions::VisitorTokenIssuer;
use parlor_chat::{BackgroundTasks, Chat};
use parlor_store::{Store, StoreKind, StoreOpenError, StoreOptions, StoreUrl};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use crate::app_state::AppState;
use crate::auth::{Authenticator, TokenGrant};
use crate::config::Config;
use crate::socketio::SocketIoGateway;
use crate::{grpc, http, open_files};

/// Maximum duration of the shutdown.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Part of [`SHUTDOWN_TIMEOUT`] for open requests. Requests that are still running afterwards are aborted.
const REQUEST_DRAIN_TIMEOUT: Duration = Duration::from_secs(6);
/// Part of [`SHUTDOWN_TIMEOUT`] for the message to the other nodes that this node leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Part of [`SHUTDOWN_TIMEOUT`] for closing the database. The remaining time is for the flush of the store.
const DATABASE_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The delay before the n-th retry is n times this, up to [`MAX_RETRY_DELAY`].
const RETRY_BACKOFF_STEP: Duration = Duration::from_millis(50);
/// Maximum delay before a retry.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Whether the store or the database is open.
#[derive(Clone)]
pub enum Opening<T> {
    /// Not open yet, with the reason.
    Waiting(String),
    /// Open.
    Open(T),
}

/// The chat after this node has joined the cluster; until then the reason why it has not.
pub type ChatStartup = Result<Arc<Chat>, String>;

/// Progress of the start, for the gateways. Cloning copies pointers.
#[derive(Clone)]
pub struct StartupState {
    /// Store, or why it is not open yet.
    pub store: watch::Receiver<Opening<Store>>,
    /// Database, or why it is not open yet.
    pub database: watch::Receiver<Opening<Database>>,
    /// Chat, or why this node has not joined the cluster yet.
    pub chat: watch::Receiver<ChatStartup>,
}

/// Opens the store. If it is unavailable, returns the reason, and [`run_server`] retries.
pub async fn open_store(options: StoreOptions) -> anyhow::Result<Opening<Store>> {
    match Store::open(options.clone()).await {
        Ok(store) => Ok(Opening::Open(store)),
        Err(error) if is_retryable_open_error(&options, &error) => {
            Ok(Opening::Waiting(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the database. If it is unavailable, returns the reason, and [`run_server`] retries.
pub async fn open_database(
    options: database::DatabaseOptions,
) -> anyhow::Result<Opening<Database>> {
    match Database::open(options).await {
        Ok(database) => Ok(Opening::Open(database)),
        Err(error @ database::DatabaseOpenError::Unavailable { .. }) => {
            Ok(Opening::Waiting(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Parameters of [`run_server`].
pub struct ServerInit {
    /// Listener for HTTP and Socket.IO.
    pub http: TcpListener,
    /// Listener for gRPC; `None` if gRPC is off.
    pub grpc: Option<TcpListener>,
    /// Settings.
    pub config: Config,
    /// Verifies and issues tokens.
    pub authenticator: Authenticator,
    /// Store, or why it is not open yet.
    pub store: Opening<Store>,
    /// Database, or why it is not open yet.
    pub database: Opening<Database>,
}

/// Serves until `shutdown` completes, then drains requests, leaves the cluster, and closes database and store.
pub async fn run_server(
    start: ServerInit,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    open_files::raise_open_files_limit();
    let mut config = start.config;
    let identity = Arc::new(start.authenticator);
    config.chat.sessions.visitor_token_issuer = Some(visitor_token_issuer(&identity));
    let (opened, store) = watch::channel(start.store);
    let (opened_database, database) = watch::channel(start.database);
    let (joined, chat) = watch::channel(Err("this node has not joined the cluster yet".into()));
    let (stop, stopping) = watch::channel(false);
    let progress = StartupState {
        store,
        database,
        chat,
    };
    let app = AppState::new(identity, progress.clone(), stopping.clone(), &config);
    let router = http::router(app.clone(), &config.server.allowed_origins);
    let mut serving = JoinSet::new();
    let sockets =
        SocketIoGateway::create_server(app.clone(), config.socketio, config.server.node.as_str());
    let origins = &config.server.allowed_origins;
    let doors = http::HttpService::new(router, app.clone(), Arc::clone(&sockets), origins);
    serving.spawn(http::server::serve_http(start.http, doors, stopping));
    serving.spawn(SocketIoGateway::run(sockets));
    if let Some(listener) = start.grpc {
        serving.spawn(grpc::serve(listener, app));
    }
    let mut ticking = None;
    let ended = tokio::select! {
        () = shutdown => Ok(()),
        error = start_chat(&config, &opened, &opened_database, &joined, &mut ticking) => Err(error),
    };
    info!("stopping");
    let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
    stop.send_replace(true);
    drain_requests(&mut serving).await;
    // Dropped only now: open requests need the node's lease, which a background task renews.
    drop(ticking);
    let chat = progress.chat.borrow().clone();
    if let Ok(chat) = chat {
        leave_cluster(&chat).await;
    }
    let opening = progress.database.borrow().clone();
    if let Opening::Open(database) = opening
        && timeout(DATABASE_CLOSE_TIMEOUT, database.close())
            .await
            .is_err()
    {
        warn!("the database did not close in time; its connections were dropped");
    }
    let opening = progress.store.borrow().clone();
    if let Opening::Open(store) = opening
        && timeout_at(deadline, store.close()).await.is_err()
    {
        // Dropping the last handle would wait for the disk again, without a timeout.
        std::mem::forget(store);
        bail!(
            "the store was not flushed within {} s",
            SHUTDOWN_TIMEOUT.as_secs()
        );
    }
    info!("stopped");
    ended
}

/// Callback that signs the tokens of visitors.
fn visitor_token_issuer(identity: &Arc<Authenticator>) -> VisitorTokenIssuer {
    let identity = Arc::clone(identity);
    VisitorTokenIssuer::new(move |visitor, ttl| {
        let grant = TokenGrant {
            user: Some(visitor.clone()),
            name: None,
            role: Role::User,
            anonymous: true,
            ttl,
        };
        identity.issue(&grant).ok()
    })
}

/// Waits for open requests, then aborts those that exceed [`REQUEST_DRAIN_TIMEOUT`].
async fn drain_requests(serving: &mut JoinSet<()>) {
    let all = async { while serving.join_next().await.is_some() {} };
    if timeout(REQUEST_DRAIN_TIMEOUT, all).await.is_err() {
        warn!(
            "aborted requests that did not finish within {} s",
            REQUEST_DRAIN_TIMEOUT.as_secs()
        );
        serving.shutdown().await;
    }
}

/// Notifies the other nodes that this node leaves. If that fails, they notice when its lease expires.
async fn leave_cluster(chat: &Chat) {
    match timeout(LEAVE_TIMEOUT, chat.shut_down()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            warn!(
                %error,
                "could not notify the other nodes of the shutdown; they will notice when the lease expires"
            );
        }
        Err(_) => warn!(
            "could not notify the other nodes of the shutdown in time; they will notice when the lease expires"
        ),
    }
}

/// Opens store and database, joins the cluster, and then never completes. Returns only an error that a retry cannot
/// fix.
async fn start_chat(
    config: &Config,
    opened: &watch::Sender<Opening<Store>>,
    opened_database: &watch::Sender<Opening<Database>>,
    joined: &watch::Sender<ChatStartup>,
    ticking: &mut Option<BackgroundTasks>,
) -> anyhow::Error {
    let store = open_with_retry("store", opened, || open_store(config.store.options.clone()));
    let database = open_with_retry("database", opened_database, || {
        open_database(config.database.clone())
    });
    let (store, database) = match tokio::try_join!(store, database) {
        Ok(both) => both,
        Err(error) => return error,
    };
    let keys = match Keyspace::new(config.keys.clone(), store.kind() == StoreKind::Cluster) {
        Ok(keys) => keys,
        Err(error) => return error.into(),
    };
    let context = parlor_chat::context::ChatContext::new(store, keys);
    let chat = Arc::new(Chat::new(
        context,
        database,
        config.server.node.clone(),
        &config.chat,
    ));
    let mut attempt = 0;
    while let Err(error) = chat.start().await {
        use parlor_chat::api::error::Error::{StoreCopyIncomplete, StoreOfOtherDatabase};
        if matches!(
            error,
            StoreOfOtherDatabase { .. } | StoreCopyIncomplete { .. }
        ) {
            return error.into();
        }
        attempt += 1;
        let error = format!("{:#}", anyhow::Error::new(error));
        warn!(error, "this node cannot join the cluster; retrying");
        let reason = format!("this node cannot join the cluster: {error}");
        drop(joined.send_replace(Err(reason)));
        tokio::time::sleep((RETRY_BACKOFF_STEP * attempt).min(MAX_RETRY_DELAY)).await;
    }
    *ticking = Some(chat.start_background_tasks());
    drop(joined.send_replace(Ok(chat)));
    std::future::pending().await
}

/// Retries until the store or database is open. Fails only with an error that a retry cannot fix.
async fn open_with_retry<T: Clone, F>(
    what: &str,
    opened: &watch::Sender<Opening<T>>,
    open: impl Fn() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Opening<T>>>,
{
    let mut attempt = 0;
    loop {
        match &*opened.borrow() {
            Opening::Open(it) => {
                if attempt > 0 {
                    info!(attempt, "{what} is available");
                }
                return Ok(it.clone());
            }
            Opening::Waiting(reason) if attempt == 0 => {
                warn!(reason, "{what} is unavailable; retrying");
            }
            Opening::Waiting(_) => {}
        }
        attempt += 1;
        tokio::time::sleep((RETRY_BACKOFF_STEP * attempt).min(MAX_RETRY_DELAY)).await;
        opened.send_replace(open().await?);
    }
}

/// True if a retry may help: a Redis server does not answer. An error of the embedded store is in this process and
/// stays.
fn is_retryable_open_error(options: &StoreOptions, error: &StoreOpenError) -> bool {
    matches!(error, StoreOpenError::Unreachable { .. }) && options.url != StoreUrl::Embedded
}
