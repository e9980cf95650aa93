//! Malformed tokens are rejected, and none causes a panic.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::super::*;
use super::fixtures::{
    KEY_PAIRS, SECRET, alice_claims, alice_claims_with, default_authenticator, hs256, load,
};

/// Changes, inserts or removes bytes, cuts the token off, or repeats its end.
fn mutate(random: &mut StdRng, token: &str) -> String {
    let mut bytes = token.as_bytes().to_vec();
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..bytes.len().max(1));
        match random.random_range(0..6) {
            _ if bytes.is_empty() => bytes.push(b'.'),
            0 => bytes[at] = random.random(),
            1 => bytes[at] = b".=-_A{"[random.random_range(0..6)],
            2 => bytes.insert(at, random.random()),
            3 => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            _ => bytes.extend_from_within(at..),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn thousands_of_malformed_tokens_are_rejected_without_a_panic() {
    let mut random = StdRng::seed_from_u64(7);
    let mut cases = vec![(
        default_authenticator().await,
        hs256(SECRET, &alice_claims()),
        4_000,
    )];
    for pair in KEY_PAIRS.iter() {
        let authenticator = load(&pair.auth_config()).await.unwrap();
        cases.push((authenticator, pair.sign(Some("k1"), &alice_claims()), 1_000));
    }
    for (authenticator, good, count) in cases {
        let caller = authenticator.verify(&good).await.unwrap();
        for _ in 0..count {
            let token = mutate(&mut random, &good);
            match authenticator.verify(&token).await {
                Ok(found) => assert_eq!((&token, found), (&good, caller.clone())),
                Err(error) => assert!(
                    ["token_invalid", "token_missing"].contains(&error.code().name()),
                    "{token}"
                ),
            }
        }
    }
}

#[tokio::test]
async fn texts_that_are_no_tokens_are_rejected() {
    let authenticator = default_authenticator().await;
    assert_eq!(authenticator.verify("").await, Err(AuthError::Missing));
    let long = hs256(
        SECRET,
        &alice_claims_with(&json!({ "x": "A".repeat(16_000) })),
    );
    let deep = format!("{}.e30.AA", "W1".repeat(5_000));
    for token in [
        " ", ".", "..", "...", "a.b.c", "\0\0\0", "é.é.é", "e30.e30.", "null", &long, &deep,
    ] {
        assert_eq!(
            authenticator.verify(token).await,
            Err(AuthError::Malformed),
            "{token}"
        );
    }
}
