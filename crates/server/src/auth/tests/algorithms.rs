//! Each algorithm accepts its own tokens and rejects those of the others.

use parlor_chat::api::caller::Role;
use serde_json::json;

use super::super::*;
use super::fixtures::{
    KEY_PAIRS, NOW, SECRET, TestKeyPair, alice_claims, default_authenticator, encode, hs256, load,
    with_secret,
};

#[tokio::test]
async fn a_token_of_each_algorithm_is_accepted_by_its_public_key() {
    for pair in KEY_PAIRS.iter() {
        let authenticator = load(&pair.auth_config()).await.unwrap();
        let caller = authenticator
            .verify(&pair.sign(None, &alice_claims()))
            .await
            .unwrap();
        assert_eq!(caller.user.unwrap().as_str(), "alice");
        assert_eq!(caller.name.as_deref(), Some("Alice"));
        assert_eq!((caller.role, caller.anonymous), (Role::User, false));
        assert_eq!(caller.issued_at, Some(NOW * 1_000));
        assert_eq!(caller.expires_at, (NOW + 3600) * 1_000);
    }
    let authenticator = default_authenticator().await;
    assert!(
        authenticator
            .verify(&hs256(SECRET, &alice_claims()))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_signature_of_another_key_is_rejected() {
    for (pair, other) in [
        (&KEY_PAIRS[0], TestKeyPair::rsa(2048)),
        (&KEY_PAIRS[1], TestKeyPair::ec()),
        (&KEY_PAIRS[2], TestKeyPair::ed()),
    ] {
        let authenticator = load(&pair.auth_config()).await.unwrap();
        let refused = authenticator
            .verify(&other.sign(None, &alice_claims()))
            .await;
        assert_eq!(refused, Err(AuthError::Signature));
    }
    let token = hs256(
        "another secret of more than thirty-two bytes",
        &alice_claims(),
    );
    let refused = default_authenticator()
        .await
        .verify(&token)
        .await
        .unwrap_err();
    assert_eq!(
        (refused.code().name(), refused),
        ("token_invalid", AuthError::Signature)
    );
}

#[tokio::test]
async fn only_the_configured_algorithm_is_accepted() {
    for pair in KEY_PAIRS.iter() {
        let authenticator = load(&pair.auth_config()).await.unwrap();
        for other in KEY_PAIRS.iter().filter(|other| other.name() != pair.name()) {
            let refused = authenticator
                .verify(&other.sign(None, &alice_claims()))
                .await;
            assert_eq!(refused, Err(AuthError::Algorithm(pair.algorithm)));
        }
        // The public key is not secret: if it were accepted as an HS256 secret, anyone could sign tokens.
        let forged = hs256(&pair.public_pem, &alice_claims());
        let refused = authenticator.verify(&forged).await;
        assert_eq!(refused, Err(AuthError::Algorithm(pair.algorithm)));
        let refused = default_authenticator()
            .await
            .verify(&pair.sign(None, &alice_claims()))
            .await;
        assert_eq!(refused, Err(AuthError::Algorithm(Algorithm::HS256)));
    }
}

#[tokio::test]
async fn a_token_with_another_hash_size_is_rejected() {
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    let token =
        jsonwebtoken::encode(&Header::new(Algorithm::HS512), &alice_claims(), &key).unwrap();
    assert_eq!(
        default_authenticator().await.verify(&token).await,
        Err(AuthError::Algorithm(Algorithm::HS256))
    );
}

#[tokio::test]
async fn a_token_without_signature_is_rejected() {
    let claims = encode(&alice_claims().to_string());
    let mut authenticators = vec![default_authenticator().await];
    for pair in KEY_PAIRS.iter() {
        authenticators.push(load(&pair.auth_config()).await.unwrap());
    }
    for authenticator in authenticators {
        for alg in [
            "none", "None", "NONE", "", "HS256", "RS256", "ES256", "EdDSA",
        ] {
            let head = encode(&json!({ "alg": alg, "typ": "JWT" }).to_string());
            for token in [format!("{head}.{claims}."), format!("{head}.{claims}")] {
                let refused = authenticator.verify(&token).await.unwrap_err();
                assert_eq!(refused.code().name(), "token_invalid", "{alg}");
            }
        }
    }
}

#[tokio::test]
async fn a_token_header_with_an_unknown_critical_extension_is_rejected() {
    let mut header = Header::new(Algorithm::HS256);
    header.crit = Some(vec!["exp".into()]);
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    let token = jsonwebtoken::encode(&header, &alice_claims(), &key).unwrap();
    assert_eq!(
        default_authenticator().await.verify(&token).await,
        Err(AuthError::Malformed)
    );
}

#[tokio::test]
async fn two_secrets_verify_and_the_first_signs() {
    let (old, new) = (
        "the old secret of thirty-two bytes and more",
        "the new secret of thirty-two bytes and more",
    );
    let only = |secret| AuthSettings {
        secret,
        ..AuthSettings::default()
    };
    let both = format!("{new}, {old}");
    let rotating = with_secret(only(&both)).await;
    for secret in [old, new] {
        assert!(
            rotating
                .verify(&hs256(secret, &alice_claims()))
                .await
                .is_ok()
        );
    }
    let grant = TokenGrant {
        user: Some("bob".parse().unwrap()),
        name: None,
        role: Role::User,
        anonymous: false,
        ttl: std::time::Duration::from_secs(60),
    };
    let token = rotating.issue(&grant).unwrap();
    assert!(with_secret(only(new)).await.verify(&token).await.is_ok());
    assert_eq!(
        with_secret(only(old)).await.verify(&token).await,
        Err(AuthError::Signature)
    );
}

#[tokio::test]
async fn only_a_shared_secret_issues_tokens() {
    let grant = TokenGrant {
        user: Some("bob".parse().unwrap()),
        name: None,
        role: Role::User,
        anonymous: false,
        ttl: std::time::Duration::from_secs(60),
    };
    for pair in KEY_PAIRS.iter() {
        let authenticator = load(&pair.auth_config()).await.unwrap();
        assert_eq!(
            authenticator.issue(&grant),
            Err(TokenIssueError::NoSigningKey)
        );
    }
    let nobody = TokenGrant {
        user: None,
        ..grant
    };
    assert!(matches!(
        default_authenticator().await.issue(&nobody),
        Err(TokenIssueError::WouldBeRejected(_))
    ));
}

#[tokio::test]
async fn keys_of_another_algorithm_are_rejected_at_the_start() {
    let weak = TestKeyPair::rsa(1024);
    let mut refusals = vec![(weak.auth_config(), "the RSA key has 1024 bits".to_owned())];
    for pair in KEY_PAIRS.iter() {
        for other in KEY_PAIRS.iter().filter(|other| other.name() != pair.name()) {
            let mut config = pair.auth_config();
            config.keys = match (config.keys, other.auth_config().keys) {
                (KeySource::PublicKey { algorithm, .. }, KeySource::PublicKey { pem, .. }) => {
                    KeySource::PublicKey { algorithm, pem }
                }
                _ => unreachable!(),
            };
            refusals.push((
                config,
                format!("not a public key (PEM) for {}", pair.name()),
            ));
        }
    }
    let private = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let mut config = KEY_PAIRS[1].auth_config();
    config.keys = KeySource::PublicKey {
        algorithm: PublicAlgorithm::Es256,
        pem: PublicKeyPem::Text(private),
    };
    refusals.push((config, "this is a private key".into()));
    for (config, said) in refusals {
        let error = load(&config).await.unwrap_err().to_string();
        assert!(error.contains(&said), "{error}");
    }
}

#[tokio::test]
async fn a_public_key_may_be_in_a_file_or_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem");
    let pair = &KEY_PAIRS[1];
    std::fs::write(&file, &pair.public_pem).unwrap();
    for public_key in [
        file.to_str().unwrap(),
        &pair.public_pem.replace('\n', "\\n"),
    ] {
        let written = AuthSettings {
            algorithm: "ES256",
            public_key,
            ..AuthSettings::default()
        };
        let authenticator = load(&AuthConfig::new(&written).unwrap()).await.unwrap();
        assert!(
            authenticator
                .verify(&pair.sign(None, &alice_claims()))
                .await
                .is_ok()
        );
    }
    std::fs::remove_file(&file).unwrap();
    let written = AuthSettings {
        algorithm: "ES256",
        public_key: file.to_str().unwrap(),
        ..AuthSettings::default()
    };
    let error = load(&AuthConfig::new(&written).unwrap()).await.unwrap_err();
    assert!(
        error.to_string().ends_with("key.pem cannot be read"),
        "{error}"
    );
}

#[tokio::test]
async fn nothing_that_is_printed_for_debugging_holds_a_secret() {
    let written = AuthSettings {
        secret: SECRET,
        ..AuthSettings::default()
    };
    let config = AuthConfig::new(&written).unwrap();
    let printed = format!("{config:?} {:?}", load(&config).await.unwrap());
    assert!(!printed.contains("thirty"), "{printed}");
    // The private key may be configured by mistake instead of the public key.
    let private = PublicKeyPem::Text(rcgen::KeyPair::generate().unwrap().serialize_pem());
    assert!(!format!("{private:?}").contains("KEY"));
}
