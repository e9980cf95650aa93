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
use parlor_chat::api::error::Error;
use parlor_chat::context::ChatContext;
use parlor_chat::database::{Database, DatabaseOpenError, DatabaseOptions};
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

/// A part of the server that is open, or the reason why it is not open yet.
pub type StartupResult<T> = Result<T, String>;

/// Progress of the start, for the gateways. Cloning copies pointers.
#[derive(Clone)]
pub struct StartupState {
    /// Store.
    pub store: watch::Receiver<StartupResult<Store>>,
    /// Database.
    pub database: watch::Receiver<StartupResult<Database>>,
    /// Chat, after this node has joined the cluster.
    pub chat: watch::Receiver<StartupResult<Arc<Chat>>>,
}

/// Opens the store. If it is unavailable, returns the reason, and [`run_server`] retries.
pub async fn open_store(options: StoreOptions) -> anyhow::Result<StartupResult<Store>> {
    match Store::open(options.clone()).await {
        Ok(store) => Ok(Ok(store)),
        Err(error) if is_retryable_open_error(&options, &error) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Opens the database. If it is unavailable, returns the reason, and [`run_server`] retries.
pub async fn open_database(options: DatabaseOptions) -> anyhow::Result<StartupResult<Database>> {
    match Database::open(options).await {
        Ok(database) => Ok(Ok(database)),
        Err(error @ DatabaseOpenError::Unavailable { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Parameters of [`run_server`].
pub struct ServerInit {
    /// Listener for HTTP and Socket.IO.
    pub http_listener: TcpListener,
    /// Listener for gRPC; `None` if gRPC is off.
    pub grpc_listener: Option<TcpListener>,
    /// Settings.
    pub config: Config,
    /// Verifies and issues tokens.
    pub authenticator: Authenticator,
    /// Store, or why it is not open yet.
    pub store: StartupResult<Store>,
    /// Database, or why it is not open yet.
    pub database: StartupResult<Database>,
}

/// Serves until `shutdown` completes, then drains requests, leaves the cluster, and closes database and store.
pub async fn run_server(
    init: ServerInit,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    open_files::raise_open_files_limit();
    let mut config = init.config;
    let authenticator = Arc::new(init.authenticator);
    config.chat.sessions.visitor_token_issuer = Some(visitor_token_issuer(&authenticator));
    let (store_sender, store) = watch::channel(init.store);
    let (database_sender, database) = watch::channel(init.database);
    let (chat_sender, chat) =
        watch::channel(Err("this node has not joined the cluster yet".into()));
    let (shutdown_sender, shutting_down) = watch::channel(false);
    let startup = StartupState {
        store,
        database,
        chat,
    };
    let app = AppState::new(
        authenticator,
        startup.clone(),
        shutting_down.clone(),
        &config,
    );
    let socketio = SocketIoGateway::create_server(
        app.clone(),
        config.socketio.clone(),
        config.server.node.as_str(),
    );
    let origins = &config.server.allowed_origins;
    let http = http::HttpService::new(app.clone(), Arc::clone(&socketio), origins);
    let mut gateways = JoinSet::new();
    let handle_request = move |request| http.clone().handle_request(request);
    gateways.spawn(http::server::serve_http(
        init.http_listener,
        handle_request,
        shutting_down,
    ));
    gateways.spawn(SocketIoGateway::run(socketio));
    if let Some(listener) = init.grpc_listener {
        gateways.spawn(grpc::serve(listener, app));
    }
    let mut background_tasks = None;
    let result = tokio::select! {
        () = shutdown => Ok(()),
        error = start_chat(&config, &store_sender, &database_sender, &chat_sender, &mut background_tasks) => Err(error),
    };
    info!("stopping");
    let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
    shutdown_sender.send_replace(true);
    drain_requests(&mut gateways).await;
    // Dropped only now: open requests need the node's lease, which a background task renews.
    drop(background_tasks);
    let chat = startup.chat.borrow().clone();
    if let Ok(chat) = chat {
        leave_cluster(&chat).await;
    }
    let database = startup.database.borrow().clone();
    if let Ok(database) = database
        && timeout(DATABASE_CLOSE_TIMEOUT, database.close())
            .await
            .is_err()
    {
        warn!("the database did not close in time; its connections were dropped");
    }
    let store = startup.store.borrow().clone();
    if let Ok(store) = store
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
    result
}

/// Callback that signs the tokens of visitors.
fn visitor_token_issuer(authenticator: &Arc<Authenticator>) -> VisitorTokenIssuer {
    let authenticator = Arc::clone(authenticator);
    VisitorTokenIssuer::new(move |visitor, ttl| {
        let grant = TokenGrant {
            user: Some(visitor.clone()),
            name: None,
            role: Role::User,
            anonymous: true,
            ttl,
        };
        authenticator.issue(&grant).ok()
    })
}

/// Waits for open requests, then aborts those that exceed [`REQUEST_DRAIN_TIMEOUT`].
async fn drain_requests(gateways: &mut JoinSet<()>) {
    let all = async { while gateways.join_next().await.is_some() {} };
    if timeout(REQUEST_DRAIN_TIMEOUT, all).await.is_err() {
        warn!(
            "aborted requests that did not finish within {} s",
            REQUEST_DRAIN_TIMEOUT.as_secs()
        );
        gateways.shutdown().await;
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
    store_sender: &watch::Sender<StartupResult<Store>>,
    database_sender: &watch::Sender<StartupResult<Database>>,
    chat_sender: &watch::Sender<StartupResult<Arc<Chat>>>,
    background_tasks: &mut Option<BackgroundTasks>,
) -> anyhow::Error {
    let store = open_with_retry("store", store_sender, || open_store(config.store.clone()));
    let database = open_with_retry("database", database_sender, || {
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
    let context = ChatContext::new(store, keys);
    let node = config.server.node.clone();
    let chat = Arc::new(Chat::new(context, database, node, &config.chat));
    let mut attempt = 0;
    while let Err(error) = chat.start().await {
        if let Error::StoreOfOtherDatabase { .. }
        | Error::StoreOfNewerVersion { .. }
        | Error::StoreCopyIncomplete { .. } = error
        {
            return error.into();
        }
        attempt += 1;
        let error = format!("{:#}", anyhow::Error::new(error));
        warn!(error, "this node cannot join the cluster; retrying");
        let reason = format!("this node cannot join the cluster: {error}");
        drop(chat_sender.send_replace(Err(reason)));
        tokio::time::sleep(retry_delay(attempt)).await;
    }
    *background_tasks = Some(chat.start_background_tasks());
    drop(chat_sender.send_replace(Ok(chat)));
    std::future::pending().await
}

/// Retries until the store or database is open. Fails only with an error that a retry cannot fix.
async fn open_with_retry<T: Clone, F>(
    name: &str,
    sender: &watch::Sender<StartupResult<T>>,
    open: impl Fn() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<StartupResult<T>>>,
{
    let mut attempt = 0;
    loop {
        match &*sender.borrow() {
            Ok(opened) => {
                if attempt > 0 {
                    info!(attempt, "{name} is available");
                }
                return Ok(opened.clone());
            }
            Err(reason) if attempt == 0 => warn!(reason, "{name} is unavailable; retrying"),
            Err(_) => {}
        }
        attempt += 1;
        tokio::time::sleep(retry_delay(attempt)).await;
        drop(sender.send_replace(open().await?));
    }
}

fn retry_delay(attempt: u32) -> Duration {
    (RETRY_BACKOFF_STEP * attempt).min(MAX_RETRY_DELAY)
}

/// True if a retry may help: a Redis server does not answer. An error of the embedded store is in this process and
/// stays.
fn is_retryable_open_error(options: &StoreOptions, error: &StoreOpenError) -> bool {
    matches!(error, StoreOpenError::Unreachable { .. }) && options.url != StoreUrl::Embedded
}
