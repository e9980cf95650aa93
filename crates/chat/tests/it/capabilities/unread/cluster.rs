//! Some tests of unread counts on a Redis Cluster, which rejects a script call that leaves its hash slot.

use parlor_testkit::RedisCluster;

use super::fixture::World;
use super::{concurrent, counting, receipts, reconcile, repair};

#[tokio::test]
async fn unread_counts_live_on_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    let mut open = async || World::cluster(&mut cluster).await;
    counting::a_message_counts_for_everybody_but_its_sender(open().await).await;
    counting::marking_unread_counts_others_messages_only(open().await).await;
    counting::large_rooms_have_the_same_answers_and_their_keys_follow(open().await).await;
    counting::frames_tell_count_and_total(open().await).await;
    receipts::receipts_are_told_to_the_conversation(open().await).await;
    reconcile::an_emptied_store_is_filled_by_the_next_touch(open().await).await;
    repair::a_repair_finds_and_mends_what_differs(open().await).await;
    concurrent::senders_and_readers_in_a_race_leave_the_keys_as_the_rows(open().await).await;
}
