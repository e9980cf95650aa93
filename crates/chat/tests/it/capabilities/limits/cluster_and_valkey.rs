//! Some of the tests on other servers: a Cluster, which rejects a script that leaves its slot, and Valkey.

use parlor_testkit::RedisCluster;

use super::fixture::LimitsFixture;
use super::{concurrent, fixed, gcra, messages, retried_requests, sliding};
use crate::support::Fixture;

async fn on(mut open: impl AsyncFnMut() -> LimitsFixture) {
    concurrent::a_thousand_concurrent_checks_admit_exactly_the_limit(open().await).await;
    fixed::the_first_request_starts_the_fixed_window(open().await).await;
    fixed::a_cost_fits_as_a_whole_or_takes_nothing(open().await).await;
    sliding::each_request_is_free_after_a_window_of_its_own(open().await).await;
    gcra::a_burst_and_then_a_steady_rate(open().await).await;
    gcra::a_pause_gives_back_as_much_as_it_is_long(open().await).await;
    messages::the_message_limit_applies_per_user_and_window(open().await).await;
    messages::a_refund_restores_one_message_of_the_limit(open().await).await;
    retried_requests::the_same_request_counts_once(open().await).await;
}

#[tokio::test]
async fn limits_live_on_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    on(async || LimitsFixture::cluster(&mut cluster, ()).await).await;
}

#[tokio::test]
async fn limits_live_on_valkey() {
    on(async || LimitsFixture::valkey(()).await).await;
}
