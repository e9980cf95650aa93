//! Some tests of live feeds on a Redis Cluster.

use parlor_testkit::RedisCluster;

use super::fixture::World;

#[tokio::test]
async fn the_same_on_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    super::conversation_events::messages_are_told_in_order_and_once_on_every_node(
        World::cluster(&mut cluster).await,
    )
    .await;
    super::resync::what_was_lost_is_read_when_the_bus_is_back(World::cluster(&mut cluster).await)
        .await;
    super::resync::sends_and_changes_while_the_bus_is_lost_again_and_again(
        World::cluster(&mut cluster).await,
    )
    .await;
    super::large_conversations::members_are_told_of_the_newest_message_once_a_second(
        World::cluster(&mut cluster).await,
    )
    .await;
}
