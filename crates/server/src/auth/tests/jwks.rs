//! Key sets: which keys are used, and when the set is fetched again.

use std::time::Duration;

use parlor_embedded::ManualClock;
use parlor_testkit::eventually;
use serde_json::{Value, json};

use super::super::config::JwksLocation;
use super::super::error::KeySetFetchError;
use super::super::error::PublicKeyError;
use super::super::jwks::{MAX_KEY_AGE_MS, MIN_FETCH_INTERVAL_MS};
use super::super::*;
use super::captured_logs::CapturedLogs;
use super::fake_issuer::FakeIssuer;
use super::fixtures::{KEY_PAIRS, TestKeyPair, alice_claims_with, load, test_clock};

/// A token of a user that outlives all clock changes of the tests.
pub fn token(pair: &TestKeyPair, kid: Option<&str>) -> String {
    pair.sign(
        kid,
        &alice_claims_with(&json!({ "exp": 9_000_000_000_u64 })),
    )
}

pub async fn authenticator_for(issuer: &FakeIssuer) -> (Authenticator, ManualClock) {
    let clock = test_clock();
    let data = Path::new("/nonexistent");
    let config = issuer.config("ES256");
    let authenticator = Authenticator::load(&config, data, Arc::new(clock.clone()))
        .await
        .unwrap();
    (authenticator, clock)
}

pub fn advance(clock: &ManualClock, ms: u64) {
    clock.advance(Duration::from_millis(ms));
}

#[tokio::test]
async fn a_set_of_each_algorithm_is_read_from_a_file_and_from_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = FakeIssuer::start().await;
    let all: Vec<(Option<&str>, &TestKeyPair)> = ["a", "b", "c"]
        .into_iter()
        .map(Some)
        .zip(KEY_PAIRS.iter())
        .collect();
    issuer.publish(&all);
    let file = folder.path().join("jwks.json");
    let keys: Vec<Value> = all.iter().map(|(kid, pair)| pair.jwk(*kid)).collect();
    std::fs::write(&file, json!({ "keys": keys }).to_string()).unwrap();
    for (kid, pair) in all {
        for jwks in [file.to_str().unwrap(), &issuer.address] {
            let written = AuthSettings {
                algorithm: pair.name(),
                jwks,
                ..AuthSettings::default()
            };
            let authenticator = load(&AuthConfig::new(&written).unwrap()).await.unwrap();
            for kid in [kid, None] {
                assert!(
                    authenticator.verify(&token(pair, kid)).await.is_ok(),
                    "{} {kid:?}",
                    pair.name()
                );
            }
            let forged = match pair.name() {
                "RS256" => continue,
                "ES256" => token(&TestKeyPair::ec(), kid),
                _ => token(&TestKeyPair::ed(), kid),
            };
            assert_eq!(
                authenticator.verify(&forged).await,
                Err(AuthError::Signature)
            );
        }
    }
}

#[tokio::test]
async fn keys_for_another_purpose_and_broken_ones_do_not_count() {
    let pair = &KEY_PAIRS[2];
    let good = pair.jwk(Some("good"));
    let with = |name: &str, value: Value| {
        let mut key = good.clone();
        key[name] = value;
        key
    };
    let broken = [
        with("use", json!("enc")),
        with("key_ops", json!(["sign"])),
        with("alg", json!("ES256")),
        with("crv", json!("P-256")),
        with("x", json!("AAAA")),
        with("x", json!("")),
        with("x", json!("!")),
        with("kty", json!("oct")),
        json!({ "kty": "oct", "k": good["x"], "kid": "good" }),
        KEY_PAIRS[1].jwk(Some("good")),
        TestKeyPair::rsa(1024).jwk(Some("good")),
        json!({}),
        json!(7),
    ];
    let algorithm = PublicAlgorithm::EdDsa;
    for key in &broken {
        let set = json!({ "keys": [key] }).to_string();
        let refused = public_keys::parse_key_set(set.as_bytes(), algorithm).unwrap_err();
        assert_eq!(
            refused,
            PublicKeyError::NoUsableKey {
                count: 1,
                algorithm: "EdDSA"
            },
            "{key}"
        );
    }
    let mut all = broken.to_vec();
    all.push(good);
    let set = json!({ "keys": all }).to_string();
    assert_eq!(
        public_keys::parse_key_set(set.as_bytes(), algorithm)
            .unwrap()
            .len(),
        1
    );
    for text in ["", "[]", "{}", "{\"keys\":{}}", "<html>"] {
        assert_eq!(
            public_keys::parse_key_set(text.as_bytes(), algorithm).unwrap_err(),
            PublicKeyError::NotAKeySet
        );
    }
    let weak = json!({ "keys": [TestKeyPair::rsa(1024).jwk(None)] }).to_string();
    assert!(public_keys::parse_key_set(weak.as_bytes(), PublicAlgorithm::Rs256).is_err());
}

