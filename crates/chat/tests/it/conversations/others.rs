//! A part of the behaviours on a Cluster, which refuses a step that leaves its slot.

use parlor_testkit::Cluster;

use super::world::World;
use super::{cached, races, rules, told};

#[tokio::test]
async fn conversations_live_on_a_cluster() {
    let mut cluster = Cluster::start().await;
    let mut world = async || World::cluster(&mut cluster).await;
    rules::members_come_and_go_by_the_rules(world().await).await;
    rules::a_deleted_conversation_is_gone_for_good(world().await).await;
    cached::answers_are_kept_as_documented_and_forgotten_with_each_change(world().await).await;
    cached::participants_follow_the_version_of_the_rows(world().await).await;
    races::after_an_acknowledged_change_no_node_answers_from_before(world().await).await;
    told::nodes_and_users_are_told_of_each_change(world().await).await;
}
