//! Checks the section `auth`. The result has exactly one source of keys, so contradicting settings cannot be
//! represented.

use std::fmt;
use std::path::PathBuf;

use hyper::Uri;

use super::secret::SharedSecret;
use crate::client_address::is_loopback_host;

/// Checked authentication settings: which tokens the server accepts.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Keys that verify signatures.
    pub keys: KeySource,
    /// Required audience (claim `aud`); `None` accepts any.
    pub audience: Option<String>,
    /// Required issuer (claim `iss`); `None` accepts any.
    pub issuer: Option<String>,
}

/// Source of the keys that verify signatures.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// HS256 with a secret that the server generates once and keeps in the data folder.
    Generated,
    /// HS256: the first secret signs, both verify.
    Secrets(SharedSecret, Option<SharedSecret>),
    /// One public key.
    PublicKey {
        /// Algorithm of the key.
        algorithm: PublicAlgorithm,
        /// The key, as PEM.
        pem: PublicKeyPem,
    },
    /// A JSON Web Key Set.
    Jwks {
        /// Algorithm of the keys; keys for other algorithms are ignored.
        algorithm: PublicAlgorithm,
        /// File or URL of the key set.
        location: JwksLocation,
    },
}

/// A signature algorithm with public keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicAlgorithm {
    /// RSA with SHA-256.
    Rs256,
    /// ECDSA on P-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl PublicAlgorithm {
    /// Name of the algorithm in the header of a token.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// A public key as it is configured.
#[derive(Clone, PartialEq, Eq)]
pub enum PublicKeyPem {
    /// The PEM text itself.
    Text(String),
    /// Path of the PEM file.
    File(PathBuf),
}

impl fmt::Debug for PublicKeyPem {
    /// Omits the text: a private key that was configured by mistake must stay secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("PublicKeyPem(text)"),
            Self::File(path) => write!(f, "PublicKeyPem({})", path.display()),
        }
    }
}

/// Location of a key set.
#[derive(Clone, PartialEq, Eq)]
pub enum JwksLocation {
    /// Path of a file.
    File(PathBuf),
    /// `http` or `https` URL.
    Url(Uri),
}

impl fmt::Display for JwksLocation {
    /// Omits the query, which may contain an access key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Url(uri) => {
                let scheme = uri.scheme_str().unwrap_or_default();
                let host = uri.authority().map_or("", |host| host.as_str());
                write!(f, "{scheme}://{host}{}", uri.path())
            }
        }
    }
}

impl fmt::Debug for JwksLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JwksLocation({self})")
    }
}

impl JwksLocation {
    /// True if the key set comes from another host without TLS, so that an attacker on the network could replace the
    /// keys.
    pub(super) fn is_unencrypted_remote(&self) -> bool {
        let Self::Url(uri) = self else {
            return false;
        };
        uri.scheme_str() != Some("https") && !is_loopback_host(uri.host().unwrap_or_default())
    }
}

/// Texts of the section `auth` as they are configured; an empty text means "not set".
#[derive(Clone, Copy, Default)]
pub struct AuthSettings<'a> {
    /// `auth.secret`.
    pub secret: &'a str,
    /// `auth.algorithm`.
    pub algorithm: &'a str,
    /// `auth.public_key`.
    pub public_key: &'a str,
    /// `auth.jwks`.
    pub jwks: &'a str,
    /// `auth.audience`.
    pub audience: &'a str,
    /// `auth.issuer`.
    pub issuer: &'a str,
}

/// Settings of the section `auth` that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AuthConfigError {
    /// Names of these settings.
    pub settings: &'static [&'static str],
    message: String,
}

fn config_error<T>(
    settings: &'static [&'static str],
    message: impl Into<String>,
) -> Result<T, AuthConfigError> {
    let message = message.into();
    Err(AuthConfigError { settings, message })
}

impl AuthConfig {
    /// Checks the configured texts.
    pub fn new(settings: &AuthSettings<'_>) -> Result<Self, AuthConfigError> {
        use PublicAlgorithm::{EdDsa, Es256, Rs256};
        let mut algorithms = [Rs256, Es256, EdDsa].into_iter();
        let keys = match algorithms.find(|algorithm| algorithm.name() == settings.algorithm) {
            Some(algorithm) => public_key_source(settings, algorithm)?,
            None => secret_key_source(settings)?,
        };
        let set = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Ok(Self {
            keys,
            audience: set(settings.audience),
            issuer: set(settings.issuer),
        })
    }

