//! Identity: who is calling, by a signed token (JWT).
//!
//! Always true:
//! 1. The algorithm comes from the configuration; a token that names another one, or `none`, is refused.
//! 2. No claim is looked at before the signature is right.
//! 3. `now` comes from the clock it was loaded with, or is given.
//! 4. Secrets and keys appear in no log and no `Debug` output.

mod cache;
mod claims;
mod config;
mod error;
mod fetch;
mod keys;
mod keyset;
mod secret;
mod signature;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use parlor_chat::access::Caller;
use parlor_embedded::Clock;
use serde::Deserialize as _;
use tracing::warn;

use cache::Signatures;
pub use claims::{Grant, LEEWAY_MS, MAX_NAME};
pub use config::{AuthConfig, ConfigError, KeySource, Location, Pem, PublicAlgorithm, Written};
pub use error::{AuthError, FetchError, IssueError, KeyError, LoadError};
use fetch::Fetcher;
use keyset::KeySet;
pub use secret::{FILE as SECRET_FILE, Secret};
use signature::Jwt;

/// Knows callers by their tokens.
pub struct Identity {
    keys: Keys,
    rules: claims::Rules,
    clock: Arc<dyn Clock>,
    signatures: Signatures,
}

enum Keys {
    /// HS256: the first of the secrets signs.
    Shared(Vec<DecodingKey>, EncodingKey),
    Public(PublicAlgorithm, DecodingKey),
    Set(PublicAlgorithm, Arc<KeySet>),
}

impl Identity {
    /// Reads the keys. Without any configured, the generated secret of the data folder is used, and made if there is none.
    ///
    /// A key set at an address that does not answer is no error: tokens are refused with `keys_unavailable` until it does.
    pub async fn load(
        config: &AuthConfig,
        data: &Path,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LoadError> {
        let keys = match &config.keys {
            KeySource::Generated => shared(&secret::generated(data)?, None),
            KeySource::Secrets(first, second) => shared(first, second.as_ref()),
            KeySource::PublicKey { algorithm, pem } => {
                Keys::Public(*algorithm, public_key(pem, *algorithm)?)
            }
            KeySource::Jwks {
                algorithm,
                location,
            } => {
                if location.is_exposed() {
                    warn!(from = %location, "auth.jwks is fetched without TLS: who is on the way can put in keys of their own; use https");
                }
                let fetcher = Fetcher::new(location.clone())?;
                Keys::Set(
                    *algorithm,
                    KeySet::open(fetcher, *algorithm, clock.now_ms()).await?,
                )
            }
        };
        Ok(Self {
            keys,
            rules: claims::Rules::new(config),
            clock,
            signatures: Signatures::default(),
        })
    }

    /// Who is calling now. An empty token is a missing one.
    pub async fn verify(&self, token: &str) -> Result<Caller, AuthError> {
        self.verify_at(token, self.clock.now_ms()).await
    }

    /// Who was calling at `now_ms`.
    pub async fn verify_at(&self, token: &str, now_ms: u64) -> Result<Caller, AuthError> {
        let jwt = Jwt::read(token, self.algorithm())?;
        let claims = match &self.keys {
            // Checked as fast as it would be looked up.
            Keys::Shared(keys, _) => jwt.signed_by(keys)?,
            Keys::Public(_, key) => jwt.remembered(&self.signatures).signed_by([key])?,
            Keys::Set(_, set) => {
                let jwt = jwt.remembered(&self.signatures);
                set.verify(&jwt, now_ms).await?
            }
        };
        self.rules.caller(&claims, now_ms)
    }

    /// How long the token of a caller still counts, the leeway included.
    pub fn time_left(&self, caller: &Caller) -> Duration {
        let ends = caller.expires_at.saturating_add(LEEWAY_MS);
        Duration::from_millis(ends.saturating_sub(self.clock.now_ms()))
    }

    /// Signs a token that [`Identity::verify`] accepts from now on.
    pub fn issue(&self, grant: &Grant) -> Result<String, IssueError> {
        let Keys::Shared(_, key) = &self.keys else {
            return Err(IssueError::NotTheIssuer);
        };
        let now = self.clock.now_ms();
        let claims = self.rules.claims(grant, now);
        let read = claims::Claims::deserialize(&claims).map_err(|_| IssueError::Signing)?;
        self.rules.caller(&read, now)?;
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, key)
            .map_err(|_| IssueError::Signing)
    }

    fn algorithm(&self) -> Algorithm {
        match &self.keys {
            Keys::Shared(..) => Algorithm::HS256,
            Keys::Public(algorithm, _) | Keys::Set(algorithm, _) => algorithm.of_library(),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({:?})", self.algorithm())
    }
}

/// The token of an `Authorization` header.
pub fn bearer(header: Option<&str>) -> Result<&str, AuthError> {
    let (scheme, token) = header
        .and_then(|header| header.trim().split_once(' '))
        .ok_or(AuthError::Missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(AuthError::Missing);
    }
    Ok(token.trim_start())
}

fn shared(first: &Secret, second: Option<&Secret>) -> Keys {
    let all = || std::iter::once(first).chain(second);
    if all().any(Secret::is_short) {
        warn!(
            "auth.secret is shorter than 32 bytes: whoever sees a token can try out secrets; take a longer, random one"
        );
    }
    let verify = all().map(|secret| DecodingKey::from_secret(secret.bytes()));
    Keys::Shared(verify.collect(), EncodingKey::from_secret(first.bytes()))
}

fn public_key(pem: &Pem, algorithm: PublicAlgorithm) -> Result<DecodingKey, LoadError> {
    let read;
    let text = match pem {
        Pem::Text(text) => text,
        Pem::File(path) => {
            let failed = |source| LoadError::File {
                path: path.clone(),
                action: "read",
                source,
            };
            read = std::fs::read_to_string(path).map_err(failed)?;
            &read
        }
    };
    keys::from_pem(text, algorithm).map_err(|source| LoadError::Key {
        setting: "auth.public_key",
        source,
    })
}

#[cfg(test)]
mod tests;
