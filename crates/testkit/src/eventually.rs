//! Waits for a condition: the only place in tests that sleeps.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// Maximum time of any step in a test. Generous, because machines can be busy.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause between two checks; it grows from 2 ms to 50 ms.
pub(crate) struct PollBackoff(Duration);

impl Default for PollBackoff {
    fn default() -> Self {
        Self(Duration::from_millis(2))
    }
}

impl PollBackoff {
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 3 / 2).min(Duration::from_millis(50));
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
    fn outcome(self) -> Result<Self::Value, String>;
}

impl ConditionResult for bool {
    type Value = ();

    fn outcome(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("false".into()) }
    }
}

impl<T> ConditionResult for Option<T> {
    type Value = T;

    fn outcome(self) -> Result<T, String> {
        self.ok_or_else(|| "none".into())
    }
}

impl ConditionResult for () {
    type Value = ();

    fn outcome(self) -> Result<(), String> {
        Ok(())
    }
}

impl<O: ConditionResult, E: Debug> ConditionResult for Result<O, E> {
    type Value = O::Value;

    fn outcome(self) -> Result<O::Value, String> {
        self.map_err(|error| format!("{error:?}"))?.outcome()
    }
}

/// Polls `check` until it is true or some, for at most 30 s.
///
/// # Panics
/// With `what` and the last result, when the time has passed.
pub async fn eventually<O: ConditionResult>(what: &str, check: impl AsyncFnMut() -> O) -> O::Value {
    eventually_within(TEST_TIMEOUT, what, check).await
}

/// Same as [`eventually`], with another time limit.
///
/// # Panics
/// With `what` and the last result, when the time has passed.
pub async fn eventually_within<O: ConditionResult>(
    limit: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> O,
) -> O::Value {
    let deadline = Instant::now() + limit;
    let mut pace = PollBackoff::default();
    let mut last = String::from("none");
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, check())
            .await
            .map(ConditionResult::outcome)
        {
            Ok(Ok(value)) => return value,
            Ok(Err(answer)) => last = answer,
            Err(_) => {
                panic!(
                    "condition not met within {limit:?}: {what} (a check was still running; last result: {last})"
                )
            }
        }
        if Instant::now() > deadline {
            panic!("condition not met within {limit:?}: {what} (last result: {last})");
        }
        pace.wait().await;
    }
}
