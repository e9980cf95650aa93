//! Sessions that an old service has written before Parlor ever started, for every preset that shares them.

use parlor_server::grpc::proto::v1::{ValidateSessionRequest, ValidateSessionResponse};
use parlor_testkit::{SocketIoClientError, SocketIoTestClient, eventually};
use serde_json::{Value, json};

use super::monitor::{ChangeKind, Keyspace, TakeoverRule};
use super::old_service::OldService;
use super::side_by_side::SideBySide;
use crate::grpc::client::Client;
use crate::http::client::{TestResponse, call, sign_in};
use crate::tokens::{admin, now, service, token_with_claims, user};

/// Any request that needs a session.
const COUNT: &str = "/v1/presence/count";
/// Users with a block, and users with a session, one per interface.
const BLOCKED: [&str; 4] = ["b1", "b2", "b3", "b4"];
const LOGGED_IN: [&str; 3] = ["l1", "l2", "l3"];

/// Writes blocks and sessions with the commands of the document.
pub async fn write_sessions(old: &OldService, prefix: &str) {
    let time = now() * 1_000;
    for name in BLOCKED {
        let fields = "device_id x status blocked active false";
        old.run(&format!("HSET {prefix}user:{name} {fields}")).await;
    }
    for name in LOGGED_IN {
        let fields =
            format!("login_time {time} last_seen {time} active true ip_address 192.168.1.100");
        let device = "device_id iPhone_12_ABC123";
        old.run(&format!("HSET {prefix}user:{name} {device} {fields}"))
            .await;
        old.run(&format!("EXPIRE {prefix}user:{name} 604800")).await;
    }
}

async fn ask(run: &SideBySide, method: &str, path: &str, name: &str) -> TestResponse {
    call(method, path).by(&user(name)).at(&run.node).await
}

/// Connects over Socket.IO; the error code of a rejected handshake.
async fn connect(run: &SideBySide, name: &str) -> Result<SocketIoTestClient, Value> {
    let auth = json!({ "token": user(name), "deviceId": "phone" });
    match SocketIoTestClient::connect(run.node.http_address(), &auth).await {
        Ok(client) => Ok(client),
        Err(SocketIoClientError::Rejected(why)) => Err(why["code"].clone()),
        Err(error) => panic!("{error:?}"),
    }
}

/// HTTP, gRPC and Socket.IO refuse the blocked users, and their hashes stay as they are.
pub async fn blocked_users_are_refused(run: &SideBySide, prefix: &str) {
    let before = run.old.run(&format!("HGETALL {prefix}user:b1")).await;
    let begin = ask(run, "POST", "/v1/sessions", "b1").await;
    begin.refused(403, "session_blocked");
    let request = ask(run, "GET", COUNT, "b2").await;
    request.refused(403, "session_blocked");
    let refused = Client::of("b3", run.node.grpc_address())
        .await
        .get("b3")
        .await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::PermissionDenied);
    assert_eq!(
        connect(run, "b4").await.err(),
        Some(json!("session_blocked"))
    );
    let validate = ValidateSessionRequest {
        user_id: "b4".into(),
    };
    let services = Client::new(Some(service()), run.node.grpc_address()).await;
    let answer: ValidateSessionResponse = services
        .ask("parlor.v1.SessionService", "Validate", validate)
        .await
        .unwrap();
    assert!(!answer.valid);
    for name in BLOCKED {
        let key = format!("{prefix}user:{name}");
        assert_eq!(
            run.old.run(&format!("HGETALL {key}")).await,
            before,
            "{name}"
        );
        assert_eq!(run.old.run(&format!("TTL {key}")).await, -1, "{name}");
        // The block stays when the hash is gone.
        run.old.run(&format!("DEL {key}")).await;
        let begin = ask(run, "POST", "/v1/sessions", name).await;
        begin.refused(403, "session_blocked");
    }
    // An admin of Parlor lifts it.
    let lift = call("PATCH", "/v1/admin/sessions/b1").by(&admin("root"));
    let lift = lift.json(json!({ "status": "login" })).at(&run.node).await;
    assert!([200, 404].contains(&lift.status), "{lift:?}");
    sign_in(&run.node, &user("b1")).await;
}

