//! Shared secrets (HS256), and the generated secret of the data folder.
//!
//! Invariants:
//! 1. `Debug` does not print a secret, and there is no `Display`.
//! 2. The file `auth.secret` in the data folder is created atomically, complete and with mode 0600. If two processes
//!    create it at the same time, both use the one that was created first.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rand::RngExt;

use super::error::AuthLoadError;

/// Name of the file of the generated secret, in the data folder.
pub const SECRET_FILE_NAME: &str = "auth.secret";
/// Recommended minimum length: the output size of SHA-256. Shorter secrets can be guessed with one token at hand.
const MIN_RECOMMENDED_BYTES: usize = 32;
/// Number of random bytes in a generated secret; the file contains them as hexadecimal digits.
const GENERATED_BYTES: usize = 32;

/// A shared secret (HMAC key).
#[derive(Clone, PartialEq, Eq)]
pub struct SharedSecret(String);

impl SharedSecret {
    /// Uses the bytes of this text as the secret.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(super) fn is_weak(&self) -> bool {
        self.0.len() < MIN_RECOMMENDED_BYTES
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(hidden)")
    }
}

/// Loads the secret from the data folder; creates it if the file is missing.
pub(super) fn load_or_generate(data: &Path) -> Result<SharedSecret, AuthLoadError> {
    let path = data.join(SECRET_FILE_NAME);
    let failed = |action| {
        let path = path.clone();
        move |source| AuthLoadError::File {
            path,
            action,
            source,
        }
    };
    if let Some(secret) = read_secret_file(&path)? {
        return Ok(secret);
    }
    create_secret_file(data, &path).map_err(failed("written"))?;
    let gone = || failed("read")(io::ErrorKind::NotFound.into());
    read_secret_file(&path)?.ok_or_else(gone)
}

fn read_secret_file(path: &Path) -> Result<Option<SharedSecret>, AuthLoadError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(AuthLoadError::File {
                path: path.to_owned(),
                action: "read",
                source,
            });
        }
    };
    let text = text.trim();
    if text.len() != 2 * GENERATED_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(AuthLoadError::InvalidSecretFile(path.to_owned()));
    }
    if let Ok(facts) = path.metadata()
        && facts.permissions().mode() & 0o077 != 0
    {
        tracing::warn!(file = %path.display(), "other users of this machine can read the secret that signs tokens; run chmod 600 on the file");
    }
    Ok(Some(SharedSecret::new(text)))
}

/// Writes a temporary file and hard-links it to `path`. Linking is atomic and fails if another process was faster.
fn create_secret_file(data: &Path, path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)?;
    let draft = data.join(format!(
        "{SECRET_FILE_NAME}.{:016x}",
        rand::rng().random::<u64>()
    ));
    let made = write_secret(&draft).and_then(|()| match std::fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    let removed = std::fs::remove_file(&draft);
    made.and(removed)?;
    File::open(data)?.sync_all()
}

fn write_secret(draft: &Path) -> io::Result<()> {
    let secret: [u8; GENERATED_BYTES] = rand::rng().random();
    let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(draft)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}
