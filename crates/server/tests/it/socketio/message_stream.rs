//! Tests of the live events of a conversation: none is lost, none is sent twice, the order is kept.

use parlor_testkit::{ServerProcess, SocketIoTestClient};
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};

use super::{
    address, connect, connect_with_auth, emit_error_code, emit_ok, join, next, next_event_named,
    send,
};
use crate::http::client::{embedded, node, ready};
use crate::http::conversations::{create_lunch_group, request};
use crate::tokens::{service, user};

/// A node with high rate limits.
async fn node_with_group() -> ServerProcess {
    let node = ready(
        node()
            .env("PARLOR_LIMITS__MESSAGES", "10000")
            .env("PARLOR_LIMITS__HTTP", "10000"),
    );
    node.await
}

fn seqs(messages: &[Value]) -> Vec<u64> {
    let seq = |message: &Value| message["seq"].as_u64().unwrap();
    messages.iter().map(seq).collect()
}

#[tokio::test]
async fn a_message_reaches_all_joined_sockets_including_the_senders() {
    let node = embedded().await;
    let lunch = create_lunch_group(&node).await;
    let (mut alice, mut bob) = (connect(&node, "alice").await, connect(&node, "bob").await);
    let joined = join(&mut alice, "lunch").await;
    let expected = json!({
        "ok": true, "missed": [], "lastSeq": 0, "rev": 0, "unread": 0, "typing": [], "hasMore": false,
        "membersVersion": 1, "conversation": lunch
    });
    assert_eq!(joined, expected);
    join(&mut bob, "lunch").await;
    let sent = send(&mut alice, "lunch", "Noon?").await;
    assert_eq!(next_event_named(&mut alice, "message:new").await, sent);
    assert_eq!(next_event_named(&mut bob, "message:new").await, sent);

    let body = json!({ "conversationId": "lunch", "seq": 1, "content": "One?" });
    let edited = emit_ok(&mut alice, "message:edit", body).await["message"].take();
    assert_eq!(next_event_named(&mut bob, "message:edited").await, edited);
    let body = json!({ "conversationId": "lunch", "seq": 1 });
    let deleted = emit_ok(&mut alice, "message:delete", body).await["message"].take();
    assert_eq!(next_event_named(&mut bob, "message:deleted").await, deleted);
    let page = emit_ok(&mut bob, "history", json!({ "conversationId": "lunch" })).await;
    assert_eq!(page["messages"], json!([deleted]));
    assert_eq!(page["hasMore"], false);

    let left = json!({ "conversationId": "lunch" });
    emit_ok(&mut bob, "conversation:leave", left.clone()).await;
    emit_ok(&mut bob, "conversation:leave", left).await;
    send(&mut alice, "lunch", "Two?").await;
    let (name, _) = next(&mut bob).await;
    assert_eq!(
        name, "unread",
        "a conversation that was left only sends its unread count"
    );
}

#[tokio::test]
async fn events_sent_before_a_disconnect_are_executed() {
    let node = node_with_group().await;
    create_lunch_group(&node).await;
    let mut bob = connect(&node, "bob").await;
    join(&mut bob, "lunch").await;
    for says_goodbye in [true, false] {
        let mut alice = connect(&node, "alice").await;
        for number in 0..20 {
            let body = json!({ "conversationId": "lunch", "content": number.to_string() });
            alice.emit("message:send", &body).await.unwrap();
        }
        match says_goodbye {
            true => alice.disconnect().await.unwrap(),
            false => drop(alice),
        }
        for number in 0..20 {
            let message = next_event_named(&mut bob, "message:new").await;
            assert_eq!(message["content"], number.to_string());
        }
    }
}

#[tokio::test]
async fn joining_while_messages_are_sent_leaves_no_gap_and_no_duplicate() {
    let node = node_with_group().await;
    create_lunch_group(&node).await;
    let mut alice = connect(&node, "alice").await;
    send(&mut alice, "lunch", "0").await;
    let sending = async {
        for number in 1..=150 {
            send(&mut alice, "lunch", &number.to_string()).await;
        }
    };
    let joining = async {
        let mut all = Vec::new();
        let mut bob = connect(&node, "bob").await;
        while seqs(&all).last() != Some(&151) {
            // Joins from the last received position while messages are being sent.
            let after = seqs(&all).last().copied().unwrap_or_default();
            let body = json!({ "conversationId": "lunch", "afterSeq": after });
            let joined = emit_ok(&mut bob, "conversation:join", body).await;
            all.extend(joined["missed"].as_array().unwrap().clone());
            for _ in 0..7 {
                if seqs(&all).last() == Some(&151) {
                    break;
                }
                all.push(next_event_named(&mut bob, "message:new").await);
            }
            let left = json!({ "conversationId": "lunch" });
            emit_ok(&mut bob, "conversation:leave", left).await;
            // Discards events between the last one and the leave; the next join returns them.
            bob.take_queued_events();
        }
        all
    };
    let ((), all) = tokio::join!(sending, joining);
    assert_eq!(seqs(&all), (1..=151).collect::<Vec<u64>>());
}

