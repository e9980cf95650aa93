//! A JSON Web Key Set that follows its issuer.
//!
//! Always true:
//! 1. There is one fetch at a time, and [`RETRY_MS`] between the starts of two, however many unknown keys are named.
//! 2. A fetch runs to its end even if the caller who caused it goes away, so nobody can use up the turns of others.
//! 3. A fetch that fails changes no key. It is logged once, until one succeeds.
//! 4. Keys older than [`REFRESH_MS`] are fetched anew with the next token, which waits for it only if nothing was tried for
//!    twice as long; so a key the issuer has withdrawn does not come back to life on a node that was idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::config::{Location, PublicAlgorithm};
use super::error::{AuthError, FetchError, LoadError};
use super::fetch::Fetcher;
use super::keys::{self, NamedKey};
use super::signature::Jwt;

/// The least time between two fetches, in milliseconds.
pub(super) const RETRY_MS: u64 = 30_000;
/// The age at which keys are fetched anew, in milliseconds.
pub(super) const REFRESH_MS: u64 = 600_000;
/// A time that is far from every other.
const NEVER: u64 = u64::MAX;

/// The keys of an issuer.
pub(super) struct KeySet {
    fetcher: Fetcher,
    algorithm: PublicAlgorithm,
    keys: ArcSwap<Vec<NamedKey>>,
    fetching: Mutex<()>,
    failing: AtomicBool,
    /// When the last fetch began, and when the last one that succeeded did.
    tried: AtomicU64,
    fetched: AtomicU64,
}

impl KeySet {
    /// Fetches the keys. An address that does not answer is tried again with the first token; a file must be right.
    pub(super) async fn open(
        fetcher: Fetcher,
        algorithm: PublicAlgorithm,
        now: u64,
    ) -> Result<Arc<Self>, LoadError> {
        let set = Arc::new(Self {
            fetcher,
            algorithm,
            keys: ArcSwap::default(),
            fetching: Mutex::new(()),
            failing: AtomicBool::new(false),
            tried: AtomicU64::new(NEVER),
            fetched: AtomicU64::new(NEVER),
        });
        match (set.fetch(now).await, set.fetcher.location()) {
            (Err(FetchError::Io(source)), Location::File(path)) => Err(LoadError::File {
                path: path.clone(),
                action: "read",
                source,
            }),
            (Err(FetchError::Key(source)), Location::File(_)) => Err(LoadError::Key {
                setting: "auth.jwks",
                source,
            }),
            _ => Ok(set),
        }
    }

    /// The claims of a token that one of the keys has signed.
    pub(super) async fn verify(
        self: &Arc<Self>,
        jwt: &Jwt<'_>,
        now: u64,
    ) -> Result<Value, AuthError> {
        self.keep_fresh(now).await;
        let unsigned = |found: &Result<Value, AuthError>| {
            matches!(found, Err(AuthError::Signature | AuthError::UnknownKey))
        };
        let found = self.try_keys(jwt);
        if !unsigned(&found) || self.knows(jwt) {
            return found;
        }
        self.refresh(now).await;
        let found = self.try_keys(jwt);
        // A key that was not fetched may be the right one.
        if unsigned(&found) && !self.knows(jwt) && self.failing.load(Ordering::Relaxed) {
            return Err(AuthError::KeysUnavailable);
        }
        found
    }

    /// True if the token names a key of the set, so that a newer set cannot change the verdict.
    fn knows(&self, jwt: &Jwt<'_>) -> bool {
        let named = |key: &NamedKey| key.id.is_some() && key.id.as_deref() == jwt.key_id();
        self.keys.load().iter().any(named)
    }

    fn try_keys(&self, jwt: &Jwt<'_>) -> Result<Value, AuthError> {
        let keys = self.keys.load();
        let fits = |key: &&NamedKey| {
            jwt.key_id().is_none() || key.id.is_none() || key.id.as_deref() == jwt.key_id()
        };
        let mut fitting = keys.iter().filter(fits).map(|key| &key.key).peekable();
        if fitting.peek().is_none() {
            return Err(AuthError::UnknownKey);
        }
        jwt.signed_by(fitting)
    }

    async fn keep_fresh(self: &Arc<Self>, now: u64) {
        let since = |time: &AtomicU64| now.abs_diff(time.load(Ordering::Relaxed));
        let idle = since(&self.tried);
        if since(&self.fetched) >= REFRESH_MS && idle >= RETRY_MS {
            let task = self.spawn(now);
            if idle >= 2 * REFRESH_MS {
                let _ = task.await;
            }
        }
    }

    /// Waits for a fetch that is going on, or begins one if it is time.
    async fn refresh(self: &Arc<Self>, now: u64) {
        let waits = now.abs_diff(self.tried.load(Ordering::Relaxed)) < RETRY_MS;
        if waits && self.fetching.try_lock().is_ok() {
            return;
        }
        // An error would be a panic in the fetch; the keys are then what they were.
        let _ = self.spawn(now).await;
    }

    fn spawn(self: &Arc<Self>, now: u64) -> JoinHandle<()> {
        let set = Arc::clone(self);
        tokio::spawn(async move {
            let _ = set.fetch(now).await;
        })
    }

    async fn fetch(&self, now: u64) -> Result<(), FetchError> {
        let _one = self.fetching.lock().await;
        if now.abs_diff(self.tried.load(Ordering::Relaxed)) < RETRY_MS {
            return Ok(());
        }
        self.tried.store(now, Ordering::Relaxed);
        let found = self.fetcher.fetch().await;
        let found = found.and_then(|bytes| Ok(keys::from_set(&bytes, self.algorithm)?));
        let from = self.fetcher.location();
        match found {
            Ok(keys) => {
                if self.failing.swap(false, Ordering::Relaxed) {
                    info!(%from, "the key set can be fetched again");
                }
                self.keys.store(Arc::new(keys));
                self.fetched.store(now, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    let kept = self.keys.load().len();
                    warn!(%from, %error, kept, "the key set cannot be fetched; the keys that are known stay in use");
                }
                Err(error)
            }
        }
    }
}