#[tokio::test]
async fn a_private_key_in_a_set_is_not_used() {
    for (pair, algorithm) in KEY_PAIRS.iter().zip([
        PublicAlgorithm::Rs256,
        PublicAlgorithm::Es256,
        PublicAlgorithm::EdDsa,
    ]) {
        let mut private = pair.jwk(Some("private"));
        private["d"] = json!("AAAA");
        let read = |keys: Value| {
            public_keys::parse_key_set(json!({ "keys": keys }).to_string().as_bytes(), algorithm)
        };
        assert_eq!(
            read(json!([private])).unwrap_err(),
            PublicKeyError::PrivateKey
        );
        let both = read(json!([private, pair.jwk(Some("public"))])).unwrap();
        assert_eq!(both.len(), 1);
        assert_eq!(both[0].id.as_deref(), Some("public"));
    }
}

#[tokio::test]
async fn an_rsa_key_needs_a_sound_exponent() {
    let good = KEY_PAIRS[0].jwk(None);
    for (exponent, sound) in [("AQAB", true), ("Aw", true), ("AAAAAw", true)]
        .into_iter()
        .chain(["", "AA", "AQ", "Ag", "AQAA", "AQABAQABAQAB"].map(|bad| (bad, false)))
    {
        let mut key = good.clone();
        key["e"] = json!(exponent);
        let set = json!({ "keys": [key] }).to_string();
        let read = public_keys::parse_key_set(set.as_bytes(), PublicAlgorithm::Rs256);
        assert_eq!(read.is_ok(), sound, "{exponent}");
    }
}

#[tokio::test]
async fn a_file_must_be_right_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    let written = AuthSettings {
        algorithm: "ES256",
        jwks: file.to_str().unwrap(),
        ..AuthSettings::default()
    };
    let config = AuthConfig::new(&written).unwrap();
    assert!(matches!(
        load(&config).await,
        Err(AuthLoadError::File { .. })
    ));
    std::fs::write(&file, "{}").unwrap();
    assert!(matches!(
        load(&config).await,
        Err(AuthLoadError::Key { .. })
    ));
    std::fs::File::create(&file)
        .unwrap()
        .set_len(1024 * 1024 + 1)
        .unwrap();
    let refused = load(&config).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "auth.jwks: the key set is longer than 1048576 bytes"
    );
}

#[tokio::test]
async fn a_token_with_an_unknown_key_id_triggers_at_most_one_fetch_per_interval() {
    let (first, second, stranger) = (TestKeyPair::ec(), TestKeyPair::ec(), TestKeyPair::ec());
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(Some("1"), &first)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    assert!(
        authenticator
            .verify(&token(&first, Some("1")))
            .await
            .is_ok()
    );
    assert_eq!(issuer.request_count(), 1);

    issuer.publish(&[(Some("1"), &first), (Some("2"), &second)]);
    assert_eq!(
        authenticator.verify(&token(&second, Some("2"))).await,
        Err(AuthError::UnknownKey)
    );
    assert_eq!(issuer.request_count(), 1);
    advance(&clock, MIN_FETCH_INTERVAL_MS);
    assert!(
        authenticator
            .verify(&token(&second, Some("2")))
            .await
            .is_ok()
    );
    assert_eq!(issuer.request_count(), 2);

    advance(&clock, MIN_FETCH_INTERVAL_MS);
    for kid in ["x", "y", "z"] {
        let refused = authenticator.verify(&token(&stranger, Some(kid))).await;
        assert_eq!(refused, Err(AuthError::UnknownKey));
    }
    assert_eq!(issuer.request_count(), 3);
    advance(&clock, MIN_FETCH_INTERVAL_MS);
    // A wrong signature of a known key does not start a fetch.
    let refused = authenticator.verify(&token(&stranger, Some("2"))).await;
    assert_eq!(
        (refused, issuer.request_count()),
        (Err(AuthError::Signature), 3)
    );
}