#[tokio::test]
async fn resume_delivers_missed_messages_before_new_ones() {
    let node = node_with_group().await;
    create_lunch_group(&node).await;
    let mut alice = connect(&node, "alice").await;
    for content in ["one", "two", "three", "four"] {
        send(&mut alice, "lunch", content).await;
    }
    for (event, seq) in [("message:delete", 2), ("message:edit", 1)] {
        let body = json!({ "conversationId": "lunch", "seq": seq, "content": "changed" });
        emit_ok(&mut alice, event, body).await;
    }
    let back = json!({
        "token": user("bob"), "deviceId": "phone", "resume": { "lunch": { "seq": 3, "rev": 4 }, "secret": 1 }
    });
    let mut bob = connect_with_auth(&node, &back).await;
    let mut received = Vec::new();
    while received.len() < 5 {
        let (name, body) = next(&mut bob).await;
        if name == "conversation:removed" {
            assert_eq!(body, json!({ "conversationId": "secret" }));
        }
        received.push((name, body["seq"].as_u64()));
    }
    received.retain(|(name, _)| name != "conversation:removed");
    // Changes arrive in their order, because the connection can be lost again after each of them.
    let expected = [
        ("message:deleted".to_owned(), Some(2)),
        ("message:edited".to_owned(), Some(1)),
        ("message:new".to_owned(), Some(4)),
        ("conversation:resumed".to_owned(), None),
    ];
    assert_eq!(received, expected);
    send(&mut alice, "lunch", "five").await;
    assert_eq!(next_event_named(&mut bob, "message:new").await["seq"], 5);

    // With a `seq` alone, the changes since that message are sent.
    let back = json!({ "token": user("bob"), "deviceId": "laptop", "resume": { "lunch": 4 } });
    let mut laptop = connect_with_auth(&node, &back).await;
    assert_eq!(
        next_event_named(&mut laptop, "message:deleted").await["seq"],
        2
    );
    assert_eq!(
        next_event_named(&mut laptop, "message:edited").await["seq"],
        1
    );
    assert_eq!(next_event_named(&mut laptop, "message:new").await["seq"], 5);
    let resumed = next_event_named(&mut laptop, "conversation:resumed").await;
    assert_eq!(
        (&resumed["lastSeq"], &resumed["rev"]),
        (&json!(5), &json!(7))
    );
    let body = json!({ "conversationId": "lunch", "afterSeq": 3, "afterRev": 5 });
    let joined = emit_ok(&mut laptop, "conversation:join", body).await;
    assert_eq!(seqs(joined["missed"].as_array().unwrap()), [1, 4, 5]);
}

/// Runs statements on the database of a node without using the node.
async fn send_messages(node: &ServerProcess, sql: &'static str) {
    let path = node.data_folder().join("parlor.db");
    let url = format!("sqlite:{}", path.display());
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut database).await.unwrap();
    database.close().await.unwrap();
}

/// Waits for the next message events: name, `seq` and `rev`.
async fn next_messages(client: &mut SocketIoTestClient, many: usize) -> Vec<(String, u64, u64)> {
    let mut events = Vec::new();
    while events.len() < many {
        let (name, body) = next(client).await;
        if name.starts_with("message:") {
            let number = |field: &str| body[field].as_u64().unwrap();
            events.push((name, number("seq"), number("rev")));
        }
    }
    events
}

#[tokio::test]
async fn changes_of_messages_delivered_by_join_are_delivered_in_order() {
    for others_follow in [true, false] {
        let node = node_with_group().await;
        create_lunch_group(&node).await;
        let (mut alice, mut bob) = (connect(&node, "alice").await, connect(&node, "bob").await);
        if others_follow {
            join(&mut alice, "lunch").await;
        }
        send(&mut alice, "lunch", "one").await;
        // Like rows of a node that died before it published them.
        let statements = "
            INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, created_at, rev) VALUES
                ('lunch', 2, '01a1e50c-ff29-74cf-890f-1dadd5cc3dd5', 'alice', 'user', 'two', 1, 2),
                ('lunch', 3, '01a1e50c-ff29-74cf-890f-1dadd5cc3dd6', 'alice', 'user', 'three', 1, 3);
            UPDATE conversations SET last_seq = 3, rev = 3";
        send_messages(&node, statements).await;
        let body = json!({ "conversationId": "lunch", "afterSeq": 1, "afterRev": 1 });
        let joined = emit_ok(&mut bob, "conversation:join", body).await;
        assert_eq!(seqs(joined["missed"].as_array().unwrap()), [2, 3]);
        let changed = "
            UPDATE messages SET content = '', deleted_at = 2, rev = 4 WHERE seq = 3;
            UPDATE messages SET content = 'changed', edited_at = 2, rev = 5 WHERE seq = 2;
            UPDATE conversations SET rev = 5";
        send_messages(&node, changed).await;

        send(&mut alice, "lunch", "four").await;
        let named = |name: &str, seq, rev| (name.to_owned(), seq, rev);
        let expected = [
            named("message:deleted", 3, 4),
            named("message:edited", 2, 5),
            named("message:new", 4, 6),
        ];
        assert_eq!(next_messages(&mut bob, 3).await, expected);
        if others_follow {
            let expected = [(1, 1), (2, 5), (3, 4), (4, 6)];
            let expected = expected.map(|(seq, rev)| named("message:new", seq, rev));
            assert_eq!(next_messages(&mut alice, 4).await, expected);
        }
    }
}

