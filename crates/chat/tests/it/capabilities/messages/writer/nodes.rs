//! Several nodes on one PostgreSQL.

use std::sync::Arc;

use parlor_chat::database::PerBackend;
use parlor_chat::messages::writer::MessageWriter;

use super::fixture::{World, answers, draft, draft_with_client_id, run};

const CONVERSATIONS: usize = 20;

async fn rooms(world: &World) {
    for at in 0..CONVERSATIONS {
        world
            .conversation(&format!("c{at:02}"), &["alice", "bob"])
            .await;
    }
}

#[tokio::test]
async fn two_nodes_write_to_the_same_conversations() {
    let world = World::postgres().await;
    rooms(&world).await;
    let nodes = [
        world.writer.clone(),
        Arc::new(MessageWriter::start(world.open_second_database().await)),
    ];
    let send = |task: usize| {
        let writer = nodes[task % 2].clone();
        tokio::spawn(async move {
            for nth in 0..10 {
                let at = (task / 4 * 13 + nth * 7) % CONVERSATIONS;
                let sender = ["alice", "bob"][task / 2 % 2];
                // Each client id is used on both nodes.
                let name = format!("{}", (task / 4) * 10 + nth);
                let draft = draft_with_client_id(&format!("c{at:02}"), sender, &name);
                writer.send(draft).await.unwrap();
            }
        })
    };
    for task in (0..80).map(send).collect::<Vec<_>>() {
        task.await.unwrap();
    }
    world.check().await;
    let count: (i64,) = world.one("SELECT count(*) FROM messages").await;
    assert_eq!(count.0, 400);
}

#[tokio::test]
async fn a_batch_that_is_in_a_deadlock_is_repeated() {
    let world = World::postgres().await;
    rooms(&world).await;
    world.conversation("z", &["alice"]).await;
    let mut other = world.database.begin().await.unwrap();
    run(
        &mut other,
        "SELECT 1 FROM conversations WHERE id = 'z' FOR UPDATE",
    )
    .await;

    let mut hold = world.database.begin().await.unwrap();
    run(
        &mut hold,
        "SELECT 1 FROM conversations WHERE id LIKE 'c%' FOR UPDATE",
    )
    .await;
    let twice = (0..CONVERSATIONS * 2).map(|n| format!("c{:02}", n % CONVERSATIONS));
    let ids: Vec<_> = twice.chain(["z".to_owned()]).collect();
    let sends: Vec<_> = ids
        .iter()
        .map(|id| world.spawn(draft(id, "alice", "hello")))
        .collect();
    // The first batch of each queue waits for a lock; the other messages are queued behind it.
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let server = world.server.as_ref().unwrap();
    parlor_testkit::eventually("all queues wait for a lock", async || {
        server.query(waiting).await == "4"
    })
    .await;
    drop(hold);
    // Now one batch waits for `z` and holds other locks.
    let PerBackend::Postgres(connection) = other.connection() else {
        panic!("the database is PostgreSQL");
    };
    let mine: (i32,) = sqlx::query_as("SELECT pg_backend_pid()")
        .fetch_one(&mut *connection)
        .await
        .unwrap();
    let behind = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pg_blocking_pids(pid) && ARRAY[{}]",
        mine.0
    );
    parlor_testkit::eventually("one batch waits for this transaction", async || {
        server.query(&behind).await == "1"
    })
    .await;
    let all = sqlx::query("SELECT 1 FROM conversations WHERE id LIKE 'c%' FOR UPDATE");
    // PostgreSQL aborts one of both transactions.
    let _ = all.execute(connection).await;
    drop(other);

    for answer in answers(sends).await {
        answer.unwrap();
    }
    world.check().await;
    let deadlocks = "SELECT deadlocks > 0 FROM pg_stat_database WHERE datname = 'test_0'";
    parlor_testkit::eventually("a deadlock was detected", async || {
        server.query(deadlocks).await == "t"
    })
    .await;
}
