//! Some of the tests on other servers: a Cluster, which rejects a script that leaves its slot, and Valkey.

use parlor_chat::keys::TypingLayout;
use parlor_testkit::RedisCluster;

use super::fixture::TypingWorld;
use super::{events, nodes};
use crate::support::Fixture;

async fn on(mut open: impl AsyncFnMut(TypingLayout) -> TypingWorld) {
    for layout in [TypingLayout::Document, TypingLayout::Flag] {
        println!("{layout}");
        events::a_subscriber_receives_each_change_with_the_name_of_the_user(open(layout).await)
            .await;
        events::typing_ends_at_the_ttl_and_once(open(layout).await).await;
        nodes::a_typing_user_whose_node_died_stops_once(open(layout).await).await;
        nodes::another_node_can_report_the_stop(open(layout).await).await;
    }
}

#[tokio::test]
async fn typing_is_delivered_on_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    on(async |layout| <TypingWorld as Fixture<_>>::cluster(&mut cluster, layout).await).await;
}

#[tokio::test]
async fn typing_is_delivered_on_valkey() {
    on(async |layout| <TypingWorld as Fixture<_>>::valkey(layout).await).await;
}
