//! The life of a server: open the store, join the other nodes, serve until told to stop, finish, leave, flush, end.
//!
//! Always true:
//! 1. A Redis that is merely away does not end the start: it is tried again for ever and `/readyz` says why.
//!    What trying again cannot mend (a wrong password, a locked folder, corrupt data) ends it at once.
//! 2. The end takes at most [`GRACE`]: first the open requests, then the leaving, then the flush of the store.
//! 3. Listener and shutdown are given from outside, so a test owns both.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use parlor_chat::chat::{Chat, Ticking};
use parlor_chat::database::{self, Database};
use parlor_chat::keys::Keyspace;
use parlor_store::{Kind, OpenError, Options, Store, StoreUrl};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use crate::app::App;
use crate::config::Config;
use crate::identity::Identity;
use crate::{grpc, http};

/// How long the end may take.
pub const GRACE: Duration = Duration::from_secs(10);
/// The part of [`GRACE`] that open requests may use, …
const GRACE_REQUESTS: Duration = Duration::from_secs(6);
/// … and the part for telling the other nodes; the rest is the store's.
const GRACE_LEAVE: Duration = Duration::from_secs(2);
/// The pause before the n-th try to open a store that is away is n times this, …
const RETRY_STEP: Duration = Duration::from_millis(50);
/// … but at most this.
const RETRY_MOST: Duration = Duration::from_secs(2);

/// How far the opening of the store has come.
#[derive(Clone)]
pub enum Opening {
    /// Not open yet, and why.
    Waiting(String),
    /// Open.
    Open(Store),
}

/// The chat, once this node has joined the others; before, why it has not.
pub type Joining = Result<Arc<Chat>, String>;

/// Opens the store. If it is away, the answer is `Waiting` and the opening goes on in [`run`].
pub async fn open(options: &Options) -> Result<Opening, OpenError> {
    match Store::open(options.clone()).await {
        Ok(store) => Ok(Opening::Open(store)),
        Err(error) if is_away(options, &error) => {
            warn!(%error, "the store is away; trying again");
            Ok(Opening::Waiting(error.to_string()))
        }
        Err(error) => Err(error),
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
    pub opening: Opening,
}

/// Serves until `shutdown` ends, then finishes what is open, leaves the other nodes and closes the store.
pub async fn run(start: Start, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    let config = start.config;
    let (opened, store) = watch::channel(start.opening);
    let (joined, chat) = watch::channel(Err("this node has not joined the others yet".into()));
    let (stop, stopping) = watch::channel(false);
    let app = App::new(
        Arc::new(start.identity),
        store.clone(),
        chat.clone(),
        stopping.clone(),
        config.store.options.timeout,
    );
    let router = http::router(app.clone(), &config.server.allowed_origins);
    let mut serving = JoinSet::new();
    serving.spawn(http::connections::serve(start.http, router, stopping));
    if let Some(listener) = start.grpc {
        serving.spawn(grpc::serve(listener, app));
    }
    let mut ticking = None;
    let ended = tokio::select! {
        () = shutdown => Ok(()),
        error = join(&config, &opened, &joined, &mut ticking) => Err(error),
    };
    info!("stopping");
    let deadline = Instant::now() + GRACE;
    stop.send_replace(true);
    finish(&mut serving).await;
    // Not before: those who are still served count on the lease.
    drop(ticking);
    let chat = chat.borrow().clone();
    if let Ok(chat) = chat {
        leave(&chat).await;
        chat.database().close().await;
    }
    let opening = store.borrow().clone();
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

/// Opens the store and joins the other nodes, then waits for ever. Returns only with an error that trying again cannot mend.
async fn join(
    config: &Config,
    opened: &watch::Sender<Opening>,
    joined: &watch::Sender<Joining>,
    ticking: &mut Option<Ticking>,
) -> anyhow::Error {
    let store = match keep_opening(&config.store.options, opened).await {
        Ok(store) => store,
        Err(error) => return error.into(),
    };
    let keys = match Keyspace::new(config.keys.clone(), store.kind() == Kind::Cluster) {
        Ok(keys) => keys,
        Err(error) => return error.into(),
    };
    let database = match keep_opening_database(&config.database, joined).await {
        Ok(database) => database,
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
        if matches!(error, parlor_chat::error::Error::OtherDatabase { .. }) {
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

/// Tries until the store is open. Fails only with an error that trying again cannot mend.
async fn keep_opening(
    options: &Options,
    opened: &watch::Sender<Opening>,
) -> Result<Store, OpenError> {
    let mut attempt = 0;
    loop {
        if let Opening::Open(store) = &*opened.borrow() {
            return Ok(store.clone());
        }
        attempt += 1;
        tokio::time::sleep((RETRY_STEP * attempt).min(RETRY_MOST)).await;
        match Store::open(options.clone()).await {
            Ok(store) => {
                info!(attempt, "the store is there");
                opened.send_replace(Opening::Open(store));
            }
            Err(error) if is_away(options, &error) => {
                opened.send_replace(Opening::Waiting(error.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Tries until the database is open. Fails only with an error that trying again cannot mend.
async fn keep_opening_database(
    options: &database::Options,
    joined: &watch::Sender<Joining>,
) -> Result<Database, database::OpenError> {
    let mut attempt = 0;
    loop {
        match Database::open(options.clone()).await {
            Err(error @ database::OpenError::Away { .. }) => {
                attempt += 1;
                warn!(%error, "the database is away; trying again");
                drop(joined.send_replace(Err(error.to_string())));
                tokio::time::sleep((RETRY_STEP * attempt).min(RETRY_MOST)).await;
            }
            opened => return opened,
        }
    }
}

/// True if trying again may help: somebody else's server does not answer. There is nobody to wait for in this process.
fn is_away(options: &Options, error: &OpenError) -> bool {
    matches!(error, OpenError::Away { .. }) && options.url != StoreUrl::Embedded
}
