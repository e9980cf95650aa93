//! The same tests on a Redis Cluster.

use parlor_testkit::RedisCluster;

use super::fixture::World;

#[tokio::test]
async fn the_same_on_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    super::concurrency::each_message_is_told_once_and_in_order(World::cluster(&mut cluster).await)
        .await;
    super::documented_keys::a_message_is_stored_and_told_as_documented(
        World::cluster(&mut cluster).await,
    )
    .await;
    super::recovery::the_next_message_applies_those_before_it(World::cluster(&mut cluster).await)
        .await;
    super::edit::an_edit_is_shown_in_the_list_and_to_the_nodes(World::cluster(&mut cluster).await)
        .await;
}
