//! Tests of handshakes, sessions and token expiry.

use parlor_testkit::{ServerProcess, SocketIoTestClient, eventually};
use serde_json::json;

use super::{
    TEST_TIMEOUT, address, connect, connect_with_auth, emit_error_code, emit_ok,
    expect_connect_error, next_event_named, wait_for_close,
};
use crate::http::client::{call, embedded, node, ready, sign_in};
use crate::tokens::{admin, now, service, signed, token_with_claims, user, visitor_token};

#[tokio::test]
async fn a_handshake_with_a_bad_token_gets_connect_error_with_its_code() {
    let node = embedded().await;
    let over = token_with_claims("alice", &json!({ "exp": now() - 60 }));
    let forged = signed(
        &json!({ "sub": "alice", "iat": 0, "exp": now() + 60 }),
        "no",
    );
    for (auth, code) in [
        (json!({}), "token_missing"),
        (json!({ "token": "" }), "token_missing"),
        (json!({ "token": "rubbish" }), "token_invalid"),
        (json!({ "token": forged }), "token_invalid"),
        (json!({ "token": over }), "token_expired"),
        (json!({ "token": service() }), "user_required"),
        (
            json!({ "token": user("alice"), "userId": "bob" }),
            "forbidden",
        ),
        (
            json!({ "token": user("alice"), "deviceId": "a b" }),
            "invalid_id",
        ),
        (
            json!({ "token": user("alice"), "resume": { "c": "x" } }),
            "invalid_request",
        ),
        (json!({ "token": 7 }), "invalid_request"),
    ] {
        assert_eq!(
            expect_connect_error(&node, &auth).await["code"],
            code,
            "{auth}"
        );
    }
    let mut other = SocketIoTestClient::open_transport(address(&node))
        .await
        .unwrap();
    other.send_packet("40/other,{}").await.unwrap();
    let mut alice = connect(&node, "alice").await;
    emit_ok(&mut alice, "heartbeat", json!({})).await;
}

#[tokio::test]
async fn a_handshake_begins_a_session_and_a_device() {
    let node = embedded().await;
    let zoe = user("zoe");
    let session = || call("GET", "/v1/sessions/me").by(&zoe);
    session().at(&node).await.refused(401, "session_expired");
    let mut socket = connect(&node, "zoe").await;
    let begun = session().at(&node).await.ok();
    assert_eq!(
        (&begun["deviceId"], &begun["status"]),
        (&json!("phone"), &json!("login"))
    );
    let devices = call("GET", "/v1/users/zoe/presence/devices").by(&zoe);
    let devices = devices.at(&node).await.ok();
    assert_eq!(devices["devices"][0]["deviceId"], "phone");
    let again = connect(&node, "zoe").await;
    assert_eq!(
        session().at(&node).await.ok()["loginTime"],
        begun["loginTime"]
    );
    drop(again);
    let presence = call("GET", "/v1/users/zoe/presence").by(&zoe);
    assert_eq!(presence.at(&node).await.ok()["status"], "online");
    let beat = emit_ok(&mut socket, "heartbeat", json!({})).await;
    assert_eq!(beat["nextInMs"], 20_000);
}

#[tokio::test]
async fn a_client_disconnect_publishes_offline_at_once() {
    let node = embedded().await;
    let mut alice = connect(&node, "alice").await;
    emit_ok(&mut alice, "presence:watch", json!({ "userIds": ["bob"] })).await;
    let bob = connect(&node, "bob").await;
    let seen = next_event_named(&mut alice, "presence").await;
    assert_eq!(seen["users"][0]["status"], "online");
    bob.disconnect().await.unwrap();
    let seen = next_event_named(&mut alice, "presence").await;
    assert_eq!(seen["users"][0]["userId"], "bob");
    assert_eq!(seen["users"][0]["status"], "offline");
}

