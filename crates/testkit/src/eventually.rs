//! Waits for a condition: the only place in tests that sleeps.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// Maximum time of any step in a test. Generous, because machines can be busy.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Polls `check`, with pauses that grow from 2 ms to 50 ms. Returns `None` if `limit` has passed.
pub(crate) async fn poll_until<T>(
    limit: Duration,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> Option<T> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(value) = check().await {
            return Some(value);
        }
        if Instant::now() > deadline {
            return None;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(Duration::from_millis(50));
    }
}

/// Result of a polled condition: `bool`, `Option`, or a `Result` of one of these or of `()`.
pub trait ConditionResult {
    /// Value that [`eventually`] returns.
    type Value;

    /// The value, or the reason why there is none yet.
    ///
    /// # Errors
    /// The condition does not hold yet.
    fn into_result(self) -> Result<Self::Value, String>;
}

impl ConditionResult for bool {
    type Value = ();

    fn into_result(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("false".into()) }
    }
}

impl<T> ConditionResult for Option<T> {
    type Value = T;

    fn into_result(self) -> Result<T, String> {
        self.ok_or_else(|| "none".into())
    }
}

impl ConditionResult for () {
    type Value = ();

    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl<O: ConditionResult, E: Debug> ConditionResult for Result<O, E> {
    type Value = O::Value;

    fn into_result(self) -> Result<O::Value, String> {
        self.map_err(|error| format!("{error:?}"))?.into_result()
    }
}

/// Polls `check` until it is true or some, for at most 30 s; then panics with `what` and the last result.
pub async fn eventually<O: ConditionResult>(what: &str, check: impl AsyncFnMut() -> O) -> O::Value {
    eventually_within(TEST_TIMEOUT, what, check).await
}

/// Same as [`eventually`], with another time limit.
pub async fn eventually_within<O: ConditionResult>(
    limit: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> O,
) -> O::Value {
    let deadline = Instant::now() + limit;
    let mut last = String::from("none");
    let value = poll_until(limit, async || {
        let left = deadline.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, check()).await {
            Ok(result) => match result.into_result() {
                Ok(value) => Some(value),
                Err(reason) => {
                    last = reason;
                    None
                }
            },
            Err(_) => panic!(
                "condition not met within {limit:?}: {what} (a check was still running; last result: {last})"
            ),
        }
    });
    match value.await {
        Some(value) => value,
        None => panic!("condition not met within {limit:?}: {what} (last result: {last})"),
    }
}
