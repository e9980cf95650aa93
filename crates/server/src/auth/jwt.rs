//! Decodes the header of a token and verifies its signature.
//!
//! Invariants:
//! 1. The header of a token can select a key by its id, never the algorithm.
//! 2. Claims are returned only if the signature is valid.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::claims::TokenClaims;
use super::error::AuthError;
use super::signature_cache::{self, SignatureCache};

/// Maximum length of a token. Tokens of users are much shorter.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The fields of the token header that the server reads.
#[derive(Deserialize)]
struct JwtHeader {
    alg: Algorithm,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// A token with a decoded header and a signature that is not verified yet.
pub(super) struct Jwt<'a> {
    token: &'a str,
    /// The signed part of the token: header and claims.
    message: &'a str,
    claims: &'a str,
    signature: &'a str,
    key_id: Option<String>,
    algorithm: Algorithm,
    signatures: Option<&'a SignatureCache>,
}

impl<'a> Jwt<'a> {
    /// Decodes the header. Any other algorithm than `algorithm` is an error.
    pub(super) fn read(token: &'a str, algorithm: Algorithm) -> Result<Self, AuthError> {
        if token.is_empty() {
            return Err(AuthError::Missing);
        }
        if token.len() > MAX_TOKEN_BYTES {
            return Err(AuthError::Malformed);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(AuthError::Malformed)?;
        let (head, claims) = message.rsplit_once('.').ok_or(AuthError::Malformed)?;
        let head: JwtHeader = decode_part(head)?;
        if head.alg != algorithm {
            return Err(AuthError::Algorithm(algorithm));
        }
        // `crit` lists extensions that the receiver must understand. The server supports none.
        if head.crit.is_some() {
            return Err(AuthError::Malformed);
        }
        Ok(Self {
            token,
            message,
            claims,
            signature,
            key_id: head.kid,
            algorithm,
            signatures: None,
        })
    }

    /// Uses this cache to skip the check of signatures that were verified before.
    pub(super) fn with_cache(self, signatures: &'a SignatureCache) -> Self {
        let signatures = Some(signatures);
        Self { signatures, ..self }
    }

    /// Key id (`kid`) from the header.
    pub(super) fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// Returns the claims if one of these keys made the signature.
    pub(super) fn verify_with<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k DecodingKey>,
    ) -> Result<TokenClaims, AuthError> {
        let mut last_error = AuthError::Signature;
        for key in keys {
            let known = self
                .signatures
                .map(|all| (all, signature_cache::signature_digest(key, self.token)));
            if known.is_some_and(|(all, signed)| all.contains(&signed)) {
                // The signature was verified before it was inserted into the cache.
                return decode_part(self.claims);
            }
            let message = self.message.as_bytes();
            match jsonwebtoken::crypto::verify(self.signature, message, key, self.algorithm) {
                Ok(true) => {
                    let claims = decode_part(self.claims)?;
                    if let Some((all, signed)) = known {
                        all.add(signed);
                    }
                    return Ok(claims);
                }
                Ok(false) => last_error = AuthError::Signature,
                Err(_) => last_error = AuthError::Malformed,
            }
        }
        Err(last_error)
    }
}

/// Decodes one part of a token as a JSON object.
fn decode_part<T: DeserializeOwned>(text: &str) -> Result<T, AuthError> {
    let json = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| AuthError::Malformed)?;
    // serde would accept a JSON array as a struct, with its elements as the fields in order.
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(AuthError::Malformed);
    }
    serde_json::from_slice(&json).map_err(|_| AuthError::Malformed)
}
