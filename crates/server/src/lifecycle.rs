//! The life of a server: open the store, serve until told to stop, finish, flush, end.
//!
//! Always true:
//! 1. A Redis that is merely away does not end the start: it is tried again for ever and `/readyz` says why.
//!    What trying again cannot mend (a wrong password, a locked folder, corrupt data) ends it at once.
//! 2. The end takes at most [`GRACE`]: first the open requests, then the flush of the store.
//! 3. Listener and shutdown are given from outside, so a test owns both.

use std::future::Future;
use std::time::Duration;

use anyhow::Context;
use parlor_store::{OpenError, Options, Store, StoreUrl};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use crate::http;

/// How long the end may take.
pub const GRACE: Duration = Duration::from_secs(10);
/// The part of [`GRACE`] that open requests may use; the rest is the store's.
const GRACE_REQUESTS: Duration = Duration::from_secs(7);
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

/// Serves on `listener` until `shutdown` ends, then finishes what is open and closes the store.
pub async fn run(
    listener: TcpListener,
    options: Options,
    opening: Opening,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let (opened, store) = watch::channel(opening);
    let parts = http::Parts {
        store: store.clone(),
        timeout: options.timeout,
    };
    let (stop, stopping) = watch::channel(false);
    let serving = http::connections::serve(listener, http::router(parts), stopping);
    let mut serving = tokio::spawn(serving);
    let ended = tokio::select! {
        () = shutdown => Ok(()),
        error = keep_opening(&options, &opened) => Err(anyhow::Error::new(error)),
    };
    info!("stopping");
    let deadline = Instant::now() + GRACE;
    stop.send_replace(true);
    if timeout(GRACE_REQUESTS, &mut serving).await.is_err() {
        warn!(
            "some requests did not end within {} s and were cut",
            GRACE_REQUESTS.as_secs()
        );
        serving.abort();
    }
    let opening = store.borrow().clone();
    if let Opening::Open(store) = opening {
        let late = || format!("the store was not flushed within {} s", GRACE.as_secs());
        timeout_at(deadline, store.close())
            .await
            .with_context(late)?;
    }
    info!("stopped");
    ended
}

/// Tries until the store is open, then waits for ever. Returns only with an error that trying again cannot mend.
async fn keep_opening(options: &Options, opened: &watch::Sender<Opening>) -> OpenError {
    let mut attempt = 0;
    while matches!(*opened.borrow(), Opening::Waiting(_)) {
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
            Err(error) => return error,
        }
    }
    std::future::pending().await
}

/// True if trying again may help: somebody else's server does not answer. There is nobody to wait for in this process.
fn is_away(options: &Options, error: &OpenError) -> bool {
    matches!(error, OpenError::Away { .. }) && options.url != StoreUrl::Embedded
}
