//! Nodes that stop between a commit and the acknowledgement of its outbox entry, and the worker of the outbox.

#![expect(
    clippy::unwrap_used,
    reason = "a failing test reports the cause by its panic"
)]

use std::sync::Arc;
use std::time::Duration;

use parlor_chat::Chat;
use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::{HistoryVisibility, RemoveMember, UpdateConversation};
use parlor_chat::database::PerBackend;
use parlor_chat::failpoint::Failpoint;
use parlor_chat::ids::ConversationId;
use parlor_chat::keys::RecentLayout;
use parlor_chat::messages::MessageEdit;
use parlor_testkit::eventually;

use crate::capabilities::messages::fixture::{World, person, text, user};
use crate::support::{service_caller, with_timeout};

/// Points at which a node stops while it sends a message, edits one, removes Bob, changes the title, reads or blocks a
/// user.
const FAILPOINTS: [&str; 16] = [
    "message.committed",
    "message.appended",
    "message.counting",
    "message.counted",
    "change.committed",
    "change.published",
    "members.committed",
    "members.invalidated",
    "members.counted",
    "members.published",
    "conversation.committed",
    "position.committed",
    "position.written",
    "session.committed",
    "session.written",
    "session.published",
];

#[tokio::test]
async fn a_node_that_stops_at_any_point_leaves_no_wrong_key_on_embedded() {
    nodes_stop_at_every_point(World::embedded(RecentLayout::Messages).await).await;
}

#[tokio::test]
async fn a_node_that_stops_at_any_point_leaves_no_wrong_key_on_redis() {
    nodes_stop_at_every_point(World::redis(RecentLayout::Messages).await).await;
}

async fn nodes_stop_at_every_point(world: World) {
    for node in &world.nodes {
        node.messages().recover_if_needed().await.unwrap();
    }
    for (nth, point) in FAILPOINTS.into_iter().enumerate() {
        let id = format!("f{nth}");
        world.create(&id, HistoryVisibility::All).await;
        let conversation = ConversationId::new(&id).unwrap();
        let messages = world.nodes[0].messages();
        for content in ["one", "two"] {
            let alice = person("alice");
            let sent = messages.send(&alice, &conversation, text(content));
            sent.await.unwrap();
        }
        let bob_is_member = world.nodes[0].conversations();
        assert!(
            bob_is_member
                .is_member(&conversation, &user("bob"))
                .await
                .unwrap()
        );
        stop_node_at(&world, point, &conversation).await;
    }
    for _ in 0..16 {
        world.advance(Duration::from_secs(1)).await;
        world.nodes[0].presence().renew_lease().await.unwrap();
    }
    let node = &world.nodes[0];
    node.messages().recover_if_needed().await.unwrap();
    node.outbox().apply_due().await.unwrap();
    assert_eq!(count(&world, "SELECT COUNT(*) FROM outbox").await, 0);
    for (nth, point) in FAILPOINTS.into_iter().enumerate() {
        let conversation = ConversationId::new(format!("f{nth}")).unwrap();
        check_conversation(&world, &conversation, point).await;
    }
    let report = node.unread().repair(true, |_, _| {}).await.unwrap();
    assert_eq!(report.found(), 0, "{:?}", report.differences);
    for nth in [13, 14, 15] {
        let mut hash = redis::cmd("HGET");
        hash.arg(world.keys.session(&user(&format!("u{nth}"))))
            .arg("status");
        let status: Option<String> = hash.query_async(&mut world.store.clone()).await.unwrap();
        assert_eq!(status.as_deref(), Some("blocked"), "{}", FAILPOINTS[nth]);
    }
}

/// Runs the call of a failpoint on a node of its own, until its tasks stop there.
async fn stop_node_at(world: &World, point: &'static str, conversation: &ConversationId) {
    let failpoint = Failpoint::new(point);
    let node = Arc::new(
        world
            .start_with_failpoint(conversation.as_str(), &failpoint)
            .await,
    );
    let blocked = user(&conversation.as_str().replace('f', "u"));
    let (id, running) = (conversation.clone(), Arc::clone(&node));
    let call = tokio::spawn(async move {
        match point.split_once('.').unwrap().0 {
            "message" => drop(
                running
                    .messages()
                    .send(&person("alice"), &id, text("three"))
                    .await,
            ),
            "change" => edit(&running, &id).await,
            "members" => {
                let remove = RemoveMember {
                    conversation_id: id.to_string(),
                    user_id: "bob".into(),
                };
                drop(remove.run(&running, &service_caller()).await);
            }
            "conversation" => {
                let rename = UpdateConversation {
                    conversation_id: id.to_string(),
                    title: Some("Lunch".into()),
                    ..UpdateConversation::default()
                };
                drop(rename.run(&running, &person("alice")).await);
            }
            "position" => drop(running.unread().read(&user("bob"), &id, None).await),
            _ => drop(running.sessions().block(&blocked, None).await),
        }
    });
    with_timeout(failpoint.wait_until_reached()).await;
    call.abort();
}

