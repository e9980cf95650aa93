//! Tokens of the callers in tests.

use jsonwebtoken::{EncodingKey, Header};
use parlor_embedded::{Clock, SystemClock};
use serde_json::{Value, json};

pub const SECRET: &str = "one secret for all nodes that is long enough";

/// Token of a user.
pub fn user(id: &str) -> String {
    token_with_claims(id, &json!({}))
}

/// Token of an admin.
pub fn admin(id: &str) -> String {
    token_with_claims(id, &json!({ "role": "admin" }))
}

/// Token of a visitor.
pub fn visitor_token(id: &str) -> String {
    token_with_claims(id, &json!({ "anon": true }))
}

/// Token of a service.
pub fn service() -> String {
    signed(&json!({ "role": "service", "exp": now() + 600 }), SECRET)
}

/// Token of a user with additional or replaced claims.
pub fn token_with_claims(id: &str, claims: &Value) -> String {
    let mut all = json!({ "sub": id, "iat": now() - 60, "exp": now() + 600 });
    let claims = claims.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(claims);
    signed(&all, SECRET)
}

/// Current time in seconds.
pub fn now() -> u64 {
    SystemClock.now_ms() / 1_000
}

pub fn signed(claims: &Value, secret: &str) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes());
    jsonwebtoken::encode(&Header::default(), claims, &key).unwrap()
}
