//! Some tests of conversations on a Redis Cluster, which rejects a script call that leaves its hash slot.

use parlor_testkit::RedisCluster;

use super::fixture::ConversationsFixture;
use super::{caches, published_frames, races, rules};
use crate::support::Fixture;

#[tokio::test]
async fn conversations_live_on_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    let mut fixture = async || ConversationsFixture::cluster(&mut cluster, ()).await;
    rules::members_come_and_go_by_the_rules(fixture().await).await;
    rules::a_deleted_conversation_is_gone_for_good(fixture().await).await;
    caches::membership_is_cached_and_invalidated_by_each_change(fixture().await).await;
    caches::participants_follow_the_version_of_the_rows(fixture().await).await;
    races::no_node_returns_stale_membership_after_an_acknowledged_change(fixture().await).await;
    published_frames::each_change_is_published_to_nodes_and_users(fixture().await).await;
}
