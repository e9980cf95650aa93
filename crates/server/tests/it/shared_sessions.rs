//! Sessions that another service has written into the same Redis, with the preset `home-assistant`.

use parlor_server::grpc::proto::v1::{ValidateSessionRequest, ValidateSessionResponse};
use parlor_testkit::{Redis, ServerProcess, SocketIoClientError, SocketIoTestClient};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use crate::grpc::client::Client;
use crate::http::client::{call, node, ready};
use crate::support::{run, run_in};
use crate::tokens::{admin, now, service, token_with_claims, user};

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

/// Connects a Socket.IO client; the error code of a rejected handshake.
async fn connect(node: &ServerProcess, name: &str) -> Result<SocketIoTestClient, Value> {
    let auth = json!({ "token": user(name), "deviceId": "phone" });
    match SocketIoTestClient::connect(node.http_address(), &auth).await {
        Ok(client) => Ok(client),
        Err(SocketIoClientError::Rejected(why)) => Err(why["code"].clone()),
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn users_blocked_before_parlor_started_are_refused_on_every_interface() {
    let redis = Redis::start().await;
    let mut old = redis.connection().await;
    let block = ["device_id", "x", "status", "blocked", "active", "false"];
    for name in ["u1", "u2", "u3", "u4"] {
        hset(&mut old, &format!("ha:user:{name}"), &block).await;
    }
    let before = hash(&mut old, "ha:user:u1").await;
    let node = home_assistant(&redis).await;
    let begin = call("POST", "/v1/sessions").by(&user("u1")).at(&node).await;
    begin.refused(403, "session_blocked");
    let request = call("GET", COUNT).by(&user("u2")).at(&node).await;
    request.refused(403, "session_blocked");
    let refused = Client::of("u3", node.grpc_address()).await.get("u3").await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::PermissionDenied);
    assert_eq!(
        connect(&node, "u4").await.err(),
        Some(json!("session_blocked"))
    );
    let validate = ValidateSessionRequest {
        user_id: "u4".into(),
    };
    let services = Client::new(Some(service()), node.grpc_address()).await;
    let answer: ValidateSessionResponse = services
        .ask("parlor.v1.SessionService", "Validate", validate)
        .await
        .unwrap();
    assert!(!answer.valid);
    for name in ["u1", "u2", "u3", "u4"] {
        let key = format!("ha:user:{name}");
        assert_eq!(hash(&mut old, &key).await, before, "{name}");
        assert_eq!(ttl(&mut old, &key).await, -1, "{name}");
        // The block stays when the hash is gone.
        redis::cmd("DEL")
            .arg(&key)
            .exec_async(&mut old)
            .await
            .unwrap();
        let begin = call("POST", "/v1/sessions").by(&user(name)).at(&node).await;
        begin.refused(403, "session_blocked");
    }
    // An admin of Parlor lifts it.
    let lift = call("PATCH", "/v1/admin/sessions/u1").by(&admin("root"));
    let lift = lift.json(json!({ "status": "login" })).at(&node).await;
    assert!([200, 404].contains(&lift.status), "{lift:?}");
    call("POST", "/v1/sessions")
        .by(&user("u1"))
        .at(&node)
        .await
        .created();
}

#[tokio::test]
async fn users_logged_in_before_parlor_started_stay_logged_in() {
    let redis = Redis::start().await;
    let mut old = redis.connection().await;
    for name in ["u1", "u2", "u3"] {
        log_in(&mut old, name).await;
    }
    hset(
        &mut old,
        "ha:user:u12",
        &["device_id", "x", "status", "login", "active", "true"],
    )
    .await;
    let node = home_assistant(&redis).await;
    call("GET", COUNT).by(&user("u1")).at(&node).await.ok();
    let me = call("GET", "/v1/sessions/me")
        .by(&user("u1"))
        .at(&node)
        .await;
    assert_eq!(me.ok()["deviceId"], "iPhone_12_ABC123");
    Client::of("u2", node.grpc_address())
        .await
        .get("u2")
        .await
        .unwrap();
    drop(connect(&node, "u3").await.unwrap());
    call("GET", COUNT).by(&user("u12")).at(&node).await.ok();
    for name in ["u1", "u2", "u12"] {
        let hash = hash(&mut old, &format!("ha:user:{name}")).await;
        // The check of the old service.
        assert!(
            !hash["device_id"].is_empty() && hash["active"] == "true",
            "{hash:?}"
        );
    }
    assert!(ttl(&mut old, "ha:user:u1").await > 600_000);
    // The old service disables a user, then logs another one out.
    hset(&mut old, "ha:user:u1", &["active", "false"]).await;
    redis::cmd("DEL")
        .arg("ha:user:u2")
        .exec_async(&mut old)
        .await
        .unwrap();
    for (name, status, code) in [
        ("u1", 403, "session_blocked"),
        ("u2", 401, "session_expired"),
    ] {
        parlor_testkit::eventually("the change takes effect", async || {
            let answer = call("GET", COUNT).by(&user(name)).at(&node).await;
            answer.status == status
        })
        .await;
        let answer = call("GET", COUNT).by(&user(name)).at(&node).await;
        answer.refused(status, code);
    }
    // A logout in Parlor logs the user out of the old service, and says how to get in again.
    let out = call("DELETE", "/v1/sessions/me")
        .by(&user("u12"))
        .at(&node)
        .await;
    out.ok();
    assert!(hash(&mut old, "ha:user:u12").await.is_empty());
    for (method, path) in [("GET", COUNT), ("POST", "/v1/sessions")] {
        let detail = call(method, path).by(&user("u12")).at(&node).await;
        let detail = detail.refused(401, "session_expired");
        assert!(
            detail.contains("sign in again") && !detail.contains("POST"),
            "{detail}"
        );
    }
    let newer = token_with_claims("u12", &json!({ "iat": now() + 2 }));
    call("POST", "/v1/sessions")
        .by(&newer)
        .at(&node)
        .await
        .created();
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
