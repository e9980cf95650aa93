//! A token before it is believed: its head, and the check of its signature.
//!
//! Always true: the head chooses among keys, never the algorithm; claims come out only behind a signature that is right.

use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;

use super::cache::{self, Signatures};
use super::error::AuthError;

/// Longer than any token with a person's claims; a longer one is not worth reading.
const MOST_BYTES: usize = 16 * 1024;

/// A token whose head was read.
pub(super) struct Jwt<'a> {
    token: &'a str,
    key_id: Option<String>,
    algorithm: Algorithm,
    signatures: Option<&'a Signatures>,
}

impl<'a> Jwt<'a> {
    /// Reads the head. `algorithm` is the only one that is accepted.
    pub(super) fn read(token: &'a str, algorithm: Algorithm) -> Result<Self, AuthError> {
        if token.is_empty() {
            return Err(AuthError::Missing);
        }
        if token.len() > MOST_BYTES {
            return Err(AuthError::Malformed);
        }
        let head = jsonwebtoken::decode_header(token).map_err(|_| AuthError::Malformed)?;
        if head.alg != algorithm {
            return Err(AuthError::Algorithm(name(algorithm)));
        }
        // `crit` lists what a reader must understand; we understand none of it.
        if head.crit.is_some() {
            return Err(AuthError::Malformed);
        }
        Ok(Self {
            token,
            key_id: head.kid,
            algorithm,
            signatures: None,
        })
    }

    /// The same, whose signature is not checked again if it was found right before.
    pub(super) fn remembered(self, signatures: &'a Signatures) -> Self {
        let signatures = Some(signatures);
        Self { signatures, ..self }
    }

    /// The id of the key that it says it was signed with.
    pub(super) fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// The claims, if one of these keys has signed them.
    pub(super) fn signed_by<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k DecodingKey>,
    ) -> Result<Value, AuthError> {
        // Times, audience and issuer are checked by our own clock and rules.
        let mut validation = Validation::new(self.algorithm);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        let mut refused = AuthError::Signature;
        for key in keys {
            let known = self
                .signatures
                .map(|all| (all, cache::signed(key, self.token)));
            if known.is_some_and(|(all, signed)| all.holds(&signed)) {
                // Not insecure here: the signature was checked when it was remembered.
                return insecure_decode_claims(self.token).map_err(|_| AuthError::Malformed);
            }
            match jsonwebtoken::decode::<Value>(self.token, key, &validation) {
                Ok(token) => {
                    if let Some((all, signed)) = known {
                        all.add(signed);
                    }
                    return Ok(token.claims);
                }
                Err(error) => refused = reason(error.kind(), self.algorithm),
            }
        }
        Err(refused)
    }
}

fn reason(kind: &ErrorKind, algorithm: Algorithm) -> AuthError {
    match kind {
        ErrorKind::InvalidSignature => AuthError::Signature,
        ErrorKind::InvalidAlgorithm => AuthError::Algorithm(name(algorithm)),
        _ => AuthError::Malformed,
    }
}

fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::RS256 => "RS256",
        Algorithm::ES256 => "ES256",
        Algorithm::EdDSA => "EdDSA",
        _ => "HS256",
    }
}
