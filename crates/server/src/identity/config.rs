//! The section `auth`, checked: what can be built of it is one of four ways to know a token, never a mixture.

use std::fmt;
use std::path::PathBuf;

use hyper::Uri;

use super::secret::Secret;

/// Which tokens are accepted.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// What signatures are checked with.
    pub keys: KeySource,
    /// The `aud` a token must have.
    pub audience: Option<String>,
    /// The `iss` a token must have.
    pub issuer: Option<String>,
}

/// What signatures are checked with.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// HS256 with a secret that is made once and kept in the data folder.
    Generated,
    /// HS256: the first secret signs, each verifies.
    Secrets(Secret, Option<Secret>),
    /// One public key.
    PublicKey {
        /// The algorithm of the key.
        algorithm: PublicAlgorithm,
        /// The key.
        pem: Pem,
    },
    /// A JSON Web Key Set.
    Jwks {
        /// The algorithm of the keys that count.
        algorithm: PublicAlgorithm,
        /// Where it is.
        location: Location,
    },
}

/// A signature algorithm with a public key.
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
    /// Its name in a token.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// A public key as it was configured.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The PEM itself.
    Text(String),
    /// The file that holds it.
    File(PathBuf),
}

impl fmt::Debug for Pem {
    /// Without the text: a private key put here by mistake is still a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Pem(text)"),
            Self::File(path) => write!(f, "Pem({})", path.display()),
        }
    }
}

/// Where a key set is.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A file.
    File(PathBuf),
    /// An `http` or `https` address.
    Address(Uri),
}

impl fmt::Display for Location {
    /// Without the query, which may hold a key of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Address(uri) => {
                let scheme = uri.scheme_str().unwrap_or_default();
                let host = uri.authority().map_or("", |host| host.as_str());
                write!(f, "{scheme}://{host}{}", uri.path())
            }
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

impl Location {
    /// True if others on the way could replace the keys: they come over a network without TLS.
    pub(super) fn is_exposed(&self) -> bool {
        let Self::Address(uri) = self else {
            return false;
        };
        let host = uri.host().unwrap_or_default();
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse();
        let here = host == "localhost" || ip.is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        uri.scheme_str() != Some("https") && !here
    }
}

/// The section as it was written; empty is not set.
#[derive(Clone, Copy, Default)]
pub struct Written<'a> {
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

/// Settings of the section that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    /// The settings it is about.
    pub settings: &'static [&'static str],
    message: String,
}

fn wrong<T>(
    settings: &'static [&'static str],
    message: impl Into<String>,
) -> Result<T, ConfigError> {
    let message = message.into();
    Err(ConfigError { settings, message })
}

impl AuthConfig {
    /// Checks what was written.
    pub fn new(written: &Written<'_>) -> Result<Self, ConfigError> {
        let keys = match written.algorithm {
            "RS256" => public(written, PublicAlgorithm::Rs256)?,
            "ES256" => public(written, PublicAlgorithm::Es256)?,
            "EdDSA" => public(written, PublicAlgorithm::EdDsa)?,
            _ => shared(written)?,
        };
        let set = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Ok(Self {
            keys,
            audience: set(written.audience),
            issuer: set(written.issuer),
        })
    }

    /// True if this server can sign tokens itself.
    pub fn signs(&self) -> bool {
        matches!(self.keys, KeySource::Generated | KeySource::Secrets(..))
    }
}

fn shared(written: &Written<'_>) -> Result<KeySource, ConfigError> {
    for (value, settings) in [
        (written.public_key, &["auth.public_key", "auth.algorithm"]),
        (written.jwks, &["auth.jwks", "auth.algorithm"]),
    ] {
        if !value.is_empty() {
            let name = settings[0];
            let message = format!(
                "{name} needs auth.algorithm = RS256, ES256 or EdDSA; HS256 is signed and checked with auth.secret"
            );
            return wrong(settings, message);
        }
    }
    let parts = written.secret.split(',').map(str::trim);
    let mut secrets = parts.filter(|part| !part.is_empty()).map(Secret::new);
    match (secrets.next(), secrets.next(), secrets.next()) {
        (None, ..) if written.secret.is_empty() => Ok(KeySource::Generated),
        (None, ..) => wrong(
            &["auth.secret"],
            "auth.secret holds no secret; remove it to have one generated",
        ),
        (Some(first), second, None) => Ok(KeySource::Secrets(first, second)),
        (Some(_), _, Some(_)) => wrong(
            &["auth.secret"],
            "auth.secret holds more than two secrets; give the one that signs and, while tokens of the former one live, that one behind a comma",
        ),
    }
}

fn public(written: &Written<'_>, algorithm: PublicAlgorithm) -> Result<KeySource, ConfigError> {
    let name = algorithm.name();
    if !written.secret.is_empty() {
        let message = format!(
            "auth.secret is not used with {name}; remove it, or set auth.algorithm to HS256"
        );
        return wrong(&["auth.secret", "auth.algorithm"], message);
    }
    match (written.public_key, written.jwks) {
        ("", "") => wrong(
            &["auth.algorithm"],
            format!("auth.algorithm {name} needs auth.public_key or auth.jwks"),
        ),
        (_, "") => Ok(KeySource::PublicKey {
            algorithm,
            pem: pem(written.public_key),
        }),
        ("", _) => Ok(KeySource::Jwks {
            algorithm,
            location: location(written.jwks)?,
        }),
        _ => wrong(
            &["auth.public_key", "auth.jwks"],
            "auth.public_key and auth.jwks exclude each other; set one",
        ),
    }
}

fn pem(written: &str) -> Pem {
    if !written.contains("-----BEGIN ") {
        return Pem::File(written.into());
    }
    // Variables often carry a PEM in one line, with `\n` spelled out.
    Pem::Text(if written.contains('\n') {
        written.to_owned()
    } else {
        written.replace("\\n", "\n")
    })
}

fn location(written: &str) -> Result<Location, ConfigError> {
    const SETTING: &[&str] = &["auth.jwks"];
    if !written.contains("://") {
        return Ok(Location::File(written.into()));
    }
    // The text may hold a password, so it is not repeated.
    let Some(uri) = written.parse::<Uri>().ok().filter(leads_somewhere) else {
        return wrong(
            SETTING,
            "auth.jwks is not an address like https://issuer.example/jwks.json",
        );
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return wrong(
            SETTING,
            "auth.jwks must be a file or begin with https:// or http://",
        );
    }
    if uri
        .authority()
        .is_some_and(|host| host.as_str().contains('@'))
    {
        return wrong(
            SETTING,
            "auth.jwks must not hold a user or a password; key sets are public",
        );
    }
    Ok(Location::Address(uri))
}

/// A host, and a port that exists where one is written: the library takes any other for none.
fn leads_somewhere(uri: &Uri) -> bool {
    uri.authority().is_some_and(|authority| {
        let host = authority.host();
        let port = authority
            .as_str()
            .rsplit_once(host)
            .map_or("", |(_, port)| port);
        !host.is_empty() && (port.is_empty() || authority.port_u16().is_some())
    })
}
