//! Tests of `Postgres`.

use parlor_testkit::{Postgres, is_running};

#[tokio::test]
async fn postgres_starts_answers_and_is_gone_after_drop() {
    let server = Postgres::start().await;
    let pid = server.pid();
    assert_eq!(server.query("SELECT 1 + 1").await, "2");
    assert_eq!(server.query("SHOW fsync").await, "off");
    assert!(server.url().contains(&server.port().to_string()));

    let one = server.create_database().await;
    let two = server.create_database().await;
    assert_ne!(one, two);
    server.query_in(&one, "CREATE TABLE t (id int)").await;
    server.query_in(&two, "CREATE TABLE t (id int)").await;
    assert_eq!(
        server.query_in(&one, "SELECT current_database()").await,
        "test_0"
    );

    drop(server);
    assert!(!is_running(pid));
}

#[tokio::test]
async fn a_durable_postgres_keeps_what_was_committed_over_kill_9() {
    let mut server = Postgres::start_durable().await;
    assert_eq!(server.query("SHOW fsync").await, "on");
    assert_eq!(server.query("SHOW synchronous_commit").await, "on");
    let (url, pid) = (server.create_database().await, server.pid());
    server
        .query_in(&url, "CREATE TABLE t AS SELECT 42 AS answer")
        .await;
    for _ in 0..2 {
        server.restart().await;
        assert_eq!(server.query_in(&url, "SELECT answer FROM t").await, "42");
    }
    assert!(!is_running(pid));
}
