//! The life of a server: open store and database, join the other nodes, serve until told to stop, finish, leave, flush, end.
//!
//! Always true:
//! 1. A Redis or PostgreSQL that is merely away does not end the start: it is tried again for ever and `/readyz` says
//!    why. What trying again cannot mend (a wrong password, a locked folder, corrupt data, a store that was filled from
//!    another database) ends it at once.
//! 2. The end takes at most [`GRACE`]: first the open requests, then the leaving, the database, the flush of the store.
//! 3. Listener and shutdown are given from outside, so a test owns both.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use parlor_chat::access::Role;
use parlor_chat::chat::{Chat, Ticking};
use parlor_chat::database::{self, Database};
use parlor_chat::keys::Keyspace;
use parlor_chat::sessions::Issuer;
use parlor_store::{Kind, OpenError, Options, Store, StoreUrl};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use crate::app::App;
use crate::config::Config;
use crate::gateway::Gateway;
use crate::identity::{Grant, Identity};
use crate::{descriptors, grpc, http};

/// How long the end may take.
pub const GRACE: Duration = Duration::from_secs(10);
/// The part of [`GRACE`] that open requests may use, …
const GRACE_REQUESTS: Duration = Duration::from_secs(6);
/// … the part for telling the other nodes, …
const GRACE_LEAVE: Duration = Duration::from_secs(2);
/// … and the part for closing the database; the rest is the store's.
const GRACE_DATABASE: Duration = Duration::from_secs(1);
/// The pause before the n-th try to open what is away is n times this, …
const RETRY_STEP: Duration = Duration::from_millis(50);
/// … but at most this.
const RETRY_MOST: Duration = Duration::from_secs(2);

/// How far the opening of the store or the database has come.
#[derive(Clone)]
pub enum Opening<T> {
    /// Not open yet, and why.
    Waiting(String),
    /// Open.
    Open(T),
}

/// The chat, once this node has joined the others; before, why it has not.
pub type Joining = Result<Arc<Chat>, String>;

/// How far the start has come, as the gateways see it. Cloning copies pointers.
#[derive(Clone)]
pub struct Progress {
    /// The store.
    pub store: watch::Receiver<Opening<Store>>,
    /// The database.
    pub database: watch::Receiver<Opening<Database>>,
    /// The chat.
    pub chat: watch::Receiver<Joining>,
}

