//! Parses public keys from PEM and from JSON Web Keys.
//!
//! Invariant: each returned key is public, of the configured algorithm, of a supported size and a valid point of its
//! curve. The JWT library relies on that: it panics on an Ed25519 key that is too short.

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde_json::Value;

use super::config::PublicAlgorithm;
use super::error::PublicKeyError;

/// Maximum number of keys that are used of a set; no issuer publishes more. A token without `kid` is checked with each
/// key.
const MAX_KEYS: usize = 100;
/// Supported sizes of RSA keys in bits. Shorter keys are insecure; the crypto library rejects longer ones.
const RSA_MODULUS_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;
/// Sizes of RSA exponents in bits that the crypto library supports.
const RSA_EXPONENT_BITS: std::ops::RangeInclusive<usize> = 2..=33;

/// A key of a key set with its key id (`kid`).
#[derive(Clone, Debug)]
pub(super) struct JwksKey {
    pub(super) id: Option<String>,
    pub(super) key: DecodingKey,
}

impl PublicAlgorithm {
    pub(super) fn to_jsonwebtoken(self) -> Algorithm {
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::Es256 => Algorithm::ES256,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

/// Parses a public key in PEM format.
pub(super) fn from_pem(
    pem: &str,
    algorithm: PublicAlgorithm,
) -> Result<DecodingKey, PublicKeyError> {
    if pem.contains("PRIVATE KEY-----") {
        return Err(PublicKeyError::PrivateKey);
    }
    let bytes = pem.trim().as_bytes();
    let key = match algorithm {
        PublicAlgorithm::Rs256 => DecodingKey::from_rsa_pem(bytes),
        PublicAlgorithm::Es256 => DecodingKey::from_ec_pem(bytes),
        PublicAlgorithm::EdDsa => DecodingKey::from_ed_pem(bytes),
    };
    let not_of = |_| PublicKeyError::WrongAlgorithm(algorithm.name());
    let jwk = Jwk::from_decoding_key(&key.map_err(not_of)?, None).map_err(not_of)?;
    from_jwk(&jwk, algorithm)
}

/// Parses a key set and returns the keys that fit this algorithm; a set can contain keys for other purposes. Private
/// keys are ignored: anyone who can read the set has them, so their signatures prove nothing.
pub(super) fn parse_key_set(
    bytes: &[u8],
    algorithm: PublicAlgorithm,
) -> Result<Vec<JwksKey>, PublicKeyError> {
    let mut set: Value = serde_json::from_slice(bytes).map_err(|_| PublicKeyError::NotAKeySet)?;
    let Some(Value::Array(all)) = set.get_mut("keys").map(Value::take) else {
        return Err(PublicKeyError::NotAKeySet);
    };
    let count = all.len();
    let (private, public): (Vec<Value>, Vec<Value>) =
        all.into_iter().partition(|key| key.get("d").is_some());
    let jwks = public
        .into_iter()
        .filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
    let keys: Vec<JwksKey> = jwks
        .filter(|jwk| is_usable_for(jwk, algorithm))
        .filter_map(|jwk| {
            let key = from_jwk(&jwk, algorithm).ok()?;
            let id = jwk.common.key_id;
            Some(JwksKey { id, key })
        })
        .take(MAX_KEYS)
        .collect();
    if keys.is_empty() && !private.is_empty() {
        return Err(PublicKeyError::PrivateKey);
    }
    if keys.is_empty() {
        let algorithm = algorithm.name();
        return Err(PublicKeyError::NoUsableKey { count, algorithm });
    }
    Ok(keys)
}

/// True if the issuer permits this use of the key (`alg`, `use`, `key_ops`).
fn is_usable_for(jwk: &Jwk, algorithm: PublicAlgorithm) -> bool {
    let common = &jwk.common;
    let named = KeyAlgorithm::from(algorithm.to_jsonwebtoken());
    common.key_algorithm.is_none_or(|alg| alg == named)
        && matches!(common.public_key_use, None | Some(PublicKeyUse::Signature))
        && common
            .key_operations
            .as_ref()
            .is_none_or(|all| all.contains(&KeyOperations::Verify))
}

fn from_jwk(jwk: &Jwk, algorithm: PublicAlgorithm) -> Result<DecodingKey, PublicKeyError> {
    let not_of = || PublicKeyError::WrongAlgorithm(algorithm.name());
    let curve = match (&jwk.algorithm, algorithm) {
        (AlgorithmParameters::RSA(_), PublicAlgorithm::Rs256) => None,
        (AlgorithmParameters::EllipticCurve(key), PublicAlgorithm::Es256) => {
            Some((&key.curve, EllipticCurve::P256, 65))
        }
        (AlgorithmParameters::OctetKeyPair(key), PublicAlgorithm::EdDsa) => {
            Some((&key.curve, EllipticCurve::Ed25519, 32))
        }
        _ => return Err(not_of()),
    };
    let key = DecodingKey::from_jwk(jwk).map_err(|_| not_of())?;
    match (key.kind(), curve) {
        (DecodingKeyKind::RsaModulusExponent { n, e }, None) => {
            let size = bit_length(n);
            if !RSA_MODULUS_BITS.contains(&size) {
                return Err(PublicKeyError::RsaSize(size));
            }
            let odd = e.last().is_some_and(|byte| byte % 2 == 1);
            if !odd || !RSA_EXPONENT_BITS.contains(&bit_length(e)) {
                return Err(not_of());
            }
        }
        (DecodingKeyKind::SecretOrDer(point), Some((is, expected, length)))
            if *is == expected && point.len() == length =>
        {
            // Verifying any signature parses the key first, and fails if the key is not a point of the curve.
            jsonwebtoken::crypto::verify("", b"", &key, algorithm.to_jsonwebtoken())
                .map_err(|_| not_of())?;
        }
        _ => return Err(not_of()),
    }
    Ok(key)
}

/// Length of a big-endian number in bits, without leading zeros.
fn bit_length(number: &[u8]) -> usize {
    let start = number.iter().position(|byte| *byte != 0);
    start.map_or(0, |start| {
        (number.len() - start) * 8 - number[start].leading_zeros() as usize
    })
}
