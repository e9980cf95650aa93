//! What is remembered of a database that does not answer, so that not every request waits for it as long as it might take.
//!
//! Always true:
//! 1. Within [`MEMORY`] of a failure a request that needs the database waits [`BRIEF`] at most, unless the database answers
//!    again; one that does not need it is answered as ever.
//! 2. Whatever the database answers ends it.
//! 3. What changes rows is not begun before the database answers.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use parking_lot::Mutex;
use parlor_chat::code::Code;
use parlor_chat::error::{Error, Result as Done};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::wire::Refusal;

/// How long a failure is remembered.
const MEMORY: Duration = Duration::from_secs(2);
/// How long a database may take that was away a moment ago.
const BRIEF: Duration = Duration::from_millis(250);

/// Until when the database is taken to be away.
#[derive(Debug, Default)]
pub struct Outage {
    until: Mutex<Option<Instant>>,
}

impl Outage {
    /// Does `work`, or gives it up early if the database is away; `ping` asks it. The work stays where it is pinned, and the
    /// ping is made where it is needed: passed by value, both would make each call of everybody twice as large.
    pub async fn bounded<T, E, P>(
        &self,
        ping: impl FnOnce() -> P,
        mut work: Pin<&mut impl Future<Output = Done<T>>>,
    ) -> Result<T, Refusal>
    where
        P: Future<Output = Result<(), E>>,
    {
        if self.is_on() {
            let mut answers = Box::pin(answers(ping()));
            tokio::select! {
                // What is done counts, also when the time is over.
                biased;
                done = &mut work => return self.noted(done),
                answers = &mut answers => self.learned(answers)?,
            }
        }
        self.noted(work.await)
    }

    /// The same for work that changes rows: it is not begun while the database is away, so that what was refused is not
    /// done later.
    pub async fn asked_first<T, E, P>(
        &self,
        ping: impl FnOnce() -> P,
        work: Pin<&mut impl Future<Output = Done<T>>>,
    ) -> Result<T, Refusal>
    where
        P: Future<Output = Result<(), E>>,
    {
        if self.is_on() {
            self.learned(Box::pin(answers(ping())).await)?;
        }
        self.noted(work.await)
    }

    fn learned(&self, answers: bool) -> Result<(), Refusal> {
        if answers {
            *self.until.lock() = None;
            return Ok(());
        }
        self.begin();
        let detail = "the database does not answer, try again later";
        Err(Refusal::new(Code::DatabaseUnavailable, detail))
    }

    fn is_on(&self) -> bool {
        self.until.lock().is_some_and(|it| Instant::now() < it)
    }

    fn begin(&self) {
        *self.until.lock() = Some(Instant::now() + MEMORY);
    }

    fn noted<T>(&self, done: Done<T>) -> Result<T, Refusal> {
        if let Err(Error::DatabaseUnavailable(_)) = &done {
            self.begin();
        }
        Ok(done?)
    }
}

/// Whether the database answers in time. If not, that is known no sooner: who does not need it has this long, too.
async fn answers<E>(ping: impl Future<Output = Result<(), E>>) -> bool {
    let end = Instant::now() + BRIEF;
    let answers = matches!(timeout_at(end, ping).await, Ok(Ok(())));
    if !answers {
        sleep_until(end).await;
    }
    answers
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use tokio::time::sleep;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// What a statement does while the database is away.
    async fn fails() -> Done<u8> {
        sleep(PATIENCE).await;
        let io = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        Err(Error::DatabaseUnavailable(io.into()))
    }

    async fn silent() -> Result<(), ()> {
        pending().await
    }

    async fn slow() -> Done<u8> {
        sleep(PATIENCE).await;
        Ok(1)
    }

    /// How long it took until it was refused.
    async fn refused(outage: &Outage) -> Duration {
        let began = Instant::now();
        let refusal = outage.bounded(silent, pin!(fails())).await.unwrap_err();
        assert_eq!(refusal.code, Code::DatabaseUnavailable);
        assert_eq!(refusal.retry_after(), Some(1));
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn after_one_that_waited_in_vain_the_others_wait_briefly() {
        let outage = Outage::default();
        assert_eq!(refused(&outage).await, PATIENCE);
        for _ in 0..100 {
            assert_eq!(refused(&outage).await, BRIEF);
        }
        sleep(MEMORY).await;
        assert_eq!(refused(&outage).await, PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn what_needs_no_database_is_answered_meanwhile() {
        let outage = Outage::default();
        refused(&outage).await;
        let cached = pin!(async { Ok(1) });
        assert_eq!(outage.bounded(silent, cached).await, Ok(1));
        let soon = async {
            sleep(BRIEF / 2).await;
            Ok(1)
        };
        let answers = || ready(Err(()));
        assert_eq!(outage.bounded(answers, pin!(soon)).await, Ok(1));
        assert_eq!(refused(&outage).await, BRIEF);
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_answers_again_has_all_the_time_it_had() {
        let outage = Outage::default();
        refused(&outage).await;
        let answers = || ready(Ok::<_, ()>(()));
        assert_eq!(outage.bounded(answers, pin!(slow())).await, Ok(1));
        assert_eq!(refused(&outage).await, PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_rows_is_not_begun_in_vain() {
        let outage = Outage::default();
        refused(&outage).await;
        let begun = std::cell::Cell::new(false);
        let change = async {
            begun.set(true);
            Ok(1)
        };
        let refused = outage.asked_first(silent, pin!(change)).await;
        let refusal = refused.unwrap_err();
        assert_eq!(
            (refusal.code, begun.get()),
            (Code::DatabaseUnavailable, false)
        );
        let answers = || ready(Ok::<_, ()>(()));
        assert_eq!(outage.asked_first(answers, pin!(slow())).await, Ok(1));
    }
}