/// HTTP, gRPC and Socket.IO accept the users who are logged in, and the hashes stay sessions of the old service.
pub async fn logged_in_users_stay(run: &SideBySide, prefix: &str) {
    let me = ask(run, "GET", "/v1/sessions/me", "l1").await;
    assert_eq!(me.ok()["deviceId"], "iPhone_12_ABC123");
    let grpc = Client::of("l2", run.node.grpc_address()).await;
    grpc.get("l2").await.unwrap();
    drop(connect(run, "l3").await.unwrap());
    // The handshake of `l3` was a second login, which changes the device.
    let phone = "iPhone_12_ABC123";
    for (name, device) in [("l1", phone), ("l2", phone), ("l3", "phone")] {
        let key = format!("{prefix}user:{name}");
        let fields = run.old.run(&format!("HMGET {key} device_id active")).await;
        assert_eq!(fields, json!([device, "true"]), "{name}");
        let left = run.old.run(&format!("TTL {key}")).await;
        assert!(left.as_i64() > Some(600_000), "{name}: {left}");
    }
    run.old
        .run(&format!("HSET {prefix}user:l1 active false"))
        .await;
    run.old.run(&format!("DEL {prefix}user:l2")).await;
    for (name, status, code) in [
        ("l1", 403, "session_blocked"),
        ("l2", 401, "session_expired"),
    ] {
        eventually("the change takes effect", async || {
            ask(run, "GET", COUNT, name).await.status == status
        })
        .await;
        ask(run, "GET", COUNT, name).await.refused(status, code);
    }
    logout_reaches_the_old_service(run, prefix).await;
}

/// A logout in Parlor ends the session of the old service, and says how to get in again.
async fn logout_reaches_the_old_service(run: &SideBySide, prefix: &str) {
    ask(run, "DELETE", "/v1/sessions/me", "l3").await.ok();
    assert_eq!(run.old.run(&format!("HLEN {prefix}user:l3")).await, 0);
    for (method, path) in [("GET", COUNT), ("POST", "/v1/sessions")] {
        let detail = ask(run, method, path, "l3")
            .await
            .refused(401, "session_expired");
        assert!(
            detail.contains("sign in again") && !detail.contains("POST"),
            "{detail}"
        );
    }
    let newer = token_with_claims("l3", &json!({ "iat": now() + 2 }));
    sign_in(&run.node, &newer).await;
}

/// Fields of a session in the document.
const FIELDS: [&str; 6] = [
    "device_id",
    "login_time",
    "last_seen",
    "status",
    "active",
    "ip_address",
];

/// True if Parlor has compared the session at this key with its rows.
fn is_adopted(key: &str, keyspace: &Keyspace) -> bool {
    let check = key.replace("user:", "parlor:revoked:");
    keyspace.value(&check, "").is_some()
}

/// Rule for the hashes at `user:*`, or below a prefix: requests renew an adopted session, and a second login changes it.
pub const fn renewal_rule(key: &'static str) -> TakeoverRule {
    TakeoverRule {
        key,
        kind: ChangeKind::Overwrite,
        reason: "only a later request, a later login or a block at Parlor replaces what the other service wrote",
        allows: |change, keyspace| match change.entry.as_str() {
            "last_seen" | "login_time" => change.new >= change.old,
            "device_id" | "ip_address" => is_adopted(&change.key, keyspace),
            // A block of Parlor is restored.
            "active" => change.new == "false",
            "status" => change.new == "blocked",
            _ => false,
        },
    }
}

/// Rule for the same hashes: a logout removes the fields of a session that Parlor has adopted.
pub const fn logout_rule(key: &'static str) -> TakeoverRule {
    TakeoverRule {
        key,
        kind: ChangeKind::Remove,
        reason: "only the fields of an adopted session are removed",
        allows: |change, keyspace| {
            FIELDS.contains(&change.entry.as_str()) && is_adopted(&change.key, keyspace)
        },
    }
}
