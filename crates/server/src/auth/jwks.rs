//! A JSON Web Key Set (JWKS) that is fetched again when it is stale or when a token names an unknown key.
//!
//! Invariants:
//! 1. At most one fetch runs at a time, and two fetches start at least [`MIN_FETCH_INTERVAL_MS`] apart, no matter how
//!    many tokens name unknown keys.
//! 2. A fetch runs in its own task and finishes even if the caller that started it is cancelled, so a client cannot use
//!    up the fetches of others. A cancelled waiter leaves no state behind.
//! 3. A failed fetch changes no key. The first failure in a row is logged, and the next success.
//! 4. Keys older than [`MAX_KEY_AGE_MS`] are fetched again in the background with the next token. If they are twice as
//!    old, tokens wait for that fetch, so an idle node does not accept a key that the issuer has withdrawn. While
//!    fetches fail, only the first caller after such a period waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tracing::{info, warn};

use super::claims::TokenClaims;
use super::config::{JwksLocation, PublicAlgorithm};
use super::error::{AuthError, AuthLoadError, KeySetFetchError};
use super::jwks_fetch::KeySetFetcher;
use super::jwt::Jwt;
use super::public_keys::{self, JwksKey};

/// Minimum time between the starts of two fetches, in milliseconds.
pub(super) const MIN_FETCH_INTERVAL_MS: u64 = 30_000;
/// Age at which keys are fetched again, in milliseconds.
pub(super) const MAX_KEY_AGE_MS: u64 = 600_000;
/// Stands for "no successful fetch yet": it differs from every clock value by more than any age limit.
const NO_FETCH_YET: u64 = u64::MAX;

/// Keys of an issuer, kept up to date.
pub(super) struct RemoteKeySet {
    fetcher: KeySetFetcher,
    algorithm: PublicAlgorithm,
    keys: ArcSwap<Vec<JwksKey>>,
    /// True while a fetch is in progress.
    fetch_in_progress: watch::Sender<bool>,
    /// True if the last fetch failed.
    last_fetch_failed: AtomicBool,
    /// Start of the last fetch, in milliseconds.
    last_attempt_ms: AtomicU64,
    /// Start of the last successful fetch, in milliseconds.
    last_success_ms: AtomicU64,
}

impl RemoteKeySet {
    /// Fetches the keys. If a URL fails, the fetch is repeated with the first token; a file that cannot be used is an
    /// error.
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

    /// Returns the claims if a key of the set signed the token. Fetches the set again if needed.
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
        // The set could not be updated, and a newer one might contain the key.
        if unsigned(&found)
            && !self.has_key_of(jwt)
            && self.last_fetch_failed.load(Ordering::Relaxed)
        {
            return Err(AuthError::KeysUnavailable);
        }
        found
    }

    /// True if the token names a key of this set. Another fetch would not change the result then.
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
        // Not every token waits while the issuer is unavailable.
        let is_unavailable =
            idle < 2 * MAX_KEY_AGE_MS && self.last_fetch_failed.load(Ordering::Relaxed);
        if age >= 2 * MAX_KEY_AGE_MS && !is_unavailable {
            self.fetch_and_wait(now).await;
        } else if age >= MAX_KEY_AGE_MS {
            self.start_fetch_if_due(now);
        }
    }

    /// Starts a fetch if one is due, and waits for the running one.
    async fn fetch_and_wait(self: &Arc<Self>, now: u64) {
        self.start_fetch_if_due(now);
        // `wait_for` fails only if the sender is dropped, and `self` holds the sender.
        let _ = self
            .fetch_in_progress
            .subscribe()
            .wait_for(|is_fetching| !is_fetching)
            .await;
    }

    /// Starts a fetch unless one is running or the last one started less than [`MIN_FETCH_INTERVAL_MS`] ago.
    fn start_fetch_if_due(self: &Arc<Self>, now: u64) {
        let starts = self.fetch_in_progress.send_if_modified(|is_fetching| {
            let since_last = now.abs_diff(self.last_attempt_ms.load(Ordering::Relaxed));
            let starts = !*is_fetching && since_last >= MIN_FETCH_INTERVAL_MS;
            *is_fetching |= starts;
            starts
        });
        if starts {
            self.last_attempt_ms.store(now, Ordering::Relaxed);
            let guard = FetchGuard(Arc::clone(self));
            tokio::spawn(async move {
                let _ = guard.0.fetch(now).await;
            });
        }
    }

    async fn fetch(&self, now: u64) -> Result<(), KeySetFetchError> {
        let found = self.fetcher.fetch().await;
        let found = found.and_then(|bytes| Ok(public_keys::parse_key_set(&bytes, self.algorithm)?));
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

/// Guard of a running fetch: wakes its waiters on drop, even if the fetch panics.
struct FetchGuard(Arc<RemoteKeySet>);

impl Drop for FetchGuard {
    fn drop(&mut self) {
        self.0.fetch_in_progress.send_replace(false);
    }
}
