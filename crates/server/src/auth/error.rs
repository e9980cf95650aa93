//! Errors of tokens and of the authentication settings.
//!
//! Invariant: no error text contains a secret, a key or a token.

use std::path::PathBuf;

use parlor_chat::api::error_code::Code;

/// Reason why a token is rejected. [`AuthError::code`] is stable, the text is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request has no token.
    #[error("a token is needed; send it as `Authorization: Bearer TOKEN`")]
    Missing,
    /// The token is not a JWT, or it is too long or cannot be decoded.
    #[error("the token is not a well-formed JWT")]
    Malformed,
    /// The token names another algorithm than the configured one.
    #[error("the token is not signed with {0:?}, the only accepted algorithm")]
    Algorithm(jsonwebtoken::Algorithm),
    /// No configured key has made this signature.
    #[error("the token signature is not valid")]
    Signature,
    /// The token names a key id that is not in the key set.
    #[error("no configured key has the key id (kid) of this token")]
    UnknownKey,
    /// A claim is missing or invalid.
    #[error("the token's claim `{claim}` {problem}")]
    Claim {
        /// Name of the claim.
        claim: &'static str,
        /// Problem with the claim, as the end of a sentence.
        problem: String,
    },
    /// The time `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// The time `nbf` or `iat` lies in the future.
    #[error("the token is not valid yet; the clock of its issuer may be wrong")]
    NotYetValid,
    /// The key set could not be fetched, so the signature cannot be checked.
    #[error("the keys of the issuer cannot be fetched at the moment; try again later")]
    KeysUnavailable,
}

impl AuthError {
    /// Stable error code of the API.
    pub const fn code(&self) -> Code {
        match self {
            Self::Missing => Code::TokenMissing,
            Self::Expired => Code::TokenExpired,
            Self::NotYetValid => Code::TokenNotYetValid,
            Self::KeysUnavailable => Code::KeysUnavailable,
            Self::Malformed
            | Self::Algorithm(_)
            | Self::Signature
            | Self::UnknownKey
            | Self::Claim { .. } => Code::TokenInvalid,
        }
    }

    pub(super) fn claim(claim: &'static str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self::Claim { claim, problem }
    }
}

/// Reason why the [`Authenticator`](super::Authenticator) cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum AuthLoadError {
    /// A key file or the file of the generated secret cannot be read or written.
    #[error("{} cannot be {action}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// `read` or `written`.
        action: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file of the generated secret has another content than the server writes.
    #[error(
        "{} does not contain a generated secret; delete the file to generate a new one, which invalidates all tokens issued so far, or set auth.secret",
        .0.display()
    )]
    InvalidSecretFile(PathBuf),
    /// `auth.public_key` or `auth.jwks` contains no usable key.
    #[error("{setting}: {source}")]
    Key {
        /// Name of the setting.
        setting: &'static str,
        /// Problem with the key.
        source: PublicKeyError,
    },
    /// TLS to the issuer cannot be set up, or the file of the key set is too long.
    #[error("auth.jwks: {0}")]
    Fetch(#[from] KeySetFetchError),
}

/// Reason why a key cannot verify tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicKeyError {
    /// The text is a private key.
    #[error(
        "this is a private key; configure the public key and leave the private key with the issuer"
    )]
    PrivateKey,
    /// The text is not a PEM of a public key for this algorithm.
    #[error(
        "this is not a public key (PEM) for {0}; set auth.algorithm to the algorithm of the key"
    )]
    WrongAlgorithm(&'static str),
    /// The RSA key is too short to be secure or too long to be supported.
    #[error("the RSA key has {0} bits; it must have 2048 to 4096")]
    RsaSize(usize),
    /// The document is not a JSON Web Key Set.
    #[error("this is not a JSON Web Key Set (an object with a list `keys`)")]
    NotAKeySet,
    /// No key in the set is usable.
    #[error("none of the {count} keys in the set is a public key for {algorithm}")]
    NoUsableKey {
        /// Number of keys in the set.
        count: usize,
        /// The configured algorithm.
        algorithm: &'static str,
    },
}

/// Reason why a key set could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KeySetFetchError {
    /// Reading the file or connecting to the server failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The HTTP exchange failed.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// The status of the response is not 200.
    #[error(
        "the server answered with status {0}; use the URL of the key set itself, redirects are not followed"
    )]
    Status(u16),
    /// The body of the response ended early or is malformed.
    #[error("the response cannot be read: {0}")]
    Body(String),
    /// The key set exceeds the maximum size.
    #[error("the key set is longer than {0} bytes")]
    TooLong(usize),
    /// The response did not arrive in time.
    #[error("no response within {0} s")]
    Timeout(u64),
    /// This machine has no trusted root certificates.
    #[error(
        "this machine has no root certificates to verify https with; install ca-certificates or set SSL_CERT_FILE"
    )]
    NoAuthorities,
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The document contains no usable keys.
    #[error("{0}")]
    Key(#[from] PublicKeyError),
}

/// Reason why a token cannot be issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenIssueError {
    /// The server has only public keys.
    #[error(
        "this server cannot issue tokens: it has only the public key; issue them where the private key is"
    )]
    NoSigningKey,
    /// [`Authenticator::verify`](super::Authenticator::verify) would reject the token.
    #[error("the server would reject this token: {0}")]
    WouldBeRejected(#[from] AuthError),
    /// Computing the signature failed.
    #[error("the token cannot be signed")]
    SigningFailed,
}
