//! Waiting for conditions.

use std::time::Duration;

use parlor_testkit::{eventually, eventually_within};

#[tokio::test]
async fn a_condition_is_asked_until_it_holds() {
    let mut asked = 0;
    let value = eventually("third time", async || {
        asked += 1;
        (asked == 3).then_some("value")
    })
    .await;
    assert_eq!((asked, value), (3, "value"));
}

#[tokio::test]
#[should_panic(expected = "not within 50ms: the moon is full (last answer: \"waxing\")")]
async fn giving_up_names_the_condition_and_the_last_answer() {
    eventually_within(Duration::from_millis(50), "the moon is full", async || {
        Err::<(), _>("waxing")
    })
    .await;
}

#[tokio::test]
#[should_panic(
    expected = "not within 50ms: an answer (a check was still running; before: no answer)"
)]
async fn a_check_that_hangs_is_given_up() {
    eventually_within(Duration::from_millis(50), "an answer", async || {
        std::future::pending::<bool>().await
    })
    .await;
}
