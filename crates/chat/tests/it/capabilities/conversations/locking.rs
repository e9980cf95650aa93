//! Decisions under the lock of the row, and the publishing of changes.

use parlor_chat::api::error_code::Code;
use parlor_chat::conversations::{CreateConversation, PutMember, RemoveMember, UpdateConversation};
use parlor_chat::database::Either;
use parlor_testkit::eventually;
use serde_json::json;

use super::fixture::{World, ask, code, conversation, person, service};
use super::on_every_engine;

const WAITING: &str = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted";

on_every_engine! {
    a_read_only_session_cannot_remove_members;
    a_member_removed_during_the_call_cannot_change_the_conversation;
    a_change_that_cannot_be_published_does_not_block_other_conversations;
}

async fn group(world: &World, id: &str) {
    let group = json!({ "id": id, "kind": "group", "members": ["alice", "bob"] });
    let created = ask::<CreateConversation>(&world.nodes[0], &service(), group).await;
    created.unwrap();
}

async fn a_read_only_session_cannot_remove_members(world: World) {
    group(&world, "c1").await;
    let node = &world.nodes[0];
    for who in ["alice", "bob"] {
        let mut visitor = person(who);
        visitor.anonymous = true;
        let bob = json!({ "conversationId": "c1", "userId": "bob" });
        let removed = code::<RemoveMember>(node, &visitor, bob).await;
        assert_eq!(removed, Some(Code::ReadOnlySession), "{who}");
    }
    assert_eq!(world.members("c1").await, ["alice owner", "bob member"]);
}

async fn a_member_removed_during_the_call_cannot_change_the_conversation(world: World) {
    group(&world, "c1").await;
    let node = &world.nodes[0];
    let admin = json!({ "conversationId": "c1", "userId": "bob", "role": "admin" });
    ask::<PutMember>(node, &service(), admin).await.unwrap();

    let database = world.database().await;
    let mut tx = database.begin().await.unwrap();
    for statement in [
        "UPDATE conversations SET member_count = 1 WHERE id = 'c1'",
        "DELETE FROM members WHERE user_id = 'bob'",
    ] {
        super::fixture::run(&mut tx, statement).await;
    }
    let title = json!({ "conversationId": "c1", "title": "mine" });
    let bob = person("bob");
    let update = code::<UpdateConversation>(node, &bob, title);
    let removal = async {
        // The row decides, whatever was checked before. A waiting SQLite writer cannot be observed.
        if let Either::Postgres(pool) = database.reader() {
            eventually("the update waits for the row lock", async || {
                let waiting = sqlx::query_scalar::<_, i64>(WAITING).fetch_one(pool).await;
                waiting.unwrap() > 0
            })
            .await;
        }
        tx.commit().await.unwrap();
    };
    let (refused, ()) = tokio::join!(update, removal);
    assert_eq!(refused, Some(Code::NotAMember));
    let head = node.conversations().head(&conversation("c1")).await;
    assert_eq!(head.unwrap().unwrap().title, None);
}

async fn a_change_that_cannot_be_published_does_not_block_other_conversations(world: World) {
    let node = &world.nodes[0];
    for id in ["c1", "c2"] {
        group(&world, id).await;
        assert!(world.is_member_on_node(1, id, "bob").await);
        let generation = world.keys.membership_generation(&conversation(id));
        for command in [
            redis::cmd("DEL").arg(&generation),
            redis::cmd("RPUSH").arg(&generation).arg("x"),
        ] {
            let done = command.exec_async(&mut world.store.clone()).await;
            done.unwrap();
        }
        let bob = json!({ "conversationId": id, "userId": "bob" });
        let removed = ask::<RemoveMember>(node, &service(), bob).await;
        assert!(removed.is_err(), "{id}");
        assert_eq!(
            world.cached_membership(id, "bob").await.as_deref(),
            Some("1")
        );
    }
    let mut del = redis::cmd("DEL");
    del.arg(world.keys.membership_generation(&conversation("c2")));
    del.exec_async(&mut world.store.clone()).await.unwrap();
    let settled = node.conversations().settle().await;
    assert!(settled.is_err(), "one change cannot be published");
    assert_eq!(world.cached_membership("c2", "bob").await, None);
}
