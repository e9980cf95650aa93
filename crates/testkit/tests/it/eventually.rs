//! Tests of `eventually`.

use std::time::Duration;

use parlor_testkit::{eventually, eventually_within};

#[tokio::test]
async fn eventually_polls_until_the_condition_holds() {
    let mut asked = 0;
    let value = eventually("third time", async || {
        asked += 1;
        (asked == 3).then_some("value")
    })
    .await;
    assert_eq!((asked, value), (3, "value"));
}

#[tokio::test]
#[should_panic(
    expected = "condition not met within 50ms: the moon is full (last result: \"waxing\")"
)]
async fn the_timeout_message_names_the_condition_and_the_last_result() {
    eventually_within(Duration::from_millis(50), "the moon is full", async || {
        Err::<(), _>("waxing")
    })
    .await;
}

#[tokio::test]
#[should_panic(
    expected = "condition not met within 50ms: an answer (a check was still running; last result: none)"
)]
async fn a_hanging_check_times_out() {
    eventually_within(Duration::from_millis(50), "an answer", async || {
        std::future::pending::<bool>().await
    })
    .await;
}
