//! Keys and tokens for the other tests.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use parlor_embedded::ManualClock;
use rsa::pkcs1::EncodeRsaPrivateKey;
use rsa::pkcs8::EncodePublicKey;
use serde_json::{Value, json};

use super::super::*;

/// Time of the tests, in seconds since 1970.
pub const NOW: u64 = 1_800_000_000;
pub const SECRET: &str = "a secret of more than thirty-two bytes";

pub const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// URL-safe Base64, for tokens that no library would write.
pub fn encode(text: &str) -> String {
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let byte = |at| u32::from(*chunk.get(at).unwrap_or(&0));
        let number = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=chunk.len() {
            out.push(ALPHABET[(number >> (18 - 6 * place)) as usize & 63] as char);
        }
    }
    out
}

/// Key pair of an issuer.
#[derive(Clone)]
pub struct TestKeyPair {
    pub algorithm: Algorithm,
    pub public_pem: String,
    pub private: EncodingKey,
}

impl TestKeyPair {
    pub fn rsa(bits: usize) -> TestKeyPair {
        let key = rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, bits).unwrap();
        let ending = rsa::pkcs8::LineEnding::LF;
        TestKeyPair {
            algorithm: Algorithm::RS256,
            public_pem: key.to_public_key().to_public_key_pem(ending).unwrap(),
            private: EncodingKey::from_rsa_der(key.to_pkcs1_der().unwrap().as_bytes()),
        }
    }

    pub fn ec() -> TestKeyPair {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        TestKeyPair {
            algorithm: Algorithm::ES256,
            public_pem: key.public_key_pem(),
            private: EncodingKey::from_ec_pem(key.serialize_pem().as_bytes()).unwrap(),
        }
    }

    pub fn ed() -> TestKeyPair {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        // ring includes the public key in the private key document, and the JWT library cannot read that format.
        let mut der = vec![
            0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
        ];
        der.extend_from_slice(&key.serialized_der()[16..48]);
        TestKeyPair {
            algorithm: Algorithm::EdDSA,
            public_pem: key.public_key_pem(),
            private: EncodingKey::from_ed_der(&der),
        }
    }

    pub fn sign(&self, kid: Option<&str>, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = kid.map(str::to_owned);
        jsonwebtoken::encode(&header, claims, &self.private).unwrap()
    }

    pub fn jwk(&self, kid: Option<&str>) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.private, self.algorithm).unwrap();
        jwk.common.key_id = kid.map(str::to_owned);
        serde_json::to_value(jwk).unwrap()
    }

    pub fn name(&self) -> &'static str {
        match self.algorithm {
            Algorithm::RS256 => "RS256",
            Algorithm::ES256 => "ES256",
            _ => "EdDSA",
        }
    }

    pub fn auth_config(&self) -> AuthConfig {
        AuthConfig::new(&AuthSettings {
            algorithm: self.name(),
            public_key: &self.public_pem,
            ..AuthSettings::default()
        })
        .unwrap()
    }
}

/// One key pair per algorithm, shared by all tests because generating RSA keys is slow.
pub static KEY_PAIRS: LazyLock<[TestKeyPair; 3]> =
    LazyLock::new(|| [TestKeyPair::rsa(2048), TestKeyPair::ec(), TestKeyPair::ed()]);

/// Claims of a token of a user.
pub fn alice_claims() -> Value {
    json!({ "sub": "alice", "name": "Alice", "iat": NOW, "exp": NOW + 3600 })
}

/// The claims of Alice with some replaced; `null` removes a claim.
pub fn alice_claims_with(changes: &Value) -> Value {
    let mut claims = alice_claims();
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    let object = claims.as_object_mut().unwrap();
    object.retain(|_, value| !value.is_null());
    claims
}

pub fn hs256(secret: &str, claims: &Value) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

pub fn test_clock() -> ManualClock {
    ManualClock::new(NOW * 1_000)
}

pub async fn load(config: &AuthConfig) -> Result<Authenticator, AuthLoadError> {
    let nowhere = Path::new("/nonexistent");
    Authenticator::load(config, nowhere, Arc::new(test_clock())).await
}

/// An authenticator for HS256 with these settings.
pub async fn with_secret(written: AuthSettings<'_>) -> Authenticator {
    load(&AuthConfig::new(&written).unwrap()).await.unwrap()
}

pub async fn default_authenticator() -> Authenticator {
    with_secret(AuthSettings {
        secret: SECRET,
        ..AuthSettings::default()
    })
    .await
}
