//! Error of a flush.

use std::sync::Arc;

use redis::RedisError;

use crate::error::CommandError;

/// Accepted changes could not be written to disk. They stay in memory, and the next flush retries them.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the data folder is full or not writable ({reason}); changes stay in memory and the next flush retries them"
)]
pub struct FlushError {
    /// Why the flush failed.
    pub reason: Arc<str>,
}

impl From<FlushError> for RedisError {
    /// `MISCONF`, as Redis replies while it cannot write to its disk.
    fn from(error: FlushError) -> Self {
        CommandError::new(format!("MISCONF {error}")).into()
    }
}