#[tokio::test]
async fn a_set_without_ids_is_followed_too() {
    let (first, second) = (TestKeyPair::ec(), TestKeyPair::ec());
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(None, &first)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    issuer.publish(&[(None, &second)]);
    advance(&clock, MIN_FETCH_INTERVAL_MS);
    assert!(authenticator.verify(&token(&first, None)).await.is_ok());
    assert!(authenticator.verify(&token(&second, None)).await.is_ok());
    assert_eq!(
        authenticator.verify(&token(&first, None)).await,
        Err(AuthError::Signature)
    );
}

#[tokio::test]
async fn tokens_of_a_removed_key_are_rejected_after_the_next_refresh() {
    let (old, new) = (TestKeyPair::ec(), TestKeyPair::ec());
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(Some("old"), &old), (Some("new"), &new)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    issuer.publish(&[(Some("new"), &new)]);
    advance(&clock, MAX_KEY_AGE_MS - 1);
    assert!(
        authenticator
            .verify(&token(&old, Some("old")))
            .await
            .is_ok()
    );
    assert_eq!(issuer.request_count(), 1);
    advance(&clock, 1);
    // This token does not wait for the fetch that it starts.
    assert!(
        authenticator
            .verify(&token(&new, Some("new")))
            .await
            .is_ok()
    );
    eventually("the old key is gone", async || {
        authenticator.verify(&token(&old, Some("old"))).await == Err(AuthError::UnknownKey)
    })
    .await;
    assert_eq!(issuer.request_count(), 2);
}

#[tokio::test]
async fn stale_keys_are_refreshed_before_a_token_is_verified() {
    let (old, new) = (TestKeyPair::ec(), TestKeyPair::ec());
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(Some("old"), &old)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    issuer.publish(&[(Some("new"), &new)]);
    advance(&clock, 2 * MAX_KEY_AGE_MS);
    let refused = authenticator.verify(&token(&old, Some("old"))).await;
    assert_eq!(
        (refused, issuer.request_count()),
        (Err(AuthError::UnknownKey), 2)
    );
}

