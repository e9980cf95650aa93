//! Checks of section 4 and of the usage examples: the session of a user.

use parlor_testkit::eventually;
use serde_json::{Value, json};

use crate::documents::side_by_side::SideBySide;
use crate::http::client::{TestResponse, call};
use crate::tokens::{admin, user, visitor_token};

const ME: &str = "/v1/sessions/me";

async fn ask(run: &SideBySide, method: &str, path: &str, token: &str) -> TestResponse {
    call(method, path).by(token).at(&run.node).await
}

async fn validate(run: &SideBySide, name: &str) -> Value {
    run.old.call("validate", json!([name])).await
}

/// Waits until a request of this user is refused.
async fn until_refused(run: &SideBySide, token: &str, status: u16, code: &str) {
    eventually("the change takes effect", async || {
        ask(run, "GET", ME, token).await.status == status
    })
    .await;
    ask(run, "GET", ME, token).await.refused(status, code);
}

/// Fields, formats and TTL of a session that began in Parlor.
pub(super) async fn sessions_have_the_fields_of_the_document(run: &SideBySide) {
    ask(run, "POST", "/v1/sessions", &user("uma"))
        .await
        .created();
    assert_eq!(run.old.run("TYPE ha:user:uma").await, "hash");
    let left = run.old.run("TTL ha:user:uma").await;
    assert!(
        (604_000..=604_800).contains(&left.as_i64().unwrap()),
        "{left}"
    );
    let session = run.old.call("session", json!(["uma"])).await;
    assert_eq!(session["status"], "login");
    assert_eq!(session["active"], "true");
    assert_eq!(session["ip_address"], "127.0.0.1");
    assert!(!session["device_id"].as_str().unwrap().is_empty());
    for field in ["login_time", "last_seen"] {
        let time = session[field].as_str().unwrap();
        assert!(
            time.len() == 13 && time.parse::<u64>().is_ok(),
            "{field}: {time}"
        );
    }
    assert_eq!(
        validate(run, "uma").await,
        Value::Null,
        "the old service accepts the user"
    );
}

/// The hash expires after 7 days without a request; each request renews it; DEL ends the session.
pub(super) async fn requests_renew_and_a_delete_ends_the_session(run: &SideBySide) {
    let token = user("uno");
    run.old
        .call("logIn", json!(["uno", "iPhone_12_ABC123", "192.168.1.100"]))
        .await;
    run.old.run("EXPIRE ha:user:uno 1000").await;
    assert_eq!(
        ask(run, "GET", ME, &token).await.ok()["deviceId"],
        "iPhone_12_ABC123"
    );
    let left = run.old.run("TTL ha:user:uno").await;
    assert!(left.as_i64() > Some(604_000), "{left}");
    run.old.call("logOut", json!(["uno"])).await;
    until_refused(run, &token, 401, "session_expired").await;
    assert_eq!(validate(run, "uno").await, "Session expired");
}

/// `login` permits everything, `anonymous` reading, `blocked` nothing.
pub(super) async fn the_status_controls_access(run: &SideBySide) {
    let write = async |token: &str| {
        let create = call("POST", "/v1/conversations").by(token);
        create.json(json!({ "kind": "group" })).at(&run.node).await
    };
    for (name, status) in [("ute", "login"), ("udo", "anonymous"), ("ulf", "blocked")] {
        let fields = format!("device_id web status {status} active true");
        run.old.run(&format!("HSET ha:user:{name} {fields}")).await;
    }
    let read = async |token: &str| ask(run, "GET", "/v1/conversations", token).await;
    read(&user("ute")).await.ok();
    write(&user("ute")).await.created();
    read(&user("udo")).await.ok();
    write(&user("udo")).await.refused(403, "read_only_session");
    read(&user("ulf")).await.refused(403, "session_blocked");
    write(&user("ulf")).await.refused(403, "session_blocked");
    // A visitor's token never becomes more by the hash.
    run.old
        .run("HSET ha:user:uli device_id web status login active true")
        .await;
    write(&visitor_token("uli"))
        .await
        .refused(403, "read_only_session");
}