/// Opens the store. If it is away, the answer is `Waiting` and the opening goes on in [`run`].
pub async fn open(options: Options) -> anyhow::Result<Opening<Store>> {
    match Store::open(options.clone()).await {
        Ok(store) => Ok(Opening::Open(store)),
        Err(error) if is_away(&options, &error) => Ok(Opening::Waiting(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Opens the database, in the same way.
pub async fn open_database(options: database::Options) -> anyhow::Result<Opening<Database>> {
    match Database::open(options).await {
        Ok(database) => Ok(Opening::Open(database)),
        Err(error @ database::OpenError::Away { .. }) => Ok(Opening::Waiting(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// What a server is started with.
pub struct Start {
    /// Where HTTP is served.
    pub http: TcpListener,
    /// Where gRPC is served, if it is.
    pub grpc: Option<TcpListener>,
    /// The settings.
    pub config: Config,
    /// Who is let in.
    pub identity: Identity,
    /// The store, as far as it is open.
    pub opening: Opening<Store>,
    /// The database, as far as it is open.
    pub database: Opening<Database>,
}

/// Serves until `shutdown` ends, then finishes what is open, leaves the other nodes and closes the store.
pub async fn run(start: Start, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    descriptors::raise();
    let mut config = start.config;
    let identity = Arc::new(start.identity);
    config.chat.sessions.issuer = Some(visitors(&identity));
    let (opened, store) = watch::channel(start.opening);
    let (opened_database, database) = watch::channel(start.database);
    let (joined, chat) = watch::channel(Err("this node has not joined the others yet".into()));
    let (stop, stopping) = watch::channel(false);
    let progress = Progress {
        store,
        database,
        chat,
    };
    let app = App::new(identity, progress.clone(), stopping.clone(), &config);
    let router = http::router(app.clone(), &config.server.allowed_origins);
    let mut serving = JoinSet::new();
    let sockets = Gateway::server(app.clone(), config.gateway, config.server.node.as_str());
    let origins = &config.server.allowed_origins;
    let doors = http::Doors::new(router, app.clone(), Arc::clone(&sockets), origins);
    serving.spawn(http::connections::serve(start.http, doors, stopping));
    serving.spawn(Gateway::serve(sockets));
    if let Some(listener) = start.grpc {
        serving.spawn(grpc::serve(listener, app));
    }
    let mut ticking = None;
    let ended = tokio::select! {
        () = shutdown => Ok(()),
        error = join(&config, &opened, &opened_database, &joined, &mut ticking) => Err(error),
    };
    info!("stopping");
    let deadline = Instant::now() + GRACE;
    stop.send_replace(true);
    finish(&mut serving).await;
    // Not before: those who are still served count on the lease.
    drop(ticking);
    let chat = progress.chat.borrow().clone();
    if let Ok(chat) = chat {
        leave(&chat).await;
    }
    let opening = progress.database.borrow().clone();
    if let Opening::Open(database) = opening
        && timeout(GRACE_DATABASE, database.close()).await.is_err()
    {
        warn!("the database still had work to do and was left");
    }
    let opening = progress.store.borrow().clone();
    if let Opening::Open(store) = opening
        && timeout_at(deadline, store.close()).await.is_err()
    {
        // The end of the last handle would wait for the disk once more, and for as long as it takes.
        std::mem::forget(store);
        bail!("the store was not flushed within {} s", GRACE.as_secs());
    }
    info!("stopped");
    ended
}

/// Signs the tokens of visitors.
fn visitors(identity: &Arc<Identity>) -> Issuer {
    let identity = Arc::clone(identity);
    Issuer::new(move |visitor, ttl| {
        let grant = Grant {
            user: Some(visitor.clone()),
            name: None,
            role: Role::User,
            anonymous: true,
            ttl,
        };
        identity.issue(&grant).ok()
    })
}

/// Waits for the open requests.
async fn finish(serving: &mut JoinSet<()>) {
    let all = async { while serving.join_next().await.is_some() {} };
    if timeout(GRACE_REQUESTS, all).await.is_err() {
        warn!(
            "some requests did not end within {} s and were cut",
            GRACE_REQUESTS.as_secs()
        );
        serving.shutdown().await;
    }
}

/// Leaves the other nodes. Where that fails they find out by the lease.
async fn leave(chat: &Chat) {
    match timeout(GRACE_LEAVE, chat.stop()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%error, "the other nodes were not told of the end"),
        Err(_) => warn!("the other nodes could not be told of the end in time"),
    }
}

/// Opens store and database and joins the other nodes, then waits for ever. Returns only with an error that trying again
/// cannot mend.
async fn join(
    config: &Config,
    opened: &watch::Sender<Opening<Store>>,
    opened_database: &watch::Sender<Opening<Database>>,
    joined: &watch::Sender<Joining>,
    ticking: &mut Option<Ticking>,
) -> anyhow::Error {
    let store = keep_opening("store", opened, || open(config.store.options.clone()));
    let database = keep_opening("database", opened_database, || {
        open_database(config.database.clone())
    });
    let (store, database) = match tokio::try_join!(store, database) {
        Ok(both) => both,
        Err(error) => return error,
    };
    let keys = match Keyspace::new(config.keys.clone(), store.kind() == Kind::Cluster) {
        Ok(keys) => keys,
        Err(error) => return error.into(),
    };
    let context = parlor_chat::context::Context::new(store, keys);
    let chat = Arc::new(Chat::new(
        context,
        database,
        config.server.node.clone(),
        &config.chat,
    ));
    let mut attempt = 0;
    while let Err(error) = chat.start().await {
        use parlor_chat::error::Error::{OtherDatabase, UnfinishedCopy};
        if matches!(error, OtherDatabase { .. } | UnfinishedCopy { .. }) {
            return error.into();
        }
        attempt += 1;
        let error = format!("{:#}", anyhow::Error::new(error));
        warn!(error, "this node cannot join the others; trying again");
        let reason = format!("this node cannot join the others: {error}");
        drop(joined.send_replace(Err(reason)));
        tokio::time::sleep((RETRY_STEP * attempt).min(RETRY_MOST)).await;
    }
    *ticking = Some(chat.tick());
    drop(joined.send_replace(Ok(chat)));
    std::future::pending().await
}

/// Tries until it is open. Fails only with an error that trying again cannot mend.
async fn keep_opening<T: Clone, F>(
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
                    info!(attempt, "the {what} is there");
                }
                return Ok(it.clone());
            }
            Opening::Waiting(reason) if attempt == 0 => {
                warn!(reason, "the {what} is away; trying again");
            }
            Opening::Waiting(_) => {}
        }
        attempt += 1;
        tokio::time::sleep((RETRY_STEP * attempt).min(RETRY_MOST)).await;
        opened.send_replace(open().await?);
    }
}

/// True if trying again may help: somebody else's server does not answer. There is nobody to wait for in this process.
fn is_away(options: &Options, error: &OpenError) -> bool {
    matches!(error, OpenError::Away { .. }) && options.url != StoreUrl::Embedded
}
