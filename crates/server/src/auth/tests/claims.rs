//! Checks of the claims and their times.

use parlor_chat::api::caller::Role;
use serde_json::{Value, json};

use super::super::claims::MAX_NAME_BYTES;
use super::super::*;
use super::fixtures::{
    NOW, SECRET, alice_claims, alice_claims_with, default_authenticator, hs256, with_secret,
};

/// Verifies a token of Alice whose claims are changed like this.
async fn verdict(changes: Value) -> Result<Caller, AuthError> {
    default_authenticator()
        .await
        .verify(&hs256(SECRET, &alice_claims_with(&changes)))
        .await
}

async fn refused_claim(changes: Value) -> &'static str {
    match verdict(changes.clone()).await {
        Err(error @ AuthError::Claim { claim, .. }) => {
            assert_eq!(error.code().name(), "token_invalid");
            claim
        }
        other => panic!("{changes}: {other:?}"),
    }
}

#[tokio::test]
async fn a_token_is_accepted_until_the_leeway_after_its_expiry() {
    let authenticator = default_authenticator().await;
    let end = (NOW + 3600) * 1_000;
    let token = hs256(SECRET, &alice_claims());
    for now in [end - 1, end, end + LEEWAY_MS - 1] {
        assert!(authenticator.verify_at(&token, now).await.is_ok(), "{now}");
    }
    for now in [end + LEEWAY_MS, end + LEEWAY_MS + 1, u64::MAX] {
        let refused = authenticator.verify_at(&token, now).await.unwrap_err();
        assert_eq!(
            (refused.code().name(), refused),
            ("token_expired", AuthError::Expired)
        );
    }
}

#[tokio::test]
async fn a_token_begins_with_the_leeway_before_its_time() {
    let authenticator = default_authenticator().await;
    for claim in ["iat", "nbf"] {
        let token = hs256(SECRET, &alice_claims_with(&json!({ claim: NOW + 100 })));
        let begin = (NOW + 100) * 1_000 - LEEWAY_MS;
        assert!(authenticator.verify_at(&token, begin).await.is_ok());
        let refused = authenticator
            .verify_at(&token, begin - 1)
            .await
            .unwrap_err();
        assert_eq!(
            (refused.code().name(), refused),
            ("token_not_yet_valid", AuthError::NotYetValid)
        );
    }
}

#[tokio::test]
async fn token_expiry_uses_the_injected_clock() {
    let clock = super::fixtures::test_clock();
    let written = AuthSettings {
        secret: SECRET,
        ..AuthSettings::default()
    };
    let config = AuthConfig::new(&written).unwrap();
    let data = std::path::Path::new("/nonexistent");
    let authenticator = Authenticator::load(&config, data, Arc::new(clock.clone()))
        .await
        .unwrap();
    let token = hs256(SECRET, &alice_claims());
    assert!(authenticator.verify(&token).await.is_ok());
    clock.advance(std::time::Duration::from_secs(3630));
    assert_eq!(authenticator.verify(&token).await, Err(AuthError::Expired));
}

#[tokio::test]
async fn every_token_needs_exp_and_user_tokens_need_sub_and_iat() {
    assert_eq!(refused_claim(json!({ "exp": null })).await, "exp");
    assert_eq!(refused_claim(json!({ "iat": null })).await, "iat");
    assert_eq!(refused_claim(json!({ "sub": null })).await, "sub");
    assert_eq!(
        refused_claim(json!({ "iat": null, "role": "admin" })).await,
        "iat"
    );
    assert_eq!(
        refused_claim(json!({ "exp": null, "role": "service" })).await,
        "exp"
    );
    let service = json!({ "sub": null, "iat": null, "name": null, "role": "service" });
    let caller = verdict(service).await.unwrap();
    assert_eq!(
        (caller.user, caller.name, caller.role, caller.issued_at),
        (None, None, Role::Service, None)
    );
}

