//! Cache of verified signatures, so that the signature of a token is checked once and not with every call.
//!
//! Invariants:
//! 1. An entry states that a key has signed exactly this token, which stays true for ever. Whether the key is still
//!    configured, and the times and claims of the token, are checked with every call.
//! 2. Invalid signatures are not cached, so a client without valid tokens cannot evict entries.
//! 3. The cache stores neither tokens nor keys, only at most [`MAX_CACHED_SIGNATURES`] digests of a key and a token.

use jsonwebtoken::{DecodingKey, DecodingKeyKind};
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

/// Capacity of the cache; a digest takes about 80 bytes.
pub(super) const MAX_CACHED_SIGNATURES: usize = 100_000;

type SignatureDigest = [u8; 32];

/// Cache of verified signatures. A signature that is not looked up is evicted first.
pub(super) struct SignatureCache(Cache<SignatureDigest, ()>);

impl Default for SignatureCache {
    fn default() -> Self {
        Self(Cache::new(MAX_CACHED_SIGNATURES))
    }
}

impl SignatureCache {
    /// True if the signature was verified before.
    pub(super) fn contains(&self, signed: &SignatureDigest) -> bool {
        self.0.get(signed).is_some()
    }

    pub(super) fn add(&self, signed: SignatureDigest) {
        self.0.insert(signed, ());
    }
}

/// Digest of this key and this token.
pub(super) fn signature_digest(key: &DecodingKey, token: &str) -> SignatureDigest {
    let parts: [&[u8]; 2] = match key.kind() {
        DecodingKeyKind::SecretOrDer(bytes) => [bytes, &[]],
        DecodingKeyKind::RsaModulusExponent { n, e } => [n, e],
    };
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.update(token);
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: usize) -> SignatureDigest {
        let mut signed = [0; 32];
        signed[..8].copy_from_slice(&number.to_be_bytes());
        signed
    }

    #[test]
    fn the_signature_cache_keeps_used_entries_and_evicts_unused_ones() {
        let signatures = SignatureCache::default();
        for number in 0..3 * MAX_CACHED_SIGNATURES {
            signatures.add(numbered(number));
            // All are used at least once, except number 1.
            assert!(number == 1 || signatures.contains(&numbered(number)));
            assert!(signatures.contains(&numbered(0)), "{number}");
        }
        assert!(!signatures.contains(&numbered(1)));
        assert!(signatures.contains(&numbered(3 * MAX_CACHED_SIGNATURES - 1)));
        assert!(signatures.0.len() <= MAX_CACHED_SIGNATURES);
    }

    #[test]
    fn the_signature_digest_depends_on_key_and_token() {
        let key = |n: &[u8], e: &[u8]| DecodingKey::from_rsa_raw_components(n, e);
        let one = signature_digest(&key(b"ab", b"c"), "token");
        assert_eq!(one, signature_digest(&key(b"ab", b"c"), "token"));
        for other in [
            signature_digest(&key(b"ab", b"d"), "token"),
            signature_digest(&key(b"a", b"bc"), "token"),
            signature_digest(&key(b"ab", b""), "ctoken"),
            signature_digest(&key(b"ab", b"c"), "token "),
            signature_digest(&DecodingKey::from_secret(b"ab"), "ctoken"),
        ] {
            assert_ne!(one, other);
        }
    }
}
