//! A cached signature does not replace the checks of expiry, claims and keys.

use super::super::*;
use super::fixtures::{NOW, PAIRS, alice, encode, load};

#[tokio::test]
async fn a_token_that_was_accepted_is_accepted_again_until_it_ends() {
    for pair in PAIRS.iter() {
        let identity = load(&pair.identity_config()).await.unwrap();
        let token = pair.sign(None, &alice());
        let first = identity.verify(&token).await.unwrap();
        let VerificationKeys::PublicKey(_, key) = &identity.keys else {
            panic!("a public key was configured");
        };
        let signed = super::super::signature_cache::signature_digest(key, &token);
        assert!(
            identity.signature_cache.contains(&signed),
            "the signature is cached"
        );
        assert_eq!(identity.verify(&token).await.unwrap(), first);
        let end = first.expires_at + LEEWAY_MS;
        assert!(identity.verify_at(&token, end - 1).await.is_ok());
        let refused = identity.verify_at(&token, end).await;
        assert_eq!(refused, Err(AuthError::Expired));
        let early = (NOW - 3_600) * 1_000;
        let refused = identity.verify_at(&token, early).await;
        assert_eq!(refused, Err(AuthError::NotYetValid));
    }
}

#[tokio::test]
async fn a_cached_signature_is_not_accepted_with_other_claims() {
    for pair in PAIRS.iter() {
        let identity = load(&pair.identity_config()).await.unwrap();
        let token = pair.sign(None, &alice());
        identity.verify(&token).await.unwrap();
        let mut claims = alice();
        claims["sub"] = "bob".into();
        let mut parts: Vec<&str> = token.split('.').collect();
        let others = encode(&claims.to_string());
        parts[1] = &others;
        for _ in 0..2 {
            let refused = identity.verify(&parts.join(".")).await;
            assert_eq!(refused, Err(AuthError::Signature));
        }
    }
}
