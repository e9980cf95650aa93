//! Errors of tokens and of the authentication settings.
//!
//! The text of each variant is its documentation.
//!
//! Invariant: no error text contains a secret, a key or a token.

use std::path::PathBuf;

use parlor_chat::api::error_code::ErrorCode;

/// Reason why a token is rejected. [`AuthError::code`] is stable, the text is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("a token is needed; send it as `Authorization: Bearer TOKEN`")]
    Missing,
    #[error("the token is not a well-formed JWT")]
    Malformed,
    #[error("the token is not signed with {0:?}, the only accepted algorithm")]
    Algorithm(jsonwebtoken::Algorithm),
    #[error("the token signature is not valid")]
    Signature,
    #[error("no configured key has the key id (kid) of this token")]
    UnknownKey,
    #[error("the token's claim `{claim}` {problem}")]
    Claim {
        claim: &'static str,
        problem: String,
    },
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet; the clock of its issuer may be wrong")]
    NotYetValid,
    #[error("the keys of the issuer cannot be fetched at the moment; try again later")]
    KeysUnavailable,
}

impl AuthError {
    /// Stable error code of the API.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Missing => ErrorCode::TokenMissing,
            Self::Expired => ErrorCode::TokenExpired,
            Self::NotYetValid => ErrorCode::TokenNotYetValid,
            Self::KeysUnavailable => ErrorCode::KeysUnavailable,
            Self::Malformed
            | Self::Algorithm(_)
            | Self::Signature
            | Self::UnknownKey
            | Self::Claim { .. } => ErrorCode::TokenInvalid,
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
    #[error("{} cannot be {action}", path.display())]
    File {
        path: PathBuf,
        action: &'static str,
        source: std::io::Error,
    },
    #[error(
        "{} does not contain a generated secret; delete the file to generate a new one, which invalidates all tokens issued so far, or set auth.secret",
        .0.display()
    )]
    InvalidSecretFile(PathBuf),
    #[error("{setting}: {source}")]
    Key {
        setting: &'static str,
        source: PublicKeyError,
    },
    #[error("auth.jwks: {0}")]
    Fetch(#[from] KeySetFetchError),
}

/// Reason why a key cannot verify tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicKeyError {
    #[error(
        "this is a private key; configure the public key and leave the private key with the issuer"
    )]
    PrivateKey,
    #[error(
        "this is not a public key (PEM) for {0}; set auth.algorithm to the algorithm of the key"
    )]
    WrongAlgorithm(&'static str),
    #[error("the RSA key has {0} bits; it must have 2048 to 4096")]
    RsaSize(usize),
    #[error("this is not a JSON Web Key Set (an object with a list `keys`)")]
    NotAKeySet,
    #[error("none of the {count} keys in the set is a public key for {algorithm}")]
    NoUsableKey {
        count: usize,
        algorithm: &'static str,
    },
}

/// Reason why a key set could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KeySetFetchError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error(
        "the server answered with status {0}; use the URL of the key set itself, redirects are not followed"
    )]
    Status(u16),
    #[error("the response cannot be read: {0}")]
    Body(String),
    #[error("the key set is longer than {0} bytes")]
    TooLong(usize),
    #[error("no response within {0} s")]
    Timeout(u64),
    #[error(
        "this machine has no root certificates to verify https with; install ca-certificates or set SSL_CERT_FILE"
    )]
    NoAuthorities,
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Key(#[from] PublicKeyError),
}

/// Reason why a token cannot be issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenIssueError {
    #[error(
        "this server cannot issue tokens: it has only the public key; issue them where the private key is"
    )]
    NoSigningKey,
    /// [`Authenticator::verify`](super::Authenticator::verify) would reject the token.
    #[error("the server would reject this token: {0}")]
    WouldBeRejected(#[from] AuthError),
    #[error("the token cannot be signed")]
    SigningFailed,
}
