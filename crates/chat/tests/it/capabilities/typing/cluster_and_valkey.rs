//! Some of the tests on other servers: a Cluster, which rejects a script that leaves its slot, and Valkey.

use parlor_chat::keys::TypingLayout;
use parlor_testkit::RedisCluster;

use super::fixture::TypingFixture;
use super::{stored_keys, throttle};
use crate::support::Fixture;

async fn on(mut open: impl AsyncFnMut(TypingLayout) -> TypingFixture) {
    for layout in [TypingLayout::Document, TypingLayout::Flag] {
        println!("{layout}");
        stored_keys::a_start_is_stored_as_documented(open(layout).await).await;
        stored_keys::a_renewal_is_written_with_a_new_time(open(layout).await).await;
        stored_keys::a_stop_leaves_nothing(open(layout).await).await;
        stored_keys::typing_keys_expire(open(layout).await).await;
        throttle::a_start_is_written_once_in_two_seconds(open(layout).await).await;
        throttle::stop_lets_the_next_start_through(open(layout).await).await;
    }
}

#[tokio::test]
async fn the_layouts_live_on_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    on(async |layout| TypingFixture::cluster(&mut cluster, layout).await).await;
}

#[tokio::test]
async fn the_layouts_live_on_valkey() {
    on(TypingFixture::valkey).await;
}
