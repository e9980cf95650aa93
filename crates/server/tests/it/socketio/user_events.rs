//! Tests of typing, receipts, unread counts and presence.

use serde_json::{Value, json};

use super::{connect, connect_with_auth, emit_ok, join, next, next_event_named, send};
use crate::http::client::{embedded, node, ready};
use crate::http::conversations::create_lunch_group;
use crate::tokens::{token_with_claims, user};

#[tokio::test]
async fn a_read_on_one_device_clears_the_unread_count_on_the_others() {
    let node = embedded().await;
    create_lunch_group(&node).await;
    let (mut alice, mut phone) = (connect(&node, "alice").await, connect(&node, "bob").await);
    let laptop = json!({ "token": user("bob"), "deviceId": "laptop" });
    let mut laptop = connect_with_auth(&node, &laptop).await;
    join(&mut alice, "lunch").await;
    send(&mut alice, "lunch", "Noon?").await;
    let one = json!({ "conversationId": "lunch", "count": 1, "total": 1 });
    for device in [&mut phone, &mut laptop] {
        assert_eq!(next_event_named(device, "unread").await, one);
    }
    let body = json!({ "conversationId": "lunch", "seq": 1 });
    let delivered = emit_ok(&mut phone, "message:delivered", body.clone()).await;
    assert_eq!(
        (&delivered["unread"], &delivered["total"]),
        (&json!(1), &json!(1))
    );
    let reached = json!({ "conversationId": "lunch", "userId": "bob", "seq": 1 });
    assert_eq!(
        next_event_named(&mut alice, "message:delivered").await,
        reached
    );
    let read = emit_ok(
        &mut phone,
        "message:read",
        json!({ "conversationId": "lunch" }),
    )
    .await;
    assert_eq!((&read["unread"], &read["total"]), (&json!(0), &json!(0)));
    assert_eq!(next_event_named(&mut alice, "message:read").await, reached);
    let none = json!({ "conversationId": "lunch", "count": 0, "total": 0 });
    assert_eq!(next_event_named(&mut laptop, "unread").await, none);
    let marked = emit_ok(&mut laptop, "message:unread", body).await;
    assert_eq!(marked["unread"], 1);
    assert_eq!(next_event_named(&mut phone, "unread").await, none);
    assert_eq!(next_event_named(&mut phone, "unread").await, one);
}

#[tokio::test]
async fn typing_is_sent_to_the_other_members_only() {
    let node = ready(node().env("PARLOR_TTL__TYPING", "60s")).await;
    create_lunch_group(&node).await;
    let named = json!({ "token": token_with_claims("alice", &json!({ "name": "Alice" })) });
    let mut alice = connect_with_auth(&node, &named).await;
    let mut bob = connect(&node, "bob").await;
    for client in [&mut alice, &mut bob] {
        join(client, "lunch").await;
    }
    let here = json!({ "conversationId": "lunch" });
    let typing = |typing: bool| json!({ "conversationId": "lunch", "userId": "alice", "username": "Alice", "typing": typing });
    emit_ok(&mut alice, "typing:start", here.clone()).await;
    assert_eq!(next_event_named(&mut bob, "typing").await, typing(true));
    emit_ok(&mut alice, "typing:stop", here.clone()).await;
    assert_eq!(next_event_named(&mut bob, "typing").await["typing"], false);
    emit_ok(&mut alice, "typing:start", here.clone()).await;
    next_event_named(&mut bob, "typing").await;
    let laptop = json!({ "token": user("bob"), "deviceId": "laptop" });
    let mut laptop = connect_with_auth(&node, &laptop).await;
    let joined = join(&mut laptop, "lunch").await;
    assert_eq!(
        joined["typing"],
        json!([{ "userId": "alice", "username": "Alice" }])
    );
    // A message ends typing.
    send(&mut alice, "lunch", "Noon?").await;
    assert_eq!(next_event_named(&mut bob, "typing").await["typing"], false);
    let events = alice.take_queued_events();
    assert!(
        events.iter().all(|(name, _)| name != "typing"),
        "{events:?}"
    );
}

#[tokio::test]
async fn typing_ends_after_its_ttl() {
    let node = embedded().await;
    create_lunch_group(&node).await;
    let (mut alice, mut bob) = (connect(&node, "alice").await, connect(&node, "bob").await);
    join(&mut bob, "lunch").await;
    let here = json!({ "conversationId": "lunch" });
    emit_ok(&mut alice, "typing:start", here).await;
    assert_eq!(next_event_named(&mut bob, "typing").await["typing"], true);
    assert_eq!(next_event_named(&mut bob, "typing").await["typing"], false);
}

#[tokio::test]
async fn only_presence_changes_of_watched_users_are_delivered() {
    let node = embedded().await;
    let mut alice = connect(&node, "alice").await;
    let ids = json!({ "userIds": ["bob", "carol"] });
    let seen = emit_ok(&mut alice, "presence:watch", ids).await;
    let statuses = |seen: &Value| {
        let users = seen["users"].as_array().unwrap().iter();
        let users = users.map(|it| format!("{} {}", it["userId"], it["status"]).replace('"', ""));
        users.collect::<Vec<_>>()
    };
    assert_eq!(statuses(&seen), ["bob offline", "carol offline"]);
    let mut dave = connect(&node, "dave").await;
    let mut bob = connect(&node, "bob").await;
    assert_eq!(
        statuses(&next_event_named(&mut alice, "presence").await),
        ["bob online"]
    );
    emit_ok(&mut bob, "presence:set", json!({ "status": "busy" })).await;
    assert_eq!(
        statuses(&next_event_named(&mut alice, "presence").await),
        ["bob busy"]
    );
    emit_ok(&mut dave, "presence:set", json!({ "status": "away" })).await;
    emit_ok(&mut bob, "presence:set", json!({ "status": "offline" })).await;
    assert_eq!(
        statuses(&next_event_named(&mut alice, "presence").await),
        ["bob offline"]
    );
    let seen = emit_ok(
        &mut alice,
        "presence:unwatch",
        json!({ "userIds": ["bob"] }),
    )
    .await;
    assert_eq!(statuses(&seen), ["bob offline"]);
    emit_ok(&mut bob, "presence:set", json!({ "status": "online" })).await;
    let _carol = connect(&node, "carol").await;
    let (name, body) = next(&mut alice).await;
    assert_eq!(
        (name.as_str(), statuses(&body)),
        ("presence", vec!["carol online".into()])
    );
    let many: Vec<String> = (0..1_001).map(|number| format!("u{number}")).collect();
    let refused =
        super::emit_error_code(&mut alice, "presence:watch", json!({ "userIds": many })).await;
    assert_eq!(refused, "too_many");
}
