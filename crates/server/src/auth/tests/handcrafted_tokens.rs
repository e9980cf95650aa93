//! Tokens that no library writes, signed with the right secret.

use jsonwebtoken::jwk::Jwk;
use serde_json::json;

use super::super::*;
use super::fixtures::{
    ALPHABET, KEY_PAIRS, NOW, SECRET, TestKeyPair, alice_claims, default_authenticator, encode,
    hs256, load,
};

const HEAD: &str = r#"{"alg":"HS256"}"#;

/// Signs a token with exactly these texts as header and claims.
fn signed(head: &str, claims: &str) -> String {
    let message = format!("{}.{}", encode(head), encode(claims));
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256);
    format!("{message}.{}", signature.unwrap())
}

/// The claims of Alice, followed by this JSON text.
fn alice_and(more: &str) -> String {
    let exp = NOW + 60;
    format!(r#"{{"sub":"alice","iat":{NOW},"exp":{exp}{more}}}"#)
}

#[tokio::test]
async fn ambiguous_token_headers_are_rejected() {
    let authenticator = default_authenticator().await;
    let claims = alice_and("");
    for head in [
        HEAD,
        "\r\n {\t\"alg\" : \"HS256\" }\n",
        r#"{"alg":"HS256","typ":"at+jwt","kid":"","x":{"y":[1]}}"#,
        // Unknown fields of the header are ignored.
        r#"{"alg":"HS256","typ":7,"typ":"JWT","jwk":"none"}"#,
    ] {
        let verdict = authenticator.verify(&signed(head, &claims)).await;
        assert!(verdict.is_ok(), "{head}: {verdict:?}");
    }
    for head in [
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256","\u0061lg":"none"}"#,
        r#"{"alg":"HS256","kid":"a","kid":"b"}"#,
        r#"{"alg":["HS256"]}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"alg":null}"#,
        r#"{"ALG":"HS256"}"#,
        r#"{"alg":"HS256","kid":7}"#,
        r#"{"alg":"HS256","crit":[]}"#,
        r#"{"alg":"HS256","crit":"b64"}"#,
        r#"{"alg":"HS256","crit":["b64"],"b64":false}"#,
        r#"{"alg":"HS256"}{}"#,
        r#"["HS256"]"#,
        r#"["HS256",null,null]"#,
        "\u{feff}{\"alg\":\"HS256\"}",
        "{}",
        "",
    ] {
        let verdict = authenticator.verify(&signed(head, &claims)).await;
        assert_eq!(verdict, Err(AuthError::Malformed), "{head}");
    }
}

#[tokio::test]
async fn duplicate_claims_are_rejected() {
    let authenticator = default_authenticator().await;
    for more in [
        format!(r#","exp":{}"#, NOW + 999_999),
        r#","sub":"bob""#.to_owned(),
        r#","role":"admin","role":"user""#.to_owned(),
    ] {
        let verdict = authenticator.verify(&signed(HEAD, &alice_and(&more))).await;
        assert_eq!(verdict, Err(AuthError::Malformed), "{more}");
    }
}

#[tokio::test]
async fn claims_that_are_no_object_or_have_invalid_numbers_are_rejected() {
    let authenticator = default_authenticator().await;
    let deep = |claim: &str| {
        let (open, close) = ("[".repeat(200), "]".repeat(200));
        alice_and(&format!(r#","{claim}":{open}{close}"#))
    };
    let seconds = NOW + 60;
    for claims in [
        "",
        "null",
        "7",
        "\"alice\"",
        &format!("[{seconds},null,\"alice\",null,null]"),
        &format!("[[\"exp\",{seconds}]]"),
        // A JSON array with all claims in the order of the fields.
        &format!("[\"alice\",null,null,null,{NOW},null,{seconds},null,null]"),
        r#"{"sub":"alice","iat":1800000000,"exp":1e400}"#,
        r#"{"sub":"alice","iat":1800000000,"exp":1e308}"#,
        r#"{"sub":"alice","iat":1800000000,"exp":253402300800}"#,
        r#"{"sub":"alice","iat":1800000000,"exp":-1e-9}"#,
        r#"{"sub":"alice","iat":1800000000,"exp":NaN}"#,
        r#"{"sub":"alice","iat":1800000000,"exp":true}"#,
        r#"{"sub":"alice","iat":-1,"exp":1800000060}"#,
        &deep("aud"),
        &alice_and(",}"),
    ] {
        let refused = authenticator
            .verify(&signed(HEAD, claims))
            .await
            .unwrap_err();
        assert_eq!(refused.code().name(), "token_invalid", "{claims}");
    }
    // Unknown claims are not parsed.
    let verdict = authenticator.verify(&signed(HEAD, &deep("x"))).await;
    assert!(verdict.is_ok(), "{verdict:?}");
    let zero = r#"{"sub":"alice","iat":0,"exp":-0.0}"#;
    let verdict = authenticator.verify(&signed(HEAD, zero)).await;
    assert_eq!(verdict, Err(AuthError::Expired));
}

#[tokio::test]
async fn non_canonical_base64_tokens_are_rejected() {
    let authenticator = default_authenticator().await;
    let good = hs256(SECRET, &alice_claims());
    assert!(authenticator.verify(&good).await.is_ok());
    let last = good.bytes().last().unwrap();
    let at = ALPHABET.iter().position(|letter| *letter == last).unwrap();
    // The last letter of an encoded 32-byte value has two unused bits.
    let other = char::from(ALPHABET[at ^ 1]);
    let body = &good[..good.len() - 1];
    let padded: Vec<String> = good.split('.').map(|part| format!("{part}=")).collect();
    for token in [
        format!("{body}{other}"),
        format!("{good}="),
        format!("{good}\n"),
        format!(" {good}"),
        format!("{good}."),
        format!(".{good}"),
        format!("{good}.{good}"),
        good.replacen('.', ". ", 1),
        padded.join("."),
    ] {
        let refused = authenticator.verify(&token).await.unwrap_err();
        assert_eq!(refused.code().name(), "token_invalid", "{token}");
    }
}

#[tokio::test]
async fn a_key_inside_the_token_is_not_trusted() {
    let (pair, thief) = (&KEY_PAIRS[1], TestKeyPair::ec());
    let authenticator = load(&pair.auth_config()).await.unwrap();
    let mut header = Header::new(Algorithm::ES256);
    header.jwk = Some(Jwk::from_encoding_key(&thief.private, Algorithm::ES256).unwrap());
    header.jku = Some("http://127.0.0.1:1/jwks.json".to_owned());
    header.x5u.clone_from(&header.jku);
    let token = jsonwebtoken::encode(&header, &alice_claims(), &thief.private).unwrap();
    assert_eq!(
        authenticator.verify(&token).await,
        Err(AuthError::Signature)
    );
}

#[tokio::test]
async fn an_all_zero_signature_is_rejected() {
    for pair in KEY_PAIRS.iter() {
        let authenticator = load(&pair.auth_config()).await.unwrap();
        let good = pair.sign(
            None,
            &json!({ "sub": "alice", "iat": NOW, "exp": NOW + 60 }),
        );
        let (message, signature) = good.rsplit_once('.').unwrap();
        let token = format!("{message}.{}", "A".repeat(signature.len()));
        assert_eq!(
            authenticator.verify(&token).await,
            Err(AuthError::Signature)
        );
    }
}
