//! Some tests of conversations on a Redis Cluster, which rejects a script call that leaves its hash slot.

use parlor_testkit::RedisCluster;

use super::fixture::World;
use super::{caches, published_frames, races, rules};

#[tokio::test]
async fn conversations_live_on_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    let mut world = async || World::cluster(&mut cluster).await;
    rules::members_come_and_go_by_the_rules(world().await).await;
    rules::a_deleted_conversation_is_gone_for_good(world().await).await;
    caches::membership_is_cached_and_invalidated_by_each_change(world().await).await;
    caches::participants_follow_the_version_of_the_rows(world().await).await;
    races::no_node_returns_stale_membership_after_an_acknowledged_change(world().await).await;
    published_frames::nodes_and_users_are_told_of_each_change(world().await).await;
}
