//! Outages of the store.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::ids::ConversationId;
use parlor_testkit::eventually;

use super::fixture::{World, person, text, user};

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
        let replayed = async || node.messages().catch_up().await;
        eventually("unapplied messages are replayed", replayed).await;
        let applied = async || node.outbox().drain().await.map(drop);
        eventually("the change is published", applied).await;
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

/// Conversations of the test below. `make test-all` raises it.
#[expect(
    clippy::disallowed_methods,
    reason = "the size of a test is not a setting of the server"
)]
fn paused_conversations() -> usize {
    let count = std::env::var("PARLOR_PAUSED_CONVERSATIONS").ok();
    count.and_then(|it| it.parse().ok()).unwrap_or(1_000)
}

#[tokio::test]
async fn all_messages_that_were_sent_while_the_store_was_paused_are_applied_without_a_further_message()
 {
    let mut world = World::impatient().await;
    let count = paused_conversations();
    for node in &world.nodes {
        node.messages().catch_up().await.unwrap();
    }
    world.insert_conversations(count).await;
    let epoch = *world.store.epoch().borrow();
    world.server.as_mut().unwrap().pause();
    let ids: Vec<ConversationId> = (0..count)
        .map(|nth| ConversationId::new(format!("p{nth}")).unwrap())
        .collect();
    let send = async |id: &ConversationId| {
        let messages = world.nodes[0].messages();
        messages
            .send(&person("alice"), id, text("paused"))
            .await
            .unwrap();
    };
    // The first ones open the circuit breaker of the store.
    futures_util::future::join_all(ids[..16].iter().map(send)).await;
    futures_util::stream::StreamExt::for_each_concurrent(
        futures_util::stream::iter(&ids[16..]),
        64,
        send,
    )
    .await;
    assert!(world.nodes[0].messages().catch_up().await.is_err());
    world.server.as_mut().unwrap().resume();
    let caught_up = async || world.nodes[0].messages().catch_up().await;
    eventually("unapplied messages are replayed", caught_up).await;

    assert_eq!(
        *world.store.epoch().borrow(),
        epoch,
        "the store has its old epoch"
    );
    let mut pipe = redis::pipe();
    for id in &ids {
        pipe.get(world.keys.apply_watermark(id));
        pipe.llen(world.keys.recent_list(id));
        pipe.get(world.keys.unread(&user("bob"), id));
    }
    let values: Vec<(String, u64, u64)> = {
        let values: Vec<redis::Value> = pipe.query_async(&mut world.store.clone()).await.unwrap();
        let values = values
            .chunks(3)
            .map(|three| redis::from_redis_value(redis::Value::Array(three.to_vec())).unwrap());
        values.collect()
    };
    let applied = (format!("1|{epoch}|1"), 1, 1);
    let wrong = values.iter().filter(|values| **values != applied).count();
    assert_eq!(wrong, 0, "of {count} conversations");
    let report = world.nodes[0].unread().repair(true, |_, _| {}).await;
    let report = report.unwrap();
    assert_eq!(report.found(), 0, "{:?}", report.differences);
}