/// The login of the document has no `status`.
pub(super) async fn a_login_of_the_old_service_is_valid_in_parlor(run: &SideBySide) {
    run.old
        .call(
            "logIn",
            json!(["vera", "iPhone_12_ABC123", "192.168.1.100"]),
        )
        .await;
    assert_eq!(
        ask(run, "GET", ME, &user("vera")).await.ok()["deviceId"],
        "iPhone_12_ABC123"
    );
    let session = run.old.call("session", json!(["vera"])).await;
    assert_eq!(session["ip_address"], "192.168.1.100");
    assert_eq!(session["device_id"], "iPhone_12_ABC123");
}

/// A session of either side passes the check of the old service until it ends.
pub(super) async fn sessions_are_validated_by_the_old_service(run: &SideBySide) {
    let token = user("vito");
    assert_eq!(validate(run, "vito").await, "Session expired");
    ask(run, "POST", "/v1/sessions", &token).await.created();
    assert_eq!(validate(run, "vito").await, Value::Null);
    ask(run, "DELETE", ME, &token).await.ok();
    assert_eq!(validate(run, "vito").await, "Session expired");
}

/// MULTI, HSET `last_seen`, EXPIRE on a session of Parlor.
pub(super) async fn requests_at_the_old_service_renew_the_session(run: &SideBySide) {
    let token = user("viva");
    ask(run, "POST", "/v1/sessions", &token).await.created();
    run.old.run("EXPIRE ha:user:viva 1000").await;
    assert_eq!(validate(run, "viva").await, Value::Null);
    let left = run.old.run("TTL ha:user:viva").await;
    assert!(left.as_i64() > Some(604_000), "{left}");
    ask(run, "GET", ME, &token).await.ok();
}

/// `active` = `false` blocks a user of Parlor at once, and `true` lifts that block.
pub(super) async fn the_old_service_disables_users_of_parlor(run: &SideBySide) {
    let token = user("vlad");
    ask(run, "POST", "/v1/sessions", &token).await.created();
    run.old.call("disable", json!(["vlad"])).await;
    until_refused(run, &token, 403, "session_blocked").await;
    assert_eq!(validate(run, "vlad").await, "User disabled");
    run.old.call("enable", json!(["vlad"])).await;
    eventually("the block is lifted", async || {
        ask(run, "GET", ME, &token).await.status == 200
    })
    .await;
}

/// A block that was made in Parlor stays when the old service logs the user in again: the hash is restored.
pub(super) async fn blocks_of_parlor_are_lifted_only_in_parlor(run: &SideBySide) {
    let token = user("volker");
    ask(run, "POST", "/v1/sessions", &token).await.created();
    let block = call("PATCH", "/v1/admin/sessions/volker").by(&admin("root"));
    let block = block.json(json!({ "status": "blocked" }));
    block.at(&run.node).await.ok();
    assert_eq!(validate(run, "volker").await, "User disabled");
    run.old
        .call("logIn", json!(["volker", "tablet", "192.168.1.102"]))
        .await;
    assert_eq!(validate(run, "volker").await, Value::Null);
    eventually("Parlor has restored the block", async || {
        let refused = ask(run, "GET", ME, &token).await;
        refused.refused(403, "session_blocked");
        validate(run, "volker").await == "User disabled"
    })
    .await;
}

/// DEL logs a user of Parlor out.
pub(super) async fn the_old_service_logs_users_of_parlor_out(run: &SideBySide) {
    let token = user("vroni");
    ask(run, "POST", "/v1/sessions", &token).await.created();
    run.old.call("logOut", json!(["vroni"])).await;
    until_refused(run, &token, 401, "session_expired").await;
}

/// Every session hash of either side has a TTL of at most a week, unless the old service has set none.
pub(super) async fn sessions_expire(run: &SideBySide) {
    for name in ["uma", "vera"] {
        let left = run.old.run(&format!("TTL ha:user:{name}")).await;
        assert!(
            (604_000..=604_800).contains(&left.as_i64().unwrap()),
            "{name}: {left}"
        );
    }
}

/// A user who signs in again, at either side, has one session, and the other side accepts it.
pub(super) async fn sessions_of_both_sides_are_one(run: &SideBySide) {
    let token = user("vanja");
    ask(run, "POST", "/v1/sessions", &token).await.created();
    run.old
        .call("logIn", json!(["vanja", "tablet", "192.168.1.101"]))
        .await;
    eventually("Parlor has the device of the new login", async || {
        ask(run, "GET", ME, &token).await.json()["deviceId"] == "tablet"
    })
    .await;
    assert_eq!(validate(run, "vanja").await, Value::Null);
}
