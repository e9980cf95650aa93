//! A JSON Web Key Set that follows its issuer.
//!
//! Always true:
//! 1. There is one fetch at a time, and [`RETRY_MS`] between the starts of two, however many unknown keys are named.
//! 2. A fetch is a task of its own and runs to its end even if the caller who caused it goes away, so nobody can use up the
//!    turns of others. Those who only wait for it leave nothing behind.
//! 3. A fetch that fails changes no key. It is logged once, until one succeeds.
//! 4. Keys older than [`REFRESH_MS`] are fetched anew with the next token. If they are twice as old, it and all that come
//!    meanwhile wait for that, so a key the issuer has withdrawn does not come back to life on a node that was idle. Where
//!    fetches fail, only the first caller after such a time waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tracing::{info, warn};

use super::claims::Claims;
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
    /// True while a fetch is going on.
    fetching: watch::Sender<bool>,
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
            fetching: watch::Sender::new(false),
            failing: AtomicBool::new(false),
            tried: AtomicU64::new(now),
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
            (Err(error), Location::File(_)) => Err(error.into()),
            _ => Ok(set),
        }
    }

    /// The claims of a token that one of the keys has signed.
    pub(super) async fn verify(
        self: &Arc<Self>,
        jwt: &Jwt<'_>,
        now: u64,
    ) -> Result<Claims, AuthError> {
        self.keep_fresh(now).await;
        let unsigned = |found: &Result<Claims, AuthError>| {
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

    fn try_keys(&self, jwt: &Jwt<'_>) -> Result<Claims, AuthError> {
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
        let (age, idle) = (since(&self.fetched), since(&self.tried));
        let trusting = idle < 2 * REFRESH_MS && self.failing.load(Ordering::Relaxed);
        if age >= 2 * REFRESH_MS && !trusting {
            self.refresh(now).await;
        } else if age >= REFRESH_MS {
            self.begin(now);
        }
    }

    /// Waits for a fetch that is going on; begins one if it is time.
    async fn refresh(self: &Arc<Self>, now: u64) {
        self.begin(now);
        // The sender lives as long as this set does.
        let _ = self.fetching.subscribe().wait_for(|going| !going).await;
    }

    /// Begins a fetch if it is time and none is going on.
    fn begin(self: &Arc<Self>, now: u64) {
        let begins = self.fetching.send_if_modified(|going| {
            let waits = now.abs_diff(self.tried.load(Ordering::Relaxed)) < RETRY_MS;
            let begins = !*going && !waits;
            *going |= begins;
            begins
        });
        if begins {
            self.tried.store(now, Ordering::Relaxed);
            let turn = Turn(Arc::clone(self));
            tokio::spawn(async move {
                let _ = turn.0.fetch(now).await;
            });
        }
    }

    async fn fetch(&self, now: u64) -> Result<(), FetchError> {
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

/// A fetch that is going on: whatever ends it, those who wait for it are told.
struct Turn(Arc<KeySet>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetching.send_replace(false);
    }
}
