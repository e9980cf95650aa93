//! Commands of Parlor, a crash and a restart beside the old service.

use parlor_testkit::eventually;
use serde_json::json;

use super::DOCUMENT;
use crate::documents::side_by_side::SideBySide;
use crate::support::{CommandOutput, get, run};

/// Runs a command of Parlor on the shared Redis.
async fn run_tool(beside: &SideBySide, tool: &[&str]) -> CommandOutput {
    let (store, data) = (beside.redis.url(), beside.node.data_folder());
    let data = data.display().to_string();
    let shared = [
        "--store",
        &store,
        "--data",
        &data,
        "--preset",
        DOCUMENT.preset,
    ];
    run(&[tool, &shared].concat()).await
}

/// Reads of the old service that no command, crash or restart of Parlor changes.
async fn assert_old_service_is_intact(beside: &SideBySide) {
    let old = &beside.old;
    assert_eq!(old.call("isUserOnline", json!(["xan"])).await, true);
    for (line, expected) in [
        ("TTL user:xan:online", json!(-1)),
        ("SISMEMBER user:xan:sockets xan-1", json!(1)),
        ("TTL user:xan:sockets", json!(-1)),
        ("GET socket:xan-1:user", json!("xan")),
        ("GET unread:xan:before", json!("1")),
        ("GET unread:xan:total", json!("2")),
        ("GET unread:nobody:before", json!("1")),
        ("GET unread:nobody:total", json!("1")),
    ] {
        assert_eq!(old.run(line).await, expected, "{line}");
    }
}

#[tokio::test]
async fn tools_a_crash_and_a_restart_of_parlor_leave_the_old_service_alone() {
    let mut beside = SideBySide::start_after(&DOCUMENT, async |old| {
        old.call("addUserSocket", json!(["xan", "xan-1"])).await;
        old.call("countUnread", json!(["xan", "before"])).await;
        old.call("countUnread", json!(["nobody", "before"])).await;
    })
    .await;
    let tabs = [beside.connect("xan").await, beside.connect("zoe").await];
    beside.conversation("during", &["zoe", "xan"]).await;
    beside.send("during", "zoe", "hello").await.created();
    beside.old.wait_for("GET unread:xan:total", "2").await;
    for tool in [&["doctor"][..], &["keys", "count"], &["repair", "unread"]] {
        let ran = run_tool(&beside, tool).await;
        assert!(ran.exit_code <= 1 && !ran.stdout.is_empty(), "{ran:?}");
        assert_old_service_is_intact(&beside).await;
    }
    beside.node.kill9();
    drop(tabs);
    let cleaned = eventually("the lease has ended", async || {
        let ran = run_tool(&beside, &["cleanup", "presence", "--yes"]).await;
        (ran.exit_code == 0).then_some(ran)
    })
    .await;
    assert!(cleaned.stdout.contains("1 users"), "{cleaned:?}");
    let left = beside.old.run("TTL user:zoe:online").await;
    assert!((0..=10).contains(&left.as_i64().unwrap()), "{left}");
    assert_old_service_is_intact(&beside).await;
    beside.node.restart().await;
    eventually("the node is ready", async || {
        let ready = get(&beside.node.http_url(), "/readyz").await;
        ready.map(|it| it.0 == 200)
    })
    .await;
    assert_eq!(beside.presence("xan").await["status"], "online");
    assert_old_service_is_intact(&beside).await;
    beside.finish().await;
}