#[tokio::test]
async fn a_change_of_a_message_delivered_by_join_is_delivered() {
    let node = node_with_group().await;
    create_lunch_group(&node).await;
    let (mut alice, mut bob) = (connect(&node, "alice").await, connect(&node, "bob").await);
    send(&mut alice, "lunch", "one").await;
    let statements = "
        INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, created_at, rev)
            VALUES ('lunch', 2, '01a1e50c-ff29-74cf-890f-1dadd5cc3dd5', 'alice', 'user', 'two', 1, 2);
        UPDATE conversations SET last_seq = 2, rev = 2";
    send_messages(&node, statements).await;
    let body = json!({ "conversationId": "lunch", "afterSeq": 1, "afterRev": 1 });
    emit_ok(&mut bob, "conversation:join", body).await;
    let changed = "
        UPDATE messages SET content = 'changed', edited_at = 2, rev = 3 WHERE seq = 2;
        UPDATE conversations SET rev = 3";
    send_messages(&node, changed).await;
    send(&mut alice, "lunch", "three").await;
    let expected = [("message:edited", 2, 3), ("message:new", 3, 4)];
    let expected = expected.map(|(name, seq, rev)| (name.to_owned(), seq, rev));
    assert_eq!(next_messages(&mut bob, 2).await, expected);
}

#[tokio::test]
async fn a_reconnect_with_pid_and_offset_recovers_the_socket() {
    let node = node_with_group().await;
    create_lunch_group(&node).await;
    let (mut alice, mut bob) = (connect(&node, "alice").await, connect(&node, "bob").await);
    join(&mut bob, "lunch").await;
    send(&mut alice, "lunch", "one").await;
    next_event_named(&mut bob, "message:new").await;
    let (sid, pid) = (
        bob.connect_payload["sid"].clone(),
        bob.connect_payload["pid"].clone(),
    );
    let offset = bob.offset.clone().unwrap();
    // Drops the connection without a disconnect packet.
    drop(bob);
    for content in ["two", "three"] {
        send(&mut alice, "lunch", content).await;
    }
    let back = json!({ "token": user("bob"), "deviceId": "phone", "pid": pid, "offset": offset });
    let mut bob = connect_with_auth(&node, &back).await;
    assert_eq!(
        (&bob.connect_payload["sid"], &bob.connect_payload["pid"]),
        (&sid, &pid)
    );
    for seq in [2, 3] {
        assert_eq!(next_event_named(&mut bob, "message:new").await["seq"], seq);
    }
    send(&mut alice, "lunch", "four").await;
    assert_eq!(next_event_named(&mut bob, "message:new").await["seq"], 4);
    let presence = crate::http::client::call("GET", "/v1/users/bob/presence").by(&service());
    assert_eq!(presence.at(&node).await.ok()["status"], "online");

    // Another user cannot recover the socket.
    let pid = bob.connect_payload["pid"].clone();
    drop(bob);
    let thief = json!({ "token": user("alice"), "pid": pid, "offset": offset });
    let thief = SocketIoTestClient::connect(address(&node), &thief)
        .await
        .unwrap();
    assert_ne!(thief.connect_payload["sid"], sid);
}