#[tokio::test]
async fn claims_of_a_wrong_type_are_rejected_by_name() {
    for (claim, wrong) in [
        ("exp", json!("tomorrow")),
        ("exp", json!(-1)),
        ("exp", json!(1e18)),
        ("iat", json!("now")),
        ("nbf", json!("now")),
        ("sub", json!(7)),
        ("sub", json!("")),
        ("sub", json!("a:b")),
        ("sub", json!("{alice_claims}")),
        ("sub", json!("online")),
        ("sub", json!("x".repeat(129))),
        ("name", json!(7)),
        ("name", json!("x".repeat(257))),
        ("role", json!("root")),
        ("role", json!("Admin")),
        ("role", json!(["admin"])),
        ("anon", json!("true")),
    ] {
        assert_eq!(
            refused_claim(json!({ claim: wrong })).await,
            claim,
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn nested_claims_are_rejected() {
    for claim in ["exp", "iat", "nbf", "sub", "name", "role", "anon"] {
        for wrong in [json!([]), json!({}), json!([NOW]), json!({ "a": [1] })] {
            let refused = verdict(json!({ claim: wrong })).await.unwrap_err();
            assert_eq!(refused.code().name(), "token_invalid", "{claim} {wrong}");
        }
    }
}

#[tokio::test]
async fn roles_and_visitors_are_distinguished() {
    for (role, expected) in [
        (json!(null), Role::User),
        (json!("user"), Role::User),
        (json!("admin"), Role::Admin),
    ] {
        let caller = verdict(json!({ "role": role })).await.unwrap();
        assert_eq!(
            (caller.role, caller.user.unwrap().as_str()),
            (expected, "alice")
        );
    }
    let visitor = verdict(json!({ "anon": true })).await.unwrap();
    assert!(visitor.anonymous && visitor.role == Role::User);
    assert!(!verdict(json!({ "anon": false })).await.unwrap().anonymous);
    for role in ["admin", "service"] {
        assert_eq!(
            refused_claim(json!({ "anon": true, "role": role })).await,
            "anon"
        );
    }
    let service = verdict(json!({ "role": "service", "sub": "billing:prod", "name": null }))
        .await
        .unwrap();
    assert_eq!(
        (service.user, service.name.as_deref()),
        (None, Some("billing:prod"))
    );
}

#[tokio::test]
async fn the_name_of_a_service_is_limited_in_name_and_sub() {
    let service = |name: Value, sub: &str| json!({ "role": "service", "name": name, "sub": sub });
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    assert_eq!(refused_claim(service(json!(null), &long)).await, "sub");
    assert_eq!(refused_claim(service(json!(long), "billing")).await, "name");
    let caller = verdict(service(json!("Billing"), &long)).await.unwrap();
    assert_eq!(caller.name.as_deref(), Some("Billing"));
    let caller = verdict(service(json!(" "), " ")).await.unwrap();
    assert_eq!(caller.name, None);
}

#[tokio::test]
async fn times_may_have_fractions() {
    let caller = verdict(json!({ "exp": NOW as f64 + 10.5 })).await.unwrap();
    assert_eq!(caller.expires_at, NOW * 1_000 + 10_500);
}

#[tokio::test]
async fn audience_and_issuer_count_only_where_they_are_configured() {
    let claims = json!({ "aud": "them", "iss": 7 });
    assert!(verdict(claims).await.is_ok());
    let strict = with_secret(AuthSettings {
        secret: SECRET,
        audience: "chat",
        issuer: "https://id.example",
        ..AuthSettings::default()
    })
    .await;
    let iss = "https://id.example";
    for aud in [json!("chat"), json!(["mail", "chat"])] {
        let token = hs256(
            SECRET,
            &alice_claims_with(&json!({ "aud": aud, "iss": iss })),
        );
        assert!(strict.verify(&token).await.is_ok(), "{aud}");
    }
    for (aud, iss, claim) in [
        (json!(null), json!(iss), "aud"),
        (json!("chats"), json!(iss), "aud"),
        (json!([]), json!(iss), "aud"),
        (json!({ "chat": 1 }), json!(iss), "aud"),
        (json!("chat"), json!(null), "iss"),
        (json!("chat"), json!("https://id.example/"), "iss"),
        (json!("chat"), json!([iss]), "iss"),
    ] {
        let token = hs256(
            SECRET,
            &alice_claims_with(&json!({ "aud": aud, "iss": iss })),
        );
        match strict.verify(&token).await {
            Err(AuthError::Claim { claim: refused, .. }) => assert_eq!(refused, claim),
            other => panic!("{aud} {iss}: {other:?}"),
        }
    }
    let token = strict.issue(&TokenGrant {
        user: Some("alice".parse().unwrap()),
        name: None,
        role: Role::Admin,
        anonymous: false,
        ttl: std::time::Duration::from_millis(1),
    });
    let caller = strict.verify(&token.unwrap()).await.unwrap();
    assert_eq!(
        (caller.role, caller.expires_at),
        (Role::Admin, (NOW + 1) * 1_000)
    );
}

#[test]
fn a_token_is_taken_from_the_header() {
    assert_eq!(parse_bearer_token(Some("Bearer abc")), Ok("abc"));
    assert_eq!(parse_bearer_token(Some(" bearer  abc ")), Ok("abc"));
    // A malformed token, which `verify` rejects.
    assert_eq!(
        parse_bearer_token(Some("Bearer a, Bearer b")),
        Ok("a, Bearer b")
    );
    for header in [
        None,
        Some(""),
        Some("Bearer"),
        Some("abc"),
        Some("Basic abc"),
        Some("Bearer "),
        Some("Bearer\tabc"),
        Some("Bearer: abc"),
        Some("BearerX abc"),
    ] {
        let refused = parse_bearer_token(header).unwrap_err();
        assert_eq!(
            (refused.code().name(), refused),
            ("token_missing", AuthError::Missing)
        );
    }
}