#[tokio::test]
async fn many_tokens_with_an_unknown_key_cause_one_fetch_and_all_wait_for_it() {
    let (first, second) = (TestKeyPair::ec(), TestKeyPair::ec());
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(Some("1"), &first)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    issuer.publish(&[(Some("2"), &second)]);
    advance(&clock, MIN_FETCH_INTERVAL_MS);
    let token = token(&second, Some("2"));
    let all = futures_util::future::join_all((0..50).map(|_| authenticator.verify(&token))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(issuer.request_count(), 2);
}

#[tokio::test]
async fn a_fetch_continues_when_its_caller_is_cancelled() {
    let (first, second) = (TestKeyPair::ec(), TestKeyPair::ec());
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(Some("1"), &first)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    let authenticator = Arc::new(authenticator);
    issuer.publish(&[(Some("2"), &second)]);
    issuer.hold();
    advance(&clock, MIN_FETCH_INTERVAL_MS);
    let token = token(&second, Some("2"));
    let caller = tokio::spawn({
        let (authenticator, token) = (Arc::clone(&authenticator), token.clone());
        async move { authenticator.verify(&token).await }
    });
    eventually("the issuer is asked", async || issuer.request_count() == 2).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    issuer.release();
    assert!(authenticator.verify(&token).await.is_ok());
    assert_eq!(issuer.request_count(), 2);
}

#[tokio::test]
async fn a_failed_fetch_keeps_the_keys_and_is_logged_once() {
    let logs = CapturedLogs::collect();
    let (first, second) = (TestKeyPair::ec(), TestKeyPair::ec());
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(Some("1"), &first)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    // Each of these would be usable, except for its status or its length.
    let set = json!({ "keys": [second.jwk(Some("2"))] }).to_string();
    let huge = set.replacen('{', &format!("{{\"x\":\"{}\",", "x".repeat(2_000_000)), 1);
    let failures: [&dyn Fn(); 7] = [
        &|| issuer.say(500, &set),
        &|| issuer.say(302, &set),
        &|| issuer.say(200, "<html>"),
        &|| issuer.say(200, "{\"keys\":[]}"),
        &|| issuer.say(200, &huge),
        &|| issuer.raw(b"SSH-2.0-OpenSSH\r\n".to_vec()),
        &|| issuer.raw(Vec::new()),
    ];
    for fail in failures {
        fail();
        advance(&clock, MIN_FETCH_INTERVAL_MS);
        let refused = authenticator
            .verify(&token(&second, Some("2")))
            .await
            .unwrap_err();
        assert_eq!(
            (refused.code().name(), refused),
            ("keys_unavailable", AuthError::KeysUnavailable)
        );
        assert!(
            authenticator
                .verify(&token(&first, Some("1")))
                .await
                .is_ok()
        );
    }
    assert_eq!(issuer.request_count(), 1 + failures.len());
    let text = logs.text();
    assert_eq!(
        text.matches("cannot fetch the key set").count(),
        1,
        "{text}"
    );
    assert!(
        text.contains("/jwks.json ") && !text.contains("v=1"),
        "{text}"
    );
    issuer.publish(&[(Some("2"), &second)]);
    advance(&clock, MIN_FETCH_INTERVAL_MS);
    assert!(
        authenticator
            .verify(&token(&second, Some("2")))
            .await
            .is_ok()
    );
    assert_eq!(logs.text().matches("fetched the key set again").count(), 1);
}

#[tokio::test]
async fn an_issuer_that_is_unavailable_at_the_start_is_retried() {
    let pair = TestKeyPair::ec();
    let issuer = FakeIssuer::start().await;
    issuer.say(503, "");
    let (authenticator, clock) = authenticator_for(&issuer).await;
    let token = token(&pair, Some("1"));
    assert_eq!(
        authenticator.verify(&token).await,
        Err(AuthError::KeysUnavailable)
    );
    issuer.publish(&[(Some("1"), &pair)]);
    assert_eq!(
        authenticator.verify(&token).await,
        Err(AuthError::KeysUnavailable)
    );
    advance(&clock, MIN_FETCH_INTERVAL_MS);
    assert!(authenticator.verify(&token).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_never_answers_is_given_up() {
    let issuer = FakeIssuer::start().await;
    issuer.hold();
    let KeySource::Jwks { location, .. } = issuer.config("ES256").keys else {
        unreachable!()
    };
    let given_up = KeySetFetcher::new(location).unwrap().fetch().await;
    assert!(
        matches!(given_up, Err(KeySetFetchError::Timeout(5))),
        "{given_up:?}"
    );
}

#[tokio::test]
async fn https_is_checked_with_the_trusted_authorities() {
    let pair = TestKeyPair::ec();
    let (issuer, roots) = FakeIssuer::start_secure().await;
    issuer.publish(&[(Some("1"), &pair)]);
    let location = |address: &str| JwksLocation::Url(address.parse().unwrap());
    let trusting = KeySetFetcher::with_roots(location(&issuer.address), roots.clone()).unwrap();
    let set = RemoteKeySet::open(trusting, PublicAlgorithm::Es256, 1)
        .await
        .unwrap();
    let signed = token(&pair, Some("1"));
    let jwt = Jwt::read(&signed, Algorithm::ES256).unwrap();
    assert!(set.verify(&jwt, 1).await.is_ok());

    let (_, others) = FakeIssuer::start_secure().await;
    let stranger = KeySetFetcher::with_roots(location(&issuer.address), others).unwrap();
    let refused = stranger.fetch().await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    let other_name = issuer.address.replace("localhost", "127.0.0.1");
    let refused = KeySetFetcher::with_roots(location(&other_name), roots)
        .unwrap()
        .fetch()
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    assert_eq!(issuer.request_count(), 1);
}
