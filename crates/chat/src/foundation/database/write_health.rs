//! Whether the database accepts writes.
//!
//! Invariants:
//! 1. An outage of writes is logged once when it begins, and once with the number of failed writes when it ends. Outages
//!    that follow within [`LOG_INTERVAL`] are not logged: on a disk that is almost full, every second write may fail.
//! 2. The outage ends with the first write that succeeds. Without requests, [`Database::check_writable`] writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Database, DatabaseErrorKind, classify_error, for_backend};

/// Minimum time between two logged outages.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Writes a row that nothing reads. The value differs each time, because SQLite does not write a row that stays the same.
const WRITE_PROBE: &str = "
    INSERT INTO parlor (name, value) VALUES ('write_probe', $1)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// Result of the last writes.
#[derive(Debug, Default)]
pub(super) struct WriteHealth {
    /// Whether `outage` is set. With this flag, a write that succeeds takes no lock.
    is_failing: AtomicBool,
    outage: Mutex<Option<WriteOutage>>,
    last_logged: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct WriteOutage {
    failed_writes: u64,
    kind: DatabaseErrorKind,
    is_logged: bool,
}

impl WriteHealth {
    fn record_success(&self) {
        if !self.is_failing.load(Ordering::Relaxed) {
            return;
        }
        let mut outage = self.outage.lock();
        self.is_failing.store(false, Ordering::Relaxed);
        let ended = outage.take();
        drop(outage);
        if let Some(outage) = ended.filter(|outage| outage.is_logged) {
            let failed_writes = outage.failed_writes;
            tracing::info!(failed_writes, "the database accepts writes again");
        }
    }

    fn record_failure(&self, kind: DatabaseErrorKind, error: &dyn std::fmt::Display) {
        let mut outage = self.outage.lock();
        let outage = outage.get_or_insert_with(|| WriteOutage {
            failed_writes: 0,
            kind,
            is_logged: self.log_outage(error),
        });
        outage.failed_writes += 1;
        outage.kind = kind;
        self.is_failing.store(true, Ordering::Relaxed);
    }

    /// Logs the begin of an outage, unless another one was logged recently. Returns whether it was logged.
    fn log_outage(&self, error: &dyn std::fmt::Display) -> bool {
        let mut last_logged = self.last_logged.lock();
        let is_due = last_logged.is_none_or(|last| last.elapsed() >= LOG_INTERVAL);
        if is_due {
            *last_logged = Some(Instant::now());
            tracing::error!(%error, "the database does not accept writes; further failures are counted, not logged");
        }
        is_due
    }

    fn failure(&self) -> Option<DatabaseErrorKind> {
        self.outage.lock().as_ref().map(|outage| outage.kind)
    }
}

impl Database {
    /// Records the result of a write.
    pub(crate) fn record_write(&self, written: &Result<(), sqlx::Error>) {
        match written {
            Ok(()) => self.inner.write_health.record_success(),
            Err(error) => self.record_failed_write(classify_error(error), error),
        }
    }

    /// Records a write that failed. Only an outage counts: a statement that the database refuses says nothing about the
    /// next one.
    pub(crate) fn record_failed_write(
        &self,
        kind: DatabaseErrorKind,
        error: &dyn std::fmt::Display,
    ) {
        if matches!(
            kind,
            DatabaseErrorKind::Full | DatabaseErrorKind::Unavailable
        ) {
            self.inner.write_health.record_failure(kind, error);
        }
    }

    /// Returns why the last write failed. Writes first, to find out whether the outage is over.
    pub async fn check_writable(&self) -> Result<(), DatabaseErrorKind> {
        if self.inner.write_health.failure().is_none() {
            return Ok(());
        }
        // The result is recorded.
        let _ = self.write_probe().await;
        self.inner.write_health.failure().map_or(Ok(()), Err)
    }

    async fn write_probe(&self) -> Result<(), sqlx::Error> {
        let mut tx = self.begin().await?;
        let value = format!("{:016x}", rand::random::<u64>());
        for_backend!(tx.connection(), c => {
            sqlx::query(WRITE_PROBE).bind(value).execute(c).await.map(drop)
        })?;
        tx.commit().await
    }
}
