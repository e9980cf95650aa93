//! A cached signature does not replace the checks of expiry, claims and keys.

use super::super::*;
use super::fixtures::{KEY_PAIRS, NOW, alice_claims, encode, load};

#[tokio::test]
async fn an_accepted_token_stays_accepted_until_it_expires() {
    for pair in KEY_PAIRS.iter() {
        let authenticator = load(&pair.auth_config()).await.unwrap();
        let token = pair.sign(None, &alice_claims());
        let first = authenticator.verify(&token).await.unwrap();
        let VerificationKeys::PublicKey(_, key) = &authenticator.keys else {
            panic!("a public key was configured");
        };
        let signed = super::super::signature_cache::signature_digest(key, &token);
        assert!(
            authenticator.signature_cache.contains(&signed),
            "the signature is cached"
        );
        assert_eq!(authenticator.verify(&token).await.unwrap(), first);
        let end = first.expires_at + LEEWAY_MS;
        assert!(authenticator.verify_at(&token, end - 1).await.is_ok());
        let refused = authenticator.verify_at(&token, end).await;
        assert_eq!(refused, Err(AuthError::Expired));
        let early = (NOW - 3_600) * 1_000;
        let refused = authenticator.verify_at(&token, early).await;
        assert_eq!(refused, Err(AuthError::NotYetValid));
    }
}

#[tokio::test]
async fn a_cached_signature_is_not_accepted_with_other_claims() {
    for pair in KEY_PAIRS.iter() {
        let authenticator = load(&pair.auth_config()).await.unwrap();
        let token = pair.sign(None, &alice_claims());
        authenticator.verify(&token).await.unwrap();
        let mut claims = alice_claims();
        claims["sub"] = "bob".into();
        let mut parts: Vec<&str> = token.split('.').collect();
        let others = encode(&claims.to_string());
        parts[1] = &others;
        for _ in 0..2 {
            let refused = authenticator.verify(&parts.join(".")).await;
            assert_eq!(refused, Err(AuthError::Signature));
        }
    }
}