async fn edit(node: &Arc<Chat>, conversation: &ConversationId) {
    let edit = MessageEdit {
        content: Some("edited".into()),
        metadata: None,
    };
    let alice = person("alice");
    let edited = node.messages().edit(&alice, conversation, 1, edit);
    drop(edited.await);
}

/// The keys of a conversation agree with its rows.
async fn check_conversation(world: &World, conversation: &ConversationId, point: &str) {
    let node = &world.nodes[0];
    let row = node.conversations().find_conversation(conversation).await;
    let row = row.unwrap().unwrap();
    let mut get = redis::cmd("GET");
    get.arg(world.keys.apply_watermark(conversation));
    let top: String = get.query_async(&mut world.store.clone()).await.unwrap();
    assert_eq!(
        top.split('|').next(),
        Some(row.last_seq.to_string().as_str()),
        "{point}"
    );
    let mut range = redis::cmd("LRANGE");
    range
        .arg(world.keys.recent_list(conversation))
        .arg(0)
        .arg(-1);
    let list: Vec<String> = range.query_async(&mut world.store.clone()).await.unwrap();
    let contents = list.iter().rev().map(|entry| {
        let entry: serde_json::Value = serde_json::from_str(entry).unwrap();
        entry["content"].as_str().unwrap().to_owned()
    });
    let expected: &[&str] = match point.split_once('.').unwrap().0 {
        "message" => &["one", "two", "three"],
        "change" => &["edited", "two"],
        _ => &["one", "two"],
    };
    assert_eq!(contents.collect::<Vec<_>>(), expected, "{point}");
    let bob = user("bob");
    let is_member = node.conversations().is_member(conversation, &bob);
    let is_removed = point.starts_with("members.");
    assert_eq!(is_member.await.unwrap(), !is_removed, "{point}");
}

async fn count(world: &World, statement: &'static str) -> i64 {
    match world.nodes[0].database().reader() {
        PerBackend::Sqlite(pool) => sqlx::query_scalar(statement).fetch_one(pool).await.unwrap(),
        PerBackend::Postgres(pool) => sqlx::query_scalar(statement).fetch_one(pool).await.unwrap(),
    }
}

#[tokio::test]
async fn applied_entries_are_deleted_and_others_wait_for_the_next_start_on_embedded() {
    entries_wait_for_the_next_start(World::embedded(RecentLayout::Messages).await).await;
}

#[tokio::test]
async fn applied_entries_are_deleted_and_others_wait_for_the_next_start_on_redis() {
    entries_wait_for_the_next_start(World::redis(RecentLayout::Messages).await).await;
}

async fn entries_wait_for_the_next_start(world: World) {
    const ENTRIES: &str = "SELECT COUNT(*) FROM outbox";
    const WATERMARK: &str = "SELECT COUNT(*) FROM apply_watermarks WHERE node = 'n2'";
    let node = world.start("n2").await;
    node.messages().recover_if_needed().await.unwrap();
    let message = world.send(0, "alice", "one").await;
    world.edit(0, "alice", message.seq, "two").await.unwrap();
    assert_eq!(count(&world, ENTRIES).await, 1, "acknowledged in memory");
    world.nodes[0].outbox().apply_due().await.unwrap();
    assert_eq!(count(&world, ENTRIES).await, 0);
    assert_eq!(count(&world, WATERMARK).await, 1);

    // Without the watermark key, the store rejects the messages of the conversation.
    let mut break_key = redis::pipe();
    break_key.del(world.keys.apply_watermark(&message.conversation_id));
    break_key.rpush(world.keys.apply_watermark(&message.conversation_id), "x");
    let mut store = world.store.clone();
    break_key.exec_async(&mut store).await.unwrap();
    world.send(0, "alice", "three").await;
    eventually("the outbox has an entry", async || {
        count(&world, ENTRIES).await == 1
    })
    .await;
    node.shut_down().await.unwrap();
    assert_eq!(
        count(&world, WATERMARK).await,
        0,
        "all its messages are applied"
    );
    assert_eq!(
        count(&world, ENTRIES).await,
        1,
        "the entry cannot be applied"
    );
    let mut repair_key = redis::cmd("DEL");
    repair_key.arg(world.keys.apply_watermark(&message.conversation_id));
    world.run(&repair_key).await;
    let node = world.start("n3").await;
    world.advance(Duration::from_secs(120)).await;
    assert_eq!(node.outbox().apply_due().await.unwrap(), 1);
    assert_eq!(count(&world, ENTRIES).await, 0);
    assert_eq!(world.watermark().await.unwrap()[0], 2);
}