    /// True if this server can issue tokens itself.
    pub fn can_issue_tokens(&self) -> bool {
        matches!(self.keys, KeySource::Generated | KeySource::Secrets(..))
    }
}

fn secret_key_source(settings: &AuthSettings<'_>) -> Result<KeySource, AuthConfigError> {
    for (value, names) in [
        (settings.public_key, &["auth.public_key", "auth.algorithm"]),
        (settings.jwks, &["auth.jwks", "auth.algorithm"]),
    ] {
        if !value.is_empty() {
            let name = names[0];
            let message = format!(
                "{name} needs auth.algorithm = RS256, ES256 or EdDSA; HS256 tokens are verified with auth.secret"
            );
            return config_error(names, message);
        }
    }
    let parts = settings.secret.split(',').map(str::trim);
    let mut secrets = parts.filter(|part| !part.is_empty()).map(SharedSecret::new);
    match (secrets.next(), secrets.next(), secrets.next()) {
        (None, ..) if settings.secret.is_empty() => Ok(KeySource::Generated),
        (None, ..) => config_error(
            &["auth.secret"],
            "auth.secret holds no secret; remove the setting to use a generated secret",
        ),
        (Some(first), second, None) => Ok(KeySource::Secrets(first, second)),
        (Some(_), _, Some(_)) => config_error(
            &["auth.secret"],
            "auth.secret holds more than two secrets; set the secret that signs and, while tokens of the previous secret are valid, a comma and the previous secret",
        ),
    }
}

fn public_key_source(
    settings: &AuthSettings<'_>,
    algorithm: PublicAlgorithm,
) -> Result<KeySource, AuthConfigError> {
    let name = algorithm.name();
    if !settings.secret.is_empty() {
        let message = format!(
            "auth.secret is not used with {name}; remove it, or set auth.algorithm to HS256"
        );
        return config_error(&["auth.secret", "auth.algorithm"], message);
    }
    match (settings.public_key, settings.jwks) {
        ("", "") => config_error(
            &["auth.algorithm"],
            format!("auth.algorithm {name} needs auth.public_key or auth.jwks"),
        ),
        (_, "") => Ok(KeySource::PublicKey {
            algorithm,
            pem: parse_pem(settings.public_key),
        }),
        ("", _) => Ok(KeySource::Jwks {
            algorithm,
            location: parse_jwks_location(settings.jwks)?,
        }),
        _ => config_error(
            &["auth.public_key", "auth.jwks"],
            "auth.public_key and auth.jwks exclude each other; set only one of them",
        ),
    }
}

fn parse_pem(text: &str) -> PublicKeyPem {
    if !text.contains("-----BEGIN ") {
        return PublicKeyPem::File(text.into());
    }
    // Environment variables often carry a PEM in one line, with `\n` in place of each line break.
    PublicKeyPem::Text(if text.contains('\n') {
        text.to_owned()
    } else {
        text.replace("\\n", "\n")
    })
}

fn parse_jwks_location(text: &str) -> Result<JwksLocation, AuthConfigError> {
    const SETTING: &[&str] = &["auth.jwks"];
    if !text.contains("://") {
        return Ok(JwksLocation::File(text.into()));
    }
    // The text may contain a password, so the error does not repeat it.
    let Some(uri) = text.parse::<Uri>().ok().filter(has_valid_authority) else {
        return config_error(
            SETTING,
            "auth.jwks is not a URL like https://issuer.example/jwks.json",
        );
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return config_error(
            SETTING,
            "auth.jwks must be the path of a file or begin with https:// or http://",
        );
    }
    if uri
        .authority()
        .is_some_and(|host| host.as_str().contains('@'))
    {
        return config_error(
            SETTING,
            "auth.jwks must not contain a user or a password; key sets are public",
        );
    }
    Ok(JwksLocation::Url(uri))
}

/// True if the URL has a host and its port, if any, is valid. hyper treats an invalid port as no port.
fn has_valid_authority(uri: &Uri) -> bool {
    uri.authority().is_some_and(|authority| {
        let host = authority.host();
        let port = authority
            .as_str()
            .rsplit_once(host)
            .map_or("", |(_, port)| port);
        !host.is_empty() && (port.is_empty() || authority.port_u16().is_some())
    })
}