#[tokio::test]
async fn a_removed_member_gets_conversation_removed_and_no_later_message() {
    let node = node_with_group().await;
    create_lunch_group(&node).await;
    let (mut alice, mut bob) = (connect(&node, "alice").await, connect(&node, "bob").await);
    join(&mut bob, "lunch").await;
    send(&mut alice, "lunch", "last").await;
    let remove = request(&user("alice"), "DELETE", "/lunch/members/bob");
    remove.at(&node).await.ok();
    send(&mut alice, "lunch", "secret").await;
    assert_eq!(
        next_event_named(&mut bob, "message:new").await["content"],
        "last"
    );
    let removed = json!({ "conversationId": "lunch" });
    assert_eq!(
        next_event_named(&mut bob, "conversation:removed").await,
        removed
    );
    assert_eq!(
        emit_error_code(&mut bob, "conversation:join", removed.clone()).await,
        "not_a_member"
    );

    let back = request(&user("alice"), "PUT", "/lunch/members/bob").json(json!({}));
    back.at(&node).await.ok();
    assert_eq!(
        next_event_named(&mut bob, "conversation:added").await,
        removed
    );
    join(&mut bob, "lunch").await;
    join(&mut alice, "lunch").await;
    request(&user("alice"), "DELETE", "/lunch")
        .at(&node)
        .await
        .ok();
    for client in [&mut alice, &mut bob] {
        assert_eq!(
            next_event_named(client, "conversation:removed").await,
            removed
        );
    }
    let events = bob.take_queued_events();
    assert!(
        events.iter().all(|(name, _)| name != "message:new"),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_join_with_a_cursor_in_the_future_still_receives_new_messages() {
    let node = node_with_group().await;
    create_lunch_group(&node).await;
    let (mut alice, mut bob) = (connect(&node, "alice").await, connect(&node, "bob").await);
    send(&mut alice, "lunch", "one").await;
    let body = json!({ "conversationId": "lunch", "afterSeq": u64::MAX, "afterRev": u64::MAX });
    let joined = emit_ok(&mut bob, "conversation:join", body).await;
    assert_eq!(
        (&joined["missed"], &joined["lastSeq"]),
        (&json!([]), &json!(1))
    );
    send(&mut alice, "lunch", "two").await;
    assert_eq!(next_event_named(&mut bob, "message:new").await["seq"], 2);
}

#[tokio::test]
async fn each_removal_of_a_member_is_delivered_once() {
    let node = node_with_group().await;
    create_lunch_group(&node).await;
    let mut bob = connect(&node, "bob").await;
    let lunch = json!({ "conversationId": "lunch" });
    join(&mut bob, "lunch").await;
    for _ in 0..2 {
        let remove = request(&user("alice"), "DELETE", "/lunch/members/bob");
        remove.at(&node).await.ok();
        assert_eq!(
            next_event_named(&mut bob, "conversation:removed").await,
            lunch
        );
        let back = request(&user("alice"), "PUT", "/lunch/members/bob").json(json!({}));
        back.at(&node).await.ok();
        assert_eq!(
            next_event_named(&mut bob, "conversation:added").await,
            lunch
        );
    }
    let events = bob.take_queued_events();
    assert!(
        events
            .iter()
            .all(|(name, _)| name != "conversation:removed"),
        "{events:?}"
    );
}

#[tokio::test]
async fn changes_of_a_conversation_and_its_members_are_sent() {
    let node = node_with_group().await;
    create_lunch_group(&node).await;
    let (mut alice, mut bob) = (connect(&node, "alice").await, connect(&node, "bob").await);
    join(&mut alice, "lunch").await;
    let change = |method: &'static str, path: &'static str, body: Value| {
        request(&user("alice"), method, path).json(body)
    };
    let renamed = change("PATCH", "/lunch", json!({ "title": "Dinner" }));
    let renamed = renamed.at(&node).await.ok();
    assert_eq!(renamed["version"], 1);
    // Bob has not joined: an updated conversation goes to all sockets of its members, each once.
    for client in [&mut alice, &mut bob] {
        let updated = next_event_named(client, "conversation:updated").await;
        assert_eq!(updated, renamed);
    }
    change("PUT", "/lunch/members/carol", json!({}))
        .at(&node)
        .await
        .ok();
    change("PUT", "/lunch/members/carol", json!({ "role": "admin" }))
        .at(&node)
        .await
        .ok();
    change("DELETE", "/lunch/members/carol", json!({}))
        .at(&node)
        .await
        .ok();
    for (name, role, version) in [
        ("member:added", Some("member"), 2),
        ("member:updated", Some("admin"), 3),
        ("member:removed", None, 4),
    ] {
        let mut expected =
            json!({ "conversationId": "lunch", "userId": "carol", "membersVersion": version });
        if let Some(role) = role {
            expected["role"] = json!(role);
        }
        assert_eq!(next_event_named(&mut alice, name).await, expected);
    }
    let events = bob.take_queued_events();
    let for_joined_sockets =
        |name: &str| name.starts_with("member:") || name == "conversation:updated";
    assert!(
        events.iter().all(|(name, _)| !for_joined_sockets(name)),
        "{events:?}"
    );
    // A client that reconnects receives the title and the version of the members.
    let resume = json!({ "token": user("bob"), "resume": { "lunch": 0 } });
    let mut bob = connect_with_auth(&node, &resume).await;
    let resumed = next_event_named(&mut bob, "conversation:resumed").await;
    assert_eq!(resumed["membersVersion"], 4);
    assert_eq!(resumed["conversation"]["title"], "Dinner");
}
