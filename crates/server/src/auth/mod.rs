//! Authentication: verifies bearer tokens (JWT), turns their claims into a [`Caller`], and issues tokens.
//!
//! Invariants:
//! 1. The algorithm comes from the configuration. A token with another algorithm, or with `none`, is rejected.
//! 2. No claim is used before the signature is verified.
//! 3. The current time comes from the clock that was passed to [`Authenticator::load`], or from the caller of
//!    `verify_at`.
//! 4. Secrets and keys appear in no log and in no `Debug` output.

mod claims;
mod config;
mod error;
mod jwks;
mod jwks_fetch;
mod jwt;
mod public_keys;
mod secret;
mod signature_cache;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use parlor_chat::api::caller::Caller;
use parlor_embedded::Clock;
use serde::Deserialize as _;
use tracing::warn;

use claims::LEEWAY_MS;
pub(crate) use claims::TokenGrant;
pub use config::{AuthConfig, AuthSettings};
use config::{KeySource, PublicAlgorithm, PublicKeyPem};
use error::AuthLoadError;
pub(crate) use error::{AuthError, TokenIssueError};
use jwks::RemoteKeySet;
use jwks_fetch::KeySetFetcher;
use jwt::Jwt;
use secret::SharedSecret;
use signature_cache::SignatureCache;

/// Verifies and issues tokens.
pub struct Authenticator {
    keys: VerificationKeys,
    claim_rules: claims::ClaimRules,
    clock: Arc<dyn Clock>,
    signature_cache: SignatureCache,
}

enum VerificationKeys {
    /// HS256 secrets. Each one verifies; the first one also signs.
    SharedSecrets(Vec<DecodingKey>, EncodingKey),
    PublicKey(PublicAlgorithm, DecodingKey),
    Jwks(PublicAlgorithm, Arc<RemoteKeySet>),
}

impl Authenticator {
    /// Loads the keys. If none are configured, uses the generated secret of the data folder and creates it if it is
    /// missing.
    ///
    /// A key set URL that does not answer is not an error: tokens are rejected with `keys_unavailable` until it does.
    pub async fn load(
        config: &AuthConfig,
        data: &Path,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AuthLoadError> {
        let keys = match &config.keys {
            KeySource::Generated => shared_secret_keys(&secret::load_or_generate(data)?, None),
            KeySource::Secrets(first, second) => shared_secret_keys(first, second.as_ref()),
            KeySource::PublicKey { algorithm, pem } => {
                VerificationKeys::PublicKey(*algorithm, load_public_key(pem, *algorithm)?)
            }
            KeySource::Jwks {
                algorithm,
                location,
            } => {
                if location.is_unencrypted_remote() {
                    warn!(from = %location, "auth.jwks is fetched without TLS, so an attacker on the network could replace the keys; use https");
                }
                let fetcher = KeySetFetcher::new(location.clone())?;
                VerificationKeys::Jwks(
                    *algorithm,
                    RemoteKeySet::open(fetcher, *algorithm, clock.now_ms()).await?,
                )
            }
        };
        Ok(Self {
            keys,
            claim_rules: claims::ClaimRules::new(config),
            clock,
            signature_cache: SignatureCache::default(),
        })
    }

    /// Verifies the token at the current time. An empty token counts as a missing one.
    pub async fn verify(&self, token: &str) -> Result<Caller, AuthError> {
        self.verify_at(token, self.clock.now_ms()).await
    }

    /// Verifies the token as of `now_ms`.
    pub async fn verify_at(&self, token: &str, now_ms: u64) -> Result<Caller, AuthError> {
        let jwt = Jwt::read(token, self.algorithm())?;
        let claims = match &self.keys {
            // Without the cache: an HMAC costs no more than the digest for a cache lookup.
            VerificationKeys::SharedSecrets(keys, _) => jwt.verify_with(keys)?,
            VerificationKeys::PublicKey(_, key) => {
                jwt.with_cache(&self.signature_cache).verify_with([key])?
            }
            VerificationKeys::Jwks(_, set) => {
                let jwt = jwt.with_cache(&self.signature_cache);
                set.verify(&jwt, now_ms).await?
            }
        };
        self.claim_rules.check_claims(&claims, now_ms)
    }

    /// Time until the server no longer accepts the token of this caller, including the leeway.
    pub fn token_time_left(&self, caller: &Caller) -> Duration {
        let ends = caller.expires_at.saturating_add(LEEWAY_MS);
        Duration::from_millis(ends.saturating_sub(self.clock.now_ms()))
    }

    /// Signs a token that [`Authenticator::verify`] accepts from now on.
    pub fn issue(&self, grant: &TokenGrant) -> Result<String, TokenIssueError> {
        let VerificationKeys::SharedSecrets(_, key) = &self.keys else {
            return Err(TokenIssueError::NoSigningKey);
        };
        let now = self.clock.now_ms();
        let claims = self.claim_rules.claims_for(grant, now);
        let read = claims::TokenClaims::deserialize(&claims)
            .map_err(|_| TokenIssueError::SigningFailed)?;
        self.claim_rules.check_claims(&read, now)?;
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, key)
            .map_err(|_| TokenIssueError::SigningFailed)
    }

    fn algorithm(&self) -> Algorithm {
        match &self.keys {
            VerificationKeys::SharedSecrets(..) => Algorithm::HS256,
            VerificationKeys::PublicKey(algorithm, _) | VerificationKeys::Jwks(algorithm, _) => {
                algorithm.to_jsonwebtoken()
            }
        }
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authenticator({:?})", self.algorithm())
    }
}

/// Extracts the token from the value of an `Authorization` header.
pub fn parse_bearer_token(header: Option<&str>) -> Result<&str, AuthError> {
    let (scheme, token) = header
        .and_then(|header| header.trim().split_once(' '))
        .ok_or(AuthError::Missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(AuthError::Missing);
    }
    Ok(token.trim_start())
}

fn shared_secret_keys(first: &SharedSecret, second: Option<&SharedSecret>) -> VerificationKeys {
    let all = || std::iter::once(first).chain(second);
    if all().any(SharedSecret::is_weak) {
        warn!(
            "auth.secret is shorter than 32 bytes, so an attacker who has a token could guess it; use a longer, random secret"
        );
    }
    let verify = all().map(|secret| DecodingKey::from_secret(secret.bytes()));
    VerificationKeys::SharedSecrets(verify.collect(), EncodingKey::from_secret(first.bytes()))
}

fn load_public_key(
    pem: &PublicKeyPem,
    algorithm: PublicAlgorithm,
) -> Result<DecodingKey, AuthLoadError> {
    let read;
    let text = match pem {
        PublicKeyPem::Text(text) => text,
        PublicKeyPem::File(path) => {
            let failed = |source| AuthLoadError::File {
                path: path.clone(),
                action: "read",
                source,
            };
            read = std::fs::read_to_string(path).map_err(failed)?;
            &read
        }
    };
    public_keys::from_pem(text, algorithm).map_err(|source| AuthLoadError::Key {
        setting: "auth.public_key",
        source,
    })
}

#[cfg(test)]
mod tests;
