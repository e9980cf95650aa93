//! Circuit breaker of the database: after a failure, requests fail fast instead of waiting for the full statement
//! timeout.
//!
//! ```text
//! closed ── a statement fails as unavailable ──▶ open for OPEN_DURATION ── a probe is answered ──▶ closed
//! ```
//!
//! Invariants:
//! 1. While the breaker is open, a read is aborted if a probe of the database fails within [`PROBE_TIMEOUT`]. A read
//!    that is answered from a cache in that time succeeds.
//! 2. A successful probe closes the breaker.
//! 3. While the breaker is open, a write starts only after a successful probe, so a rejected write is never executed
//!    later.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use parking_lot::Mutex;
use parlor_chat::api::error::{Error, Result as ChatResult};
use parlor_chat::api::error_code::ErrorCode;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::api_error::ApiError;

/// How long the breaker stays open after a failure.
const OPEN_DURATION: Duration = Duration::from_secs(2);
/// How long a probe of the database may take.
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);

/// Circuit breaker of the database.
#[derive(Debug, Default)]
pub struct DatabaseBreaker {
    open_until: Mutex<Option<Instant>>,
}

impl DatabaseBreaker {
    /// Runs `work`. If the breaker is open, `ping` runs at the same time, and `work` is aborted if `ping` fails. `work`
    /// is pinned by the caller and `ping` is created on demand, because storing both here would double the size of
    /// every request future.
    pub async fn run_with_probe<T, E, P>(
        &self,
        ping: impl FnOnce() -> P,
        mut work: Pin<&mut impl Future<Output = ChatResult<T>>>,
    ) -> Result<T, ApiError>
    where
        P: Future<Output = Result<(), E>>,
    {
        if self.is_open() {
            let mut probe = Box::pin(probe_database(ping()));
            tokio::select! {
                // A result that is ready is returned even if the probe failed at the same time.
                biased;
                result = &mut work => return self.record_result(result),
                is_answered = &mut probe => self.apply_probe(is_answered)?,
            }
        }
        self.record_result(work.await)
    }

    /// Runs `work` that writes. If the breaker is open, `work` starts only after `ping` succeeds, so that a rejected
    /// write is never executed later.
    pub async fn probe_then_run<T, E, P>(
        &self,
        ping: impl FnOnce() -> P,
        work: Pin<&mut impl Future<Output = ChatResult<T>>>,
    ) -> Result<T, ApiError>
    where
        P: Future<Output = Result<(), E>>,
    {
        if self.is_open() {
            self.apply_probe(Box::pin(probe_database(ping())).await)?;
        }
        self.record_result(work.await)
    }

    fn apply_probe(&self, is_answered: bool) -> Result<(), ApiError> {
        if is_answered {
            *self.open_until.lock() = None;
            return Ok(());
        }
        self.trip();
        let detail = "the database is unavailable; retry later";
        Err(ApiError::new(ErrorCode::DatabaseUnavailable, detail))
    }

    fn is_open(&self) -> bool {
        self.open_until
            .lock()
            .is_some_and(|end| Instant::now() < end)
    }

    fn trip(&self) {
        *self.open_until.lock() = Some(Instant::now() + OPEN_DURATION);
    }

    fn record_result<T>(&self, result: ChatResult<T>) -> Result<T, ApiError> {
        if let Err(Error::DatabaseUnavailable(_)) = &result {
            self.trip();
        }
        Ok(result?)
    }
}

/// True if the database answers the probe in time. Returns false only at the end of [`PROBE_TIMEOUT`], to give work
/// that needs no database this long.
async fn probe_database<E>(ping: impl Future<Output = Result<(), E>>) -> bool {
    let end = Instant::now() + PROBE_TIMEOUT;
    let is_answered = matches!(timeout_at(end, ping).await, Ok(Ok(())));
    if !is_answered {
        sleep_until(end).await;
    }
    is_answered
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use tokio::time::sleep;

    use super::*;

    const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

    /// A statement while the database is unavailable.
    async fn fails() -> ChatResult<u8> {
        sleep(STATEMENT_TIMEOUT).await;
        let io = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        Err(Error::DatabaseUnavailable(io.into()))
    }

    async fn silent() -> Result<(), ()> {
        pending().await
    }

    async fn slow() -> ChatResult<u8> {
        sleep(STATEMENT_TIMEOUT).await;
        Ok(1)
    }

    /// Time until a read is rejected.
    async fn time_until_rejected(breaker: &DatabaseBreaker) -> Duration {
        let started_at = Instant::now();
        let error = breaker
            .run_with_probe(silent, pin!(fails()))
            .await
            .unwrap_err();
        assert_eq!(error.code, ErrorCode::DatabaseUnavailable);
        assert_eq!(error.retry_after_seconds(), Some(1));
        started_at.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_database_timeout_further_requests_fail_fast() {
        let breaker = DatabaseBreaker::default();
        assert_eq!(time_until_rejected(&breaker).await, STATEMENT_TIMEOUT);
        for _ in 0..100 {
            assert_eq!(time_until_rejected(&breaker).await, PROBE_TIMEOUT);
        }
        sleep(OPEN_DURATION).await;
        assert_eq!(time_until_rejected(&breaker).await, STATEMENT_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn cached_answers_are_served_during_a_database_outage() {
        let breaker = DatabaseBreaker::default();
        time_until_rejected(&breaker).await;
        let cached = pin!(async { Ok(1) });
        assert_eq!(breaker.run_with_probe(silent, cached).await, Ok(1));
        let soon = async {
            sleep(PROBE_TIMEOUT / 2).await;
            Ok(1)
        };
        let answers = || ready(Err(()));
        assert_eq!(breaker.run_with_probe(answers, pin!(soon)).await, Ok(1));
        assert_eq!(time_until_rejected(&breaker).await, PROBE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn the_full_timeout_is_restored_when_the_database_answers() {
        let breaker = DatabaseBreaker::default();
        time_until_rejected(&breaker).await;
        let answers = || ready(Ok::<_, ()>(()));
        assert_eq!(breaker.run_with_probe(answers, pin!(slow())).await, Ok(1));
        assert_eq!(time_until_rejected(&breaker).await, STATEMENT_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn writes_are_not_started_during_a_database_outage() {
        let breaker = DatabaseBreaker::default();
        time_until_rejected(&breaker).await;
        let begun = std::cell::Cell::new(false);
        let change = async {
            begun.set(true);
            Ok(1)
        };
        let result = breaker.probe_then_run(silent, pin!(change)).await;
        let error = result.unwrap_err();
        assert_eq!(
            (error.code, begun.get()),
            (ErrorCode::DatabaseUnavailable, false)
        );
        let answers = || ready(Ok::<_, ()>(()));
        assert_eq!(breaker.probe_then_run(answers, pin!(slow())).await, Ok(1));
    }
}
