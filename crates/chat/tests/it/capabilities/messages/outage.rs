//! Outages of the store.

use parlor_chat::api::error_code::ErrorCode;
use parlor_testkit::eventually;

use super::fixture::World;

#[tokio::test]
async fn what_was_sent_without_the_store_is_applied_when_it_is_back() {
    let mut world = World::impatient().await;
    world.send(0, "alice", "before").await;
    world.newest(0).await;
    world.server.as_mut().unwrap().kill9();
    world.send(0, "alice", "during").await;
    world.send(1, "bob", "the outage").await;
    assert_eq!(world.newest(0).await, ["before", "during", "the outage"]);
    let refused = world.edit(0, "alice", 1, "edited").await.unwrap_err();
    assert_eq!(refused, ErrorCode::StoreUnavailable);

    world.server.as_mut().unwrap().restart_empty().await;
    for node in &world.nodes {
        let retried = async || node.messages().retry_pending().await;
        eventually("pending store updates are applied", retried).await;
    }
    assert_eq!(world.watermark().await.unwrap()[0], 3);
    assert_eq!(world.newest(1).await, ["edited", "during", "the outage"]);
    world.send(1, "carol", "after").await;
    assert_eq!(world.newest(0).await.len(), 4);
}

#[tokio::test]
async fn a_new_epoch_is_caught_up_with_by_one_node() {
    let mut world = World::impatient().await;
    world.send(0, "alice", "one").await;
    for node in &world.nodes {
        node.messages().recover_if_needed().await.unwrap();
    }
    world.commit_without_applying("bob", "two").await;
    let mut epoch = world.store.epoch();
    let before = *epoch.borrow_and_update();
    world.server.as_mut().unwrap().restart_empty().await;
    eventually("the store epoch increases", async || {
        *epoch.borrow() > before
    })
    .await;
    let mut behind = 0;
    for node in &world.nodes {
        let recover = async || node.messages().recover_if_needed().await.map(Some);
        behind += eventually("recovery runs", recover).await;
    }
    assert_eq!(behind, 1, "one node recovered one conversation");
    assert_eq!(world.watermark().await.unwrap()[0], 2);
}
