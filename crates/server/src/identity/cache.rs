//! Signatures that were found right, so that a client who calls every few seconds has its token checked once.
//!
//! Always true:
//! 1. What is remembered is that a key has signed a token, to the letter, which never becomes untrue. Whether the key still
//!    counts, and the times and the claims of the token, are looked at with every call.
//! 2. A signature that is wrong is not remembered, so nobody can push others out without tokens that count.
//! 3. Neither tokens nor keys are kept, only digests of both together, and at most [`MOST`] of them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use jsonwebtoken::{DecodingKey, DecodingKeyKind};
use sha2::{Digest, Sha256};

/// Most signatures that are remembered; a digest takes about 45 bytes.
pub(super) const MOST: usize = 100_000;

type Signed = [u8; 32];

/// Remembers who signed what.
#[derive(Default)]
pub(super) struct Signatures(Mutex<Ages>);

/// Those that were not asked for while [`MOST`] / 2 others were are forgotten.
#[derive(Default)]
struct Ages {
    recent: HashSet<Signed>,
    older: HashSet<Signed>,
}

impl Signatures {
    /// Whether this was remembered.
    pub(super) fn holds(&self, signed: &Signed) -> bool {
        let mut ages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ages.recent.contains(signed) {
            return true;
        }
        let held = ages.older.remove(signed);
        if held {
            ages.add(*signed);
        }
        held
    }

    pub(super) fn add(&self, signed: Signed) {
        let mut ages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ages.add(signed);
    }
}

impl Ages {
    fn add(&mut self, signed: Signed) {
        if self.recent.len() >= MOST / 2 {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(signed);
    }
}

/// That this key has signed this token.
pub(super) fn signed(key: &DecodingKey, token: &str) -> Signed {
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

    fn numbered(number: usize) -> Signed {
        let mut signed = [0; 32];
        signed[..8].copy_from_slice(&number.to_be_bytes());
        signed
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_makes_room() {
        let signatures = Signatures::default();
        for number in 0..3 * MOST {
            signatures.add(numbered(number));
            assert!(signatures.holds(&numbered(0)), "{number}");
        }
        assert!(!signatures.holds(&numbered(1)));
        assert!(signatures.holds(&numbered(3 * MOST - 1)));
        let ages = signatures.0.lock().unwrap();
        assert!(ages.recent.len() + ages.older.len() <= MOST);
    }

    #[test]
    fn another_key_or_another_token_is_something_else() {
        let key = |n: &[u8], e: &[u8]| DecodingKey::from_rsa_raw_components(n, e);
        let one = signed(&key(b"ab", b"c"), "token");
        assert_eq!(one, signed(&key(b"ab", b"c"), "token"));
        for other in [
            signed(&key(b"ab", b"d"), "token"),
            signed(&key(b"a", b"bc"), "token"),
            signed(&key(b"ab", b""), "ctoken"),
            signed(&key(b"ab", b"c"), "token "),
            signed(&DecodingKey::from_secret(b"ab"), "ctoken"),
        ] {
            assert_ne!(one, other);
        }
    }
}
