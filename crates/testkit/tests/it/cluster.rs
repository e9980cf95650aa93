//! Tests of `RedisCluster`.

use std::time::Duration;

use parlor_testkit::{RedisCluster, is_running};
use redis::{AsyncTypedCommands, cluster::ClusterClient};

/// Client with timeouts that are long enough for a busy machine.
pub fn client(cluster: &RedisCluster) -> ClusterClient {
    let patience = Duration::from_secs(30);
    ClusterClient::builder(cluster.node_urls())
        .connection_timeout(patience)
        .response_timeout(patience)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_killed_primary_is_replaced_and_comes_back() {
    let mut cluster = RedisCluster::options().fast_failover().start().await;
    let before = cluster.primaries().await;
    assert_eq!(before, cluster.ports()[..3]);
    let client = client(&cluster);
    let mut connection = client.get_async_connection().await.unwrap();
    for i in 0..20 {
        connection.set(format!("key{i}"), i).await.unwrap();
    }

    let killed = cluster.kill9_primary(1).await;
    assert_eq!(killed, before[1]);
    cluster.wait_until_stable().await;
    let after = cluster.primaries().await;
    assert_eq!((after[0], after[2]), (before[0], before[2]));
    assert_eq!(after[1], cluster.ports()[4]);

    cluster.node(killed).restart().await;
    cluster.wait_until_stable().await;
    assert_eq!(cluster.primaries().await, after);

    let pids = cluster.pids();
    drop(cluster);
    assert!(!pids.iter().any(|pid| is_running(*pid)));
}

#[tokio::test]
async fn a_valkey_cluster_with_a_password_takes_commands() {
    let cluster = RedisCluster::options()
        .valkey()
        .password("secret")
        .start()
        .await;
    assert!(
        cluster
            .url()
            .starts_with("redis+cluster://:secret@127.0.0.1:")
    );
    let client = client(&cluster);
    let mut connection = client.get_async_connection().await.unwrap();
    connection.set("key", "value").await.unwrap();
    assert_eq!(
        connection.get("key").await.unwrap().as_deref(),
        Some("value")
    );
}
