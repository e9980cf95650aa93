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

use super::claims::TokenClaims;
use super::config::{JwksLocation, PublicAlgorithm};
use super::error::{AuthError, AuthLoadError, KeySetFetchError};
use super::fetch::KeySetFetcher;
use super::keys::{self, JwksKey};
use super::signature::Jwt;

/// The least time between two fetches, in milliseconds.
pub(super) const MIN_FETCH_INTERVAL_MS: u64 = 30_000;
/// The age at which keys are fetched anew, in milliseconds.
pub(super) const MAX_KEY_AGE_MS: u64 = 600_000;
/// A time that is far from every other.
const NO_FETCH_YET: u64 = u64::MAX;

/// The keys of an issuer.
pub(super) struct RemoteKeySet {
    fetcher: KeySetFetcher,
    algorithm: PublicAlgorithm,
    keys: ArcSwap<Vec<JwksKey>>,
    /// True while a fetch is going on.
    fetch_in_progress: watch::Sender<bool>,
    last_fetch_failed: AtomicBool,
    /// When the last fetch began, and when the last one that succeeded did.
    last_attempt_ms: AtomicU64,
    last_success_ms: AtomicU64,
}

impl RemoteKeySet {
    /// Fetches the keys. An address that does not answer is tried again with the first token; a file must be right.
    pub(super) async fn open(
        fetcher: KeySetFetcher,
        algorithm: PublicAlgorithm,
        now: u64,
    ) -> Result<Arc<Self>, AuthLoadError> {
        let set = Arc::new(Self {
            fetcher,
            algorithm,
            keys: ArcSwap::default(),
            fetch_in_progress: watch::Sender::new(false),
            last_fetch_failed: AtomicBool::new(false),
            last_attempt_ms: AtomicU64::new(now),
            last_success_ms: AtomicU64::new(NO_FETCH_YET),
        });
        match (set.fetch(now).await, set.fetcher.location()) {
            (Err(KeySetFetchError::Io(source)), JwksLocation::File(path)) => {
                Err(AuthLoadError::File {
                    path: path.clone(),
                    action: "read",
                    source,
                })
            }
            (Err(KeySetFetchError::Key(source)), JwksLocation::File(_)) => {
                Err(AuthLoadError::Key {
                    setting: "auth.jwks",
                    source,
                })
            }
            (Err(error), JwksLocation::File(_)) => Err(error.into()),
            _ => Ok(set),
        }
    }

    /// The claims of a token that one of the keys has signed.
    pub(super) async fn verify(
        self: &Arc<Self>,
        jwt: &Jwt<'_>,
        now: u64,
    ) -> Result<TokenClaims, AuthError> {
        self.refresh_if_stale(now).await;
        let unsigned = |found: &Result<TokenClaims, AuthError>| {
            matches!(found, Err(AuthError::Signature | AuthError::UnknownKey))
        };
        let found = self.verify_with_known_keys(jwt);
        if !unsigned(&found) || self.has_key_of(jwt) {
            return found;
        }
        self.fetch_and_wait(now).await;
        let found = self.verify_with_known_keys(jwt);
        // A key that was not fetched may be the right one.
        if unsigned(&found)
            && !self.has_key_of(jwt)
            && self.last_fetch_failed.load(Ordering::Relaxed)
        {
            return Err(AuthError::KeysUnavailable);
        }
        found
    }

    /// True if the token names a key of the set, so that a newer set cannot change the verdict.
    fn has_key_of(&self, jwt: &Jwt<'_>) -> bool {
        let named = |key: &JwksKey| key.id.is_some() && key.id.as_deref() == jwt.key_id();
        self.keys.load().iter().any(named)
    }

    fn verify_with_known_keys(&self, jwt: &Jwt<'_>) -> Result<TokenClaims, AuthError> {
        let keys = self.keys.load();
        let fits = |key: &&JwksKey| {
            jwt.key_id().is_none() || key.id.is_none() || key.id.as_deref() == jwt.key_id()
        };
        let mut fitting = keys.iter().filter(fits).map(|key| &key.key).peekable();
        if fitting.peek().is_none() {
            return Err(AuthError::UnknownKey);
        }
        jwt.verify_with(fitting)
    }

    async fn refresh_if_stale(self: &Arc<Self>, now: u64) {
        let since = |time: &AtomicU64| now.abs_diff(time.load(Ordering::Relaxed));
        let (age, idle) = (since(&self.last_success_ms), since(&self.last_attempt_ms));
        let trusting = idle < 2 * MAX_KEY_AGE_MS && self.last_fetch_failed.load(Ordering::Relaxed);
        if age >= 2 * MAX_KEY_AGE_MS && !trusting {
            self.fetch_and_wait(now).await;
        } else if age >= MAX_KEY_AGE_MS {
            self.start_fetch_if_due(now);
        }
    }

    /// Waits for a fetch that is going on; begins one if it is time.
    async fn fetch_and_wait(self: &Arc<Self>, now: u64) {
        self.start_fetch_if_due(now);
        // The sender lives as long as this set does.
        let _ = self
            .fetch_in_progress
            .subscribe()
            .wait_for(|going| !going)
            .await;
    }

    /// Begins a fetch if it is time and none is going on.
    fn start_fetch_if_due(self: &Arc<Self>, now: u64) {
        let begins = self.fetch_in_progress.send_if_modified(|going| {
            let waits =
                now.abs_diff(self.last_attempt_ms.load(Ordering::Relaxed)) < MIN_FETCH_INTERVAL_MS;
            let begins = !*going && !waits;
            *going |= begins;
            begins
        });
        if begins {
            self.last_attempt_ms.store(now, Ordering::Relaxed);
            let turn = FetchGuard(Arc::clone(self));
            tokio::spawn(async move {
                let _ = turn.0.fetch(now).await;
            });
        }
    }

    async fn fetch(&self, now: u64) -> Result<(), KeySetFetchError> {
        let found = self.fetcher.fetch().await;
        let found = found.and_then(|bytes| Ok(keys::parse_key_set(&bytes, self.algorithm)?));
        let from = self.fetcher.location();
        match found {
            Ok(keys) => {
                if self.last_fetch_failed.swap(false, Ordering::Relaxed) {
                    info!(%from, "fetched the key set again");
                }
                self.keys.store(Arc::new(keys));
                self.last_success_ms.store(now, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                if !self.last_fetch_failed.swap(true, Ordering::Relaxed) {
                    let kept = self.keys.load().len();
                    warn!(%from, %error, kept, "cannot fetch the key set; the known keys stay valid");
                }
                Err(error)
            }
        }
    }
}

/// A fetch that is going on: whatever ends it, those who wait for it are told.
struct FetchGuard(Arc<RemoteKeySet>);

impl Drop for FetchGuard {
    fn drop(&mut self) {
        self.0.fetch_in_progress.send_replace(false);
    }
}
