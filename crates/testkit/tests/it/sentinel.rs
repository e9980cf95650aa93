//! Tests of `SentinelSet`.

use parlor_testkit::{SentinelSet, connect_with_test_timeout, eventually, is_running};
use redis::AsyncTypedCommands;

#[tokio::test]
async fn a_failover_changes_the_primary_and_the_old_one_comes_back_as_replica() {
    let mut set = SentinelSet::options().password("secret").start().await;
    let pids = set.pids();
    assert_eq!(pids.len(), 6);
    let mut primary = connect_with_test_timeout(&set.primary_client().await)
        .await
        .unwrap();
    primary.set("key", "value").await.unwrap();
    let copies: usize = redis::cmd("WAIT")
        .arg(2)
        .arg(0)
        .query_async(&mut primary)
        .await
        .unwrap();
    assert_eq!(copies, 2);

    let killed = set.kill9_primary().await;
    eventually("the sentinels report another primary", async || {
        set.primary_port().await != killed
    })
    .await;
    let mut primary = connect_with_test_timeout(&set.primary_client().await)
        .await
        .unwrap();
    assert_eq!(primary.get("key").await.unwrap().as_deref(), Some("value"));

    set.node(killed).restart().await;
    let returned = set.node(killed).client();
    eventually(
        "the old primary follows the new one",
        async || -> redis::RedisResult<bool> {
            // A change of role closes the connections.
            let mut returned = connect_with_test_timeout(&returned).await?;
            let mut ask = redis::cmd("INFO");
            let info: String = ask.arg("replication").query_async(&mut returned).await?;
            Ok(info.contains("role:slave") && info.contains("master_link_status:up"))
        },
    )
    .await;

    let pids = set.pids();
    drop(set);
    assert!(!pids.iter().any(|pid| is_running(*pid)));
}

#[tokio::test]
async fn the_url_names_the_sentinels_and_the_primary() {
    let set = SentinelSet::options().name("chat").start().await;
    let ports = set.sentinel_ports();
    let [a, b, c] = ports[..] else {
        panic!("expected three sentinels, got {ports:?}")
    };
    assert_eq!(
        set.url(),
        format!("redis+sentinel://127.0.0.1:{a},127.0.0.1:{b},127.0.0.1:{c}/chat")
    );
    assert_eq!(set.name(), "chat");
}
