//! What is decided by the rows under the lock, and what is told of it.

use parlor_chat::code::Code;
use parlor_chat::conversations::{CreateConversation, PutMember, RemoveMember, UpdateConversation};
use parlor_chat::database::Either;
use parlor_testkit::eventually;
use serde_json::json;

use super::on_every_engine;
use super::world::{World, ask, code, conversation, person, service};

const WAITING: &str = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted";

on_every_engine! {
    who_may_only_read_removes_nobody;
    who_was_removed_meanwhile_changes_nothing;
    one_change_that_cannot_be_told_keeps_no_other_waiting;
}

async fn group(world: &World, id: &str) {
    let group = json!({ "id": id, "kind": "group", "members": ["alice", "bob"] });
    let created = ask::<CreateConversation>(&world.nodes[0], &service(), group).await;
    created.unwrap();
}

async fn who_may_only_read_removes_nobody(world: World) {
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

async fn who_was_removed_meanwhile_changes_nothing(world: World) {
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
        super::world::run(&mut tx, statement).await;
    }
    let title = json!({ "conversationId": "c1", "title": "mine" });
    let bob = person("bob");
    let update = code::<UpdateConversation>(node, &bob, title);
    let removal = async {
        // Whatever was asked before, the row decides when it is there. Who waits for SQLite waits unseen.
        if let Either::Postgres(pool) = database.reader() {
            eventually("the change waits for the row", async || {
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

async fn one_change_that_cannot_be_told_keeps_no_other_waiting(world: World) {
    let node = &world.nodes[0];
    for id in ["c1", "c2"] {
        group(&world, id).await;
        assert!(world.says(1, id, "bob").await);
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
        assert_eq!(world.cached(id, "bob").await.as_deref(), Some("1"));
    }
    let mut del = redis::cmd("DEL");
    del.arg(world.keys.membership_generation(&conversation("c2")));
    del.exec_async(&mut world.store.clone()).await.unwrap();
    let settled = node.conversations().settle().await;
    assert!(settled.is_err(), "one cannot be told");
    assert_eq!(world.cached("c2", "bob").await, None);
}
