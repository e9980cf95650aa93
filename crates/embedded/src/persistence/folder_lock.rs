//! The lock on the data folder.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::error::EngineOpenError;

/// Exclusive lock on a data folder. Released when it is dropped or when the process ends in any way.
pub struct DataFolderLock(#[expect(dead_code, reason = "held for its lock")] File);

impl DataFolderLock {
    /// Locks a data folder. Creates the folder if it is missing.
    pub fn acquire(folder: &Path) -> Result<Self, EngineOpenError> {
        let path = folder.join("store.lock");
        let io = |source| EngineOpenError::Io {
            path: path.clone(),
            source,
        };
        // Other users of the machine must not be able to read chat data.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(io)?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(EngineOpenError::Locked {
                path: folder.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(io(source)),
        }
    }
}
