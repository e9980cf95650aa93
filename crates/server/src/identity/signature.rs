//! A token before it is believed: its head, and the check of its signature.
//!
//! Always true: the head chooses among keys, never the algorithm; claims come out only behind a signature that is right.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::cache::{self, SignatureCache};
use super::claims::TokenClaims;
use super::error::AuthError;

/// Longer than any token with a person's claims; a longer one is not worth reading.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// What the head of a token says that is of use here.
#[derive(Deserialize)]
struct JwtHeader {
    alg: Algorithm,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// A token whose head was read.
pub(super) struct Jwt<'a> {
    token: &'a str,
    /// What is signed: head and claims.
    message: &'a str,
    claims: &'a str,
    signature: &'a str,
    key_id: Option<String>,
    algorithm: Algorithm,
    signatures: Option<&'a SignatureCache>,
}

impl<'a> Jwt<'a> {
    /// Reads the head. `algorithm` is the only one that is accepted.
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
            return Err(AuthError::Algorithm(name(algorithm)));
        }
        // `crit` lists what a reader must understand; we understand none of it.
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

    /// The same, whose signature is not checked again if it was found right before.
    pub(super) fn with_cache(self, signatures: &'a SignatureCache) -> Self {
        let signatures = Some(signatures);
        Self { signatures, ..self }
    }

    /// The id of the key that it says it was signed with.
    pub(super) fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// The claims, if one of these keys has signed them.
    pub(super) fn verify_with<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k DecodingKey>,
    ) -> Result<TokenClaims, AuthError> {
        let mut refused = AuthError::Signature;
        for key in keys {
            let known = self
                .signatures
                .map(|all| (all, cache::signature_digest(key, self.token)));
            if known.is_some_and(|(all, signed)| all.contains(&signed)) {
                // The signature was checked when it was remembered.
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
                Ok(false) => refused = AuthError::Signature,
                Err(_) => refused = AuthError::Malformed,
            }
        }
        Err(refused)
    }
}

/// An object that a part of a token holds.
fn decode_part<T: DeserializeOwned>(text: &str) -> Result<T, AuthError> {
    let json = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| AuthError::Malformed)?;
    // A list would be taken for an object whose names are left out.
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(AuthError::Malformed);
    }
    serde_json::from_slice(&json).map_err(|_| AuthError::Malformed)
}

fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::RS256 => "RS256",
        Algorithm::ES256 => "ES256",
        Algorithm::EdDSA => "EdDSA",
        _ => "HS256",
    }
}