#[tokio::test]
async fn a_device_stays_online_while_one_of_its_sockets_is_connected() {
    let node = embedded().await;
    let mut first = connect(&node, "bob").await;
    let second = connect(&node, "bob").await;
    let devices = async || {
        let devices = call("GET", "/v1/users/bob/presence/devices").by(&user("bob"));
        devices.at(&node).await.ok()["devices"].take()
    };
    let before = devices().await[0]["connectedAt"].take();
    second.disconnect().await.unwrap();
    let after = eventually("the disconnect is processed", async || {
        let after = devices().await;
        (after[0]["connectedAt"] != before).then_some(after)
    });
    let after = after.await;
    assert_eq!(after[0]["deviceId"], "phone", "{after}");
    let remove = call("DELETE", "/v1/users/bob/presence/devices/phone").by(&user("bob"));
    remove.at(&node).await.ok();
    assert_eq!(
        next_event_named(&mut first, "session:closed").await,
        json!({ "reason": "logout" })
    );
    let presence = call("GET", "/v1/users/bob/presence").by(&service());
    assert_eq!(presence.at(&node).await.ok()["status"], "offline");
}

#[tokio::test]
async fn the_end_of_a_session_closes_its_sockets_with_the_reason() {
    let node = embedded().await;
    let block = |status: &str| {
        let block = call("PATCH", "/v1/admin/sessions/bob").by(&admin("root"));
        block.json(json!({ "status": status }))
    };
    let mut bob = connect(&node, "bob").await;
    block("blocked").at(&node).await.ok();
    assert_eq!(
        next_event_named(&mut bob, "session:closed").await,
        json!({ "reason": "blocked" })
    );
    wait_for_close(&mut bob).await;
    let auth = json!({ "token": user("bob") });
    assert_eq!(
        expect_connect_error(&node, &auth).await["code"],
        "session_blocked"
    );
    block("login").at(&node).await.ok();
    let mut bob = connect(&node, "bob").await;
    let logout = call("DELETE", "/v1/sessions/me").by(&user("bob"));
    logout.at(&node).await.ok();
    assert_eq!(
        next_event_named(&mut bob, "session:closed").await,
        json!({ "reason": "logout" })
    );
    wait_for_close(&mut bob).await;
    assert_eq!(
        expect_connect_error(&node, &auth).await["code"],
        "session_expired"
    );

    let mut alice = connect(&node, "alice").await;
    let remove = call("DELETE", "/v1/users/alice/presence/devices/phone").by(&user("alice"));
    remove.at(&node).await.ok();
    assert_eq!(
        next_event_named(&mut alice, "session:closed").await,
        json!({ "reason": "logout" })
    );
    wait_for_close(&mut alice).await;
}

#[tokio::test]
async fn with_single_device_a_second_device_replaces_the_first() {
    let node = ready(node().env("PARLOR_SESSIONS__SINGLE_DEVICE", "true")).await;
    let mut phone = connect(&node, "alice").await;
    let auth = json!({ "token": user("alice"), "deviceId": "laptop" });
    let mut laptop = connect_with_auth(&node, &auth).await;
    assert_eq!(
        next_event_named(&mut phone, "session:closed").await,
        json!({ "reason": "replaced" })
    );
    wait_for_close(&mut phone).await;
    emit_ok(&mut laptop, "heartbeat", json!({})).await;
}

#[tokio::test]
async fn a_socket_is_closed_when_its_token_expires_unless_it_was_refreshed() {
    let node = embedded().await;
    // The tokens expire in 8 s, because the leeway is 30 s.
    let short = |id: &str| token_with_claims(id, &json!({ "iat": now() - 100, "exp": now() - 22 }));
    let mut alice = connect_with_auth(&node, &json!({ "token": short("alice") })).await;
    let mut bob = connect_with_auth(&node, &json!({ "token": short("bob") })).await;
    let refresh = |token: String| json!({ "token": token });
    let wrong = emit_error_code(&mut bob, "session:refresh", refresh(user("alice"))).await;
    assert_eq!(wrong, "forbidden");
    let wrong = emit_error_code(&mut bob, "session:refresh", refresh("x".into())).await;
    assert_eq!(wrong, "token_invalid");
    emit_ok(&mut bob, "session:refresh", refresh(user("bob"))).await;
    assert_eq!(
        next_event_named(&mut alice, "session:closed").await,
        json!({ "reason": "expired" })
    );
    wait_for_close(&mut alice).await;
    emit_ok(&mut bob, "heartbeat", json!({})).await;
}

