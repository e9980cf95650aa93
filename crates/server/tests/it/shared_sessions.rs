//! Sessions that another service has written into the same Redis, with the preset `home-assistant`. Users who were
//! blocked or logged in before Parlor started are tested in `documents`.

use parlor_testkit::{Redis, ServerProcess};
use redis::aio::MultiplexedConnection;

use crate::http::client::{call, node, ready};
use crate::support::{run, run_in};
use crate::tokens::{now, user};

const COUNT: &str = "/v1/presence/count";

async fn home_assistant(redis: &Redis) -> ServerProcess {
    let node = node().env("PARLOR_STORE__URL", redis.url());
    let node = node.env("PARLOR_STORE__TIMEOUT", "10s");
    ready(node.env("PARLOR_KEYS__PRESET", "home-assistant")).await
}

async fn hset(old: &mut MultiplexedConnection, key: &str, fields: &[&str]) {
    let mut set = redis::cmd("HSET");
    set.arg(key).arg(fields);
    set.exec_async(old).await.unwrap();
}

async fn hash(
    old: &mut MultiplexedConnection,
    key: &str,
) -> std::collections::BTreeMap<String, String> {
    let get = redis::cmd("HGETALL").arg(key).take();
    get.query_async(old).await.unwrap()
}

async fn ttl(old: &mut MultiplexedConnection, key: &str) -> i64 {
    redis::cmd("TTL").arg(key).query_async(old).await.unwrap()
}

/// Writes the session of a user as the document does on login.
async fn log_in(old: &mut MultiplexedConnection, name: &str) {
    let (key, time) = (format!("ha:user:{name}"), (now() * 1_000).to_string());
    let fields = [
        "device_id",
        "iPhone_12_ABC123",
        "login_time",
        &time,
        "last_seen",
        &time,
        "active",
        "true",
        "ip_address",
        "192.168.1.100",
    ];
    hset(old, &key, &fields).await;
    let expire = redis::cmd("EXPIRE").arg(&key).arg(604_800).take();
    expire.exec_async(old).await.unwrap();
}

#[tokio::test]
async fn a_profile_of_another_application_is_left_alone_and_named_by_doctor() {
    let redis = Redis::start().await;
    let mut old = redis.connection().await;
    hset(
        &mut old,
        "ha:user:u14",
        &["name", "Ada", "mail", "ada@example.com"],
    )
    .await;
    let profile = hash(&mut old, "ha:user:u14").await;
    let url = redis.url();
    let doctor = [
        "doctor",
        "--json",
        "--store",
        &url,
        "--preset",
        "home-assistant",
    ];
    let ran = run(&doctor).await;
    assert!(
        ran.stdout.contains("ha:user:u14 have no `device_id`"),
        "{ran:?}"
    );
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("*")
        .query_async(&mut old)
        .await
        .unwrap();
    assert_eq!(keys, ["ha:user:u14"], "doctor writes nothing");
    let node = home_assistant(&redis).await;
    let alan = user("u14");
    call("POST", "/v1/sessions")
        .by(&alan)
        .at(&node)
        .await
        .created();
    call("GET", COUNT).by(&alan).at(&node).await.ok();
    let out = call("DELETE", "/v1/sessions/me").by(&alan).at(&node).await;
    out.ok();
    assert_eq!(hash(&mut old, "ha:user:u14").await, profile);
    assert_eq!(ttl(&mut old, "ha:user:u14").await, -1);
    let log = node.output();
    assert_eq!(log.matches("the key is not a session").count(), 1, "{log}");
}

#[tokio::test]
async fn many_adopted_blocks_are_lifted_by_one_command() {
    let redis = Redis::start().await;
    let mut old = redis.connection().await;
    let folder = tempfile::tempdir().unwrap();
    let node = home_assistant(&redis).await;
    let data = node.data_folder().display().to_string();
    for name in ["u1", "u2"] {
        log_in(&mut old, name).await;
        hset(&mut old, &format!("ha:user:{name}"), &["active", "false"]).await;
        let refused = call("GET", COUNT).by(&user(name)).at(&node).await;
        refused.refused(403, "session_blocked");
    }
    let url = redis.url();
    let unblock = [
        "sessions",
        "unblock",
        "--adopted",
        "--store",
        &url,
        "--data",
        &data,
        "--preset",
        "home-assistant",
    ];
    let dry = run_in(folder.path(), &[&unblock[..], &["--dry-run"]].concat(), &[])
        .await
        .ok();
    assert!(
        dry.contains("2 users are blocked by other services"),
        "{dry}"
    );
    let done = run_in(folder.path(), &unblock, &[]).await.ok();
    assert!(done.contains("2 users unblocked"), "{done}");
    for name in ["u1", "u2"] {
        parlor_testkit::eventually("the user is admitted", async || {
            let answer = call("GET", COUNT).by(&user(name)).at(&node).await;
            answer.status == 200
        })
        .await;
    }
    let none = run(&["sessions", "unblock"]).await;
    assert_eq!(none.exit_code, 2, "{none:?}");
}
