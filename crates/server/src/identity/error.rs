//! What can be wrong with a token, and with the configuration of identity.
//!
//! Always true: no text here holds a secret, a key or a token.

use std::path::PathBuf;

use parlor_chat::code::Code;

/// Why a caller is not let in. [`AuthError::code`] is part of the product, the text is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// There is no token.
    #[error("a token is needed; send it as `Authorization: Bearer TOKEN`")]
    Missing,
    /// This is not a JWT, or not one that can be read.
    #[error("the token is not a well-formed JWT")]
    Malformed,
    /// It names another algorithm than the configured one.
    #[error("the token is not signed with {0}, the only accepted algorithm")]
    Algorithm(&'static str),
    /// Its signature is by none of the keys.
    #[error("the token signature is not valid")]
    Signature,
    /// It names a key that is not in the key set.
    #[error("no configured key has the key id (kid) of this token")]
    UnknownKey,
    /// A claim is missing or wrong.
    #[error("the token's claim `{claim}` {problem}")]
    Claim {
        /// Its name.
        claim: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not come.
    #[error("the token is not valid yet; the clock of its issuer may be wrong")]
    NotYetValid,
    /// The issuer's keys could not be fetched, so nobody can say whether the token is good.
    #[error("the keys of the issuer cannot be fetched at the moment; try again later")]
    KeysUnavailable,
}

impl AuthError {
    /// The stable name of the refusal.
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

/// Why identity cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum AuthLoadError {
    /// A file of keys, or the file of the generated secret.
    #[error("{} cannot be {action}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// `read` or `written`.
        action: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The generated secret is not what was once written.
    #[error(
        "{} does not contain a generated secret; delete the file to generate a new one, which invalidates all tokens issued so far, or set auth.secret",
        .0.display()
    )]
    InvalidSecretFile(PathBuf),
    /// `auth.public_key` or `auth.jwks` hold no key that fits.
    #[error("{setting}: {source}")]
    Key {
        /// The setting.
        setting: &'static str,
        /// What is wrong.
        source: PublicKeyError,
    },
    /// TLS to the issuer cannot be set up, or the file of a key set cannot be used.
    #[error("auth.jwks: {0}")]
    Fetch(#[from] KeySetFetchError),
}

/// Why something is not a key that tokens can be checked with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicKeyError {
    /// A private key where only a public one belongs.
    #[error(
        "this is a private key; configure the public key and leave the private key with the issuer"
    )]
    PrivateKey,
    /// Not a PEM of a public key of this algorithm.
    #[error(
        "this is not a public key (PEM) for {0}; set auth.algorithm to the algorithm of the key"
    )]
    WrongAlgorithm(&'static str),
    /// An RSA key that is broken by size, or larger than can be computed with.
    #[error("the RSA key has {0} bits; it must have 2048 to 4096")]
    RsaSize(usize),
    /// Not a JSON Web Key Set.
    #[error("this is not a JSON Web Key Set (an object with a list `keys`)")]
    NotAKeySet,
    /// A set without a key that can be used.
    #[error("none of the {count} keys in the set is a public key for {algorithm}")]
    NoUsableKey {
        /// How many there are.
        count: usize,
        /// The configured algorithm.
        algorithm: &'static str,
    },
}

/// Why a key set could not be had.
#[derive(Debug, thiserror::Error)]
pub enum KeySetFetchError {
    /// Reading the file or talking to the server failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The server does not speak HTTP as expected.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// Another status than 200.
    #[error(
        "the server answered with status {0}; use the URL of the key set itself, redirects are not followed"
    )]
    Status(u16),
    /// The body ended early, or is not one.
    #[error("the response cannot be read: {0}")]
    Body(String),
    /// More than a key set is given room for.
    #[error("the key set is longer than {0} bytes")]
    TooLong(usize),
    /// No answer in time.
    #[error("no response within {0} s")]
    Timeout(u64),
    /// No certificate authority is known to this machine.
    #[error(
        "this machine has no root certificates to verify https with; install ca-certificates or set SSL_CERT_FILE"
    )]
    NoAuthorities,
    /// TLS cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// What was fetched is of no use.
    #[error("{0}")]
    Key(#[from] PublicKeyError),
}

/// Why no token is issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenIssueError {
    /// Only the holder of the private key can sign.
    #[error(
        "this server cannot issue tokens: it has only the public key; issue them where the private key is"
    )]
    NoSigningKey,
    /// Such a token would be refused here.
    #[error("the server would reject this token: {0}")]
    WouldBeRejected(#[from] AuthError),
    /// The signature failed.
    #[error("the token cannot be signed")]
    SigningFailed,
}
