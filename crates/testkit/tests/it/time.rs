//! Tests of `advance_time` on real servers.

use std::{cell::Cell, time::Duration};

use parlor_testkit::{Redis, RedisCluster, Valkey, advance_time, connect_with_test_timeout};
use redis::{AsyncTypedCommands, Client, IntegerReplyOrNoOp};

const MINUTE: Duration = Duration::from_secs(60);

async fn time_passes_for_keys_with_a_time_to_live_only(server: Redis) {
    let mut connection = server.connection().await;
    connection.set("kept", "x").await.unwrap();
    connection.set_ex("short", "x", 60).await.unwrap();
    connection.set_ex("long", "x", 100).await.unwrap();
    let moved = Cell::new(Duration::ZERO);
    advance_time(&[server.client()], MINUTE, |by| moved.set(by)).await;

    assert_eq!(moved.get(), MINUTE);
    assert!(!connection.exists("short").await.unwrap());
    assert_eq!(
        connection.ttl("kept").await.unwrap(),
        IntegerReplyOrNoOp::ExistsButNotRelevant
    );
    let left = connection.ttl("long").await.unwrap().raw();
    assert!((1..=40).contains(&left), "{left}");
}

#[tokio::test]
async fn time_passes_on_redis() {
    time_passes_for_keys_with_a_time_to_live_only(Redis::start().await).await;
}

#[tokio::test]
async fn time_passes_on_valkey() {
    time_passes_for_keys_with_a_time_to_live_only(Valkey::start().await).await;
}

#[tokio::test]
async fn time_passes_in_every_database_and_once_for_each_key() {
    let server = Redis::start().await;
    let client = Client::open(format!("{}/5", server.url())).unwrap();
    for database in [0, 5, 9] {
        let other = Client::open(format!("{}/{database}", server.url())).unwrap();
        let mut connection = connect_with_test_timeout(&other).await.unwrap();
        let mut fill = redis::pipe();
        for i in 0..5000 {
            fill.set_ex(format!("short{i}"), "x", 50).ignore();
            fill.set_ex(format!("long{i}"), "x", 110).ignore();
        }
        let () = fill.query_async(&mut connection).await.unwrap();
    }
    advance_time(&[client], MINUTE, drop).await;
    let mut connection = server.connection().await;
    for database in [0, 5, 9] {
        let (_, keys): ((), usize) = redis::pipe()
            .cmd("SELECT")
            .arg(database)
            .cmd("DBSIZE")
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!(keys, 5000, "database {database}");
    }
}

#[tokio::test]
async fn time_passes_on_all_primaries_of_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    let client = crate::cluster::client(&cluster);
    let mut connection = client.get_async_connection().await.unwrap();
    for i in 0..30 {
        connection
            .set_ex(format!("short{i}"), "x", 60)
            .await
            .unwrap();
        connection
            .set_ex(format!("long{i}"), "x", 600)
            .await
            .unwrap();
    }
    advance_time(&cluster.primary_clients().await, MINUTE, drop).await;
    for i in 0..30 {
        assert!(!connection.exists(format!("short{i}")).await.unwrap());
        let left = connection.ttl(format!("long{i}")).await.unwrap().raw();
        assert!((1..=540).contains(&left), "{left}");
    }
}

#[tokio::test]
async fn without_servers_only_the_clock_moves() {
    let moved = Cell::new(Duration::ZERO);
    advance_time(&[], MINUTE, |by| moved.set(by)).await;
    assert_eq!(moved.get(), MINUTE);
}
