//! A database that does not answer in time, so that the result of a commit is unknown.

use std::time::Duration;

use parlor_chat::Chat;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::context::ChatContext;
use parlor_chat::database::{Database, PerBackend, WriteTransaction};
use parlor_chat::ids::NodeId;
use parlor_chat::keys::RecentLayout;
use parlor_chat::messages::MessageEdit;

use super::fixture::{World, c1, person, text};
use super::test_on_all_backends;
use crate::support::with_timeout;

test_on_all_backends! {
    a_message_with_an_unconfirmed_commit_is_applied;
    a_change_whose_commit_was_not_heard_of_is_shown;
}

/// The entry that the transaction of an edit inserts.
const INSERT_ENTRY: &str = "
    INSERT INTO outbox (subject, kind, payload, created_at, due_at)
    VALUES ('conversation:c1', 'message_changed', '{\"conversation\":\"c1\",\"seq\":1}', 0, 0)";

/// Starts a node with a short database timeout.
async fn node_with_short_timeout(world: &World) -> Chat {
    let database = world.database_with_timeout(Duration::from_secs(1)).await;
    let ctx = ChatContext::new(world.store.clone(), world.keys.clone());
    Chat::new(ctx, database, NodeId::new("n9").unwrap(), &world.options)
}

/// Locks `c1`, so that no other transaction can change it.
async fn hold(database: &Database) -> WriteTransaction {
    let mut tx = database.begin().await.unwrap();
    run(
        &mut tx,
        "UPDATE conversations SET last_at = last_at WHERE id = 'c1'",
    )
    .await;
    tx
}

async fn run(tx: &mut WriteTransaction, statement: &'static str) {
    match tx.connection() {
        PerBackend::Sqlite(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
        PerBackend::Postgres(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
    }
}

async fn a_message_with_an_unconfirmed_commit_is_applied(mut world: World) {
    let node = node_with_short_timeout(&world).await;
    world.send(0, "alice", "one").await;
    // The committed row. The sender gets an error below.
    world.commit_without_applying("bob", "two").await;
    let database = world.database().await;
    let held = hold(&database).await;
    let sent = node
        .messages()
        .send(&person("bob"), &c1(), text("two"))
        .await;
    assert_eq!(sent.unwrap_err().code(), ErrorCode::DatabaseUnavailable);
    drop(held);
    assert_eq!(world.published_seqs().await, [1]);
    node.messages().catch_up().await.unwrap();
    assert_eq!(world.published_seqs().await, [2]);
}

async fn a_change_whose_commit_was_not_heard_of_is_shown(world: World) {
    let node = node_with_short_timeout(&world).await;
    world.send(0, "alice", "one").await;
    assert_eq!(world.newest(0).await, ["one"]);
    let database = world.database().await;
    let mut tx = hold(&database).await;
    run(
        &mut tx,
        "UPDATE conversations SET rev = rev + 1 WHERE id = 'c1'",
    )
    .await;
    run(&mut tx, "UPDATE messages SET content = 'edited', edited_at = 1, rev = rev + 1 WHERE conversation_id = 'c1'").await;
    run(&mut tx, INSERT_ENTRY).await;
    tx.commit().await.unwrap();
    let held = hold(&database).await;
    let edit = MessageEdit {
        content: Some("edited".into()),
        metadata: None,
    };
    let edited = node.messages().edit(&person("alice"), &c1(), 1, edit).await;
    assert_eq!(edited.unwrap_err().code(), ErrorCode::DatabaseUnavailable);
    drop(held);
    assert_eq!(node.outbox().drain().await.unwrap(), 1);
    assert_eq!(world.newest(0).await, ["edited"]);
}

#[tokio::test]
async fn a_message_that_waits_too_long_for_the_write_lock_of_sqlite_is_rejected() {
    let world = World::embedded(RecentLayout::Messages).await;
    let node = node_with_short_timeout(&world).await;
    let held = hold(node.database()).await;
    let (alice, c1) = (person("alice"), c1());
    let sent = node.messages().send(&alice, &c1, text("one"));
    let sent = with_timeout(sent).await;
    assert_eq!(sent.unwrap_err().code(), ErrorCode::DatabaseUnavailable);
    drop(held);
    let sent = node.messages().send(&alice, &c1, text("two")).await;
    assert_eq!(sent.unwrap().message.seq, 1);
}