#[tokio::test]
async fn a_service_connects_for_the_named_user() {
    let node = embedded().await;
    crate::http::conversations::create_lunch_group(&node).await;
    let auth = json!({ "token": service(), "userId": "bob", "deviceId": "bridge" });
    let mut bridge = connect_with_auth(&node, &auth).await;
    let sent = super::send(&mut bridge, "lunch", "from another network").await;
    assert_eq!(sent["senderId"], "bob");
}

#[tokio::test]
async fn a_visitor_can_read_and_cannot_write() {
    let node = ready(node().env("PARLOR_SESSIONS__ANONYMOUS", "true")).await;
    sign_in(&node, &visitor_token("guest")).await;
    let create = json!({ "id": "tour", "kind": "group", "members": ["guest"] });
    let create = call("POST", "/v1/conversations")
        .by(&user("alice"))
        .json(create);
    create.at(&node).await.created();
    let mut guest = connect_with_auth(&node, &json!({ "token": visitor_token("guest") })).await;
    super::join(&mut guest, "tour").await;
    let body = json!({ "conversationId": "tour", "content": "hello" });
    assert_eq!(
        emit_error_code(&mut guest, "message:send", body).await,
        "read_only_session"
    );
    let mut alice = connect(&node, "alice").await;
    super::send(&mut alice, "tour", "welcome").await;
    assert_eq!(
        next_event_named(&mut guest, "message:new").await["content"],
        "welcome"
    );
}

#[tokio::test]
async fn a_page_of_another_origin_is_rejected() {
    let node = ready(node().env("PARLOR_SERVER__ALLOWED_ORIGINS", "https://chat.example")).await;
    let ask = |origin: &str| {
        let poll = call("GET", "/socket.io/?EIO=4&transport=polling");
        poll.header("Origin", origin)
    };
    let own = ask("https://chat.example").at(&node).await;
    assert_eq!(own.status, 200, "{own:?}");
    let allowed = own.header("access-control-allow-origin");
    assert_eq!(allowed, Some("https://chat.example"));
    let other = ask("https://elsewhere.example").at(&node).await;
    other.refused(403, "origin_not_allowed");
    let preflight = call("OPTIONS", "/socket.io/?EIO=4&transport=polling");
    let preflight = preflight.header("Origin", "https://chat.example");
    let preflight = preflight.header("Access-Control-Request-Method", "POST");
    let preflight = preflight.at(&node).await;
    assert_eq!(preflight.status, 204, "{preflight:?}");
    let allowed = preflight.header("access-control-allow-origin");
    assert_eq!(allowed, Some("https://chat.example"));
}

#[tokio::test]
async fn handshakes_are_rejected_with_store_unavailable_until_the_store_is_open() {
    let away = node().env("PARLOR_STORE__URL", "redis://127.0.0.1:1");
    let node = away.start().await;
    let auth = json!({ "token": user("alice") });
    assert_eq!(
        expect_connect_error(&node, &auth).await["code"],
        "store_unavailable"
    );
}

#[tokio::test]
async fn a_stopping_node_sends_each_socket_a_reconnect_delay() {
    let mut node: ServerProcess = embedded().await;
    let mut alice = connect(&node, "alice").await;
    node.send_sigterm();
    let closed = next_event_named(&mut alice, "session:closed").await;
    assert_eq!(closed["reason"], "shutdown");
    assert!(
        closed["reconnectInMs"].as_u64().unwrap() <= 5_000,
        "{closed}"
    );
    wait_for_close(&mut alice).await;
    let ended = tokio::time::timeout(TEST_TIMEOUT, node.wait_for_exit())
        .await
        .unwrap();
    assert!(ended.success(), "{}", node.output());
}
