//! An import of an export restores the same rows.

use parlor_testkit::{Postgres, ServerProcess};
use serde_json::{Value, json};

use super::{Target, numbers, run_on};
use crate::http::client::{call, node, ready};
use crate::support::PARLOR;
use crate::tokens::{SECRET, admin, service, user};

async fn post(node: &ServerProcess, who: &str, path: &str, body: Value) {
    let done = call("POST", path).by(&user(who)).json(body).at(node).await;
    assert!((200..300).contains(&done.status), "{path}: {done:?}");
}

/// Fills a node with everything that its database can contain.
async fn fill(node: &ServerProcess) {
    for (who, body) in [
        (
            "alice",
            json!({ "id": "lunch", "kind": "group", "title": "Lunch \u{1F35C}", "members": ["bob", "root"], "open": true, "idempotencyKey": "k1" }),
        ),
        (
            "alice",
            json!({ "id": "pair", "kind": "direct", "members": ["bob"] }),
        ),
        (
            "bob",
            json!({ "id": "help", "kind": "support", "members": ["alice"], "priority": "high", "history": "since_join" }),
        ),
        ("bob", json!({ "id": "gone", "kind": "group" })),
    ] {
        post(node, who, "/v1/conversations", body).await;
    }
    let messages = "/v1/conversations/lunch/messages";
    for (who, body) in [
        (
            "alice",
            json!({ "content": "first\nline \"two\" \u{2028}", "clientId": "a-1" }),
        ),
        (
            "alice",
            json!({ "content": "hi @bob", "metadata": { "mentions": ["bob"], "z": 1.5e-7, "a": [1, null, { "b": 0.123_456_789_012_345_68 }] } }),
        ),
        ("bob", json!({ "content": "to be deleted" })),
        (
            "root",
            json!({ "content": "", "metadata": { "image": "x.png" } }),
        ),
    ] {
        post(node, who, messages, body).await;
    }
    let edit = call("PATCH", &format!("{messages}/2")).by(&user("alice"));
    edit.json(json!({ "content": "edited" }))
        .at(node)
        .await
        .ok();
    call("DELETE", &format!("{messages}/3"))
        .by(&user("bob"))
        .at(node)
        .await
        .ok();
    post(
        node,
        "bob",
        "/v1/conversations/pair/messages",
        json!({ "content": "psst" }),
    )
    .await;
    post(node, "alice", "/v1/conversations/lunch/read", json!({})).await;
    post(
        node,
        "bob",
        "/v1/conversations/lunch/unread",
        json!({ "seq": 2 }),
    )
    .await;
    post(
        node,
        "alice",
        "/v1/conversations/pair/delivered",
        json!({ "seq": 1 }),
    )
    .await;
    let mute = call("PUT", "/v1/conversations/pair/members/alice").by(&user("alice"));
    mute.json(json!({ "mutedUntil": "2099-01-01T00:00:00.000Z" }))
        .at(node)
        .await
        .ok();
    let rename = call("PATCH", "/v1/conversations/lunch").by(&user("alice"));
    rename
        .json(json!({ "title": "Dinner" }))
        .at(node)
        .await
        .ok();
    let leave = call("DELETE", "/v1/conversations/lunch/members/root").by(&user("alice"));
    leave.at(node).await.ok();
    call("DELETE", "/v1/conversations/gone")
        .by(&user("bob"))
        .at(node)
        .await
        .ok();
    let block = call("PATCH", "/v1/admin/sessions/mallory").by(&admin("root"));
    block
        .json(json!({ "status": "blocked", "reason": "spam \"x\"" }))
        .at(node)
        .await
        .ok();
    let end = call("DELETE", "/v1/sessions/me").by(&user("slow"));
    end.at(node).await.ok();
}

/// Everything that Alice and Bob can read.
async fn read_everything(node: &ServerProcess) -> Value {
    let mut all = Vec::new();
    for who in ["alice", "bob"] {
        for path in [
            "/v1/conversations",
            "/v1/conversations/lunch/messages",
            "/v1/conversations/lunch/members",
            "/v1/conversations/lunch/receipts",
            "/v1/conversations/pair/messages",
            "/v1/unread",
            "/v1/sessions/me",
        ] {
            let mut reply = call("GET", path).by(&user(who)).at(node).await.ok();
            if path == "/v1/conversations" {
                // Presence is not part of the database.
                for conversation in reply["conversations"].as_array_mut().unwrap() {
                    conversation["other"] = Value::Null;
                }
            }
            if path == "/v1/sessions/me" {
                // The store knows a later use of the session than the row.
                reply = json!([reply["loginTime"], reply["deviceId"], reply["status"]]);
            }
            all.push(reply);
        }
    }
    Value::Array(all)
}

#[tokio::test]
async fn an_export_imports_into_the_other_database_with_equal_bytes() {
    let mut source = ready(node()).await;
    fill(&source).await;
    let before = read_everything(&source).await;
    // A running server does not disturb the export.
    let data = source.data_folder();
    let first = run_on(&data, "sqlite:", &["export"]).await.ok();
    assert!(source.terminate_and_wait().await.success());
    let path = data.join("export.jsonl");
    let summary = ["export", "--output", path.to_str().unwrap(), "--json"];
    let summary = run_on(&data, "sqlite:", &summary).await.json();
    assert_eq!(summary["types"]["message"], 5, "{summary}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
    for record_type in [
        "parlor",
        "user",
        "session",
        "deletedConversation",
        "conversation",
        "member",
        "message",
        "mention",
        "read",
        "end",
    ] {
        let start = format!("{{\"type\":\"{record_type}\",");
        assert!(
            first.lines().any(|line| line.starts_with(&start)),
            "{record_type}\n{first}"
        );
    }

    let server = Postgres::start().await;
    let postgres = Target::postgres(&server).await;
    postgres.import(&path).await.ok();
    assert_eq!(postgres.export().await, first);
    let back = Target::sqlite();
    let copy = postgres.folder.path().join("copy.jsonl");
    std::fs::write(&copy, postgres.export().await).unwrap();
    back.import(&copy).await.ok();
    assert_eq!(back.export().await, first);
    let again = back
        .run(&["import", path.to_str().unwrap(), "--json"])
        .await
        .json();
    assert_eq!(numbers(&again, "message"), [5, 0, 5], "{again}");
    assert_eq!(back.export().await, first);

    for target in [postgres, back] {
        let node = ServerProcess::parlor_serve(PARLOR)
            .env("PARLOR_AUTH__SECRET", SECRET)
            .arg("--data")
            .arg(target.data_folder())
            .env("PARLOR_DATABASE__URL", &target.database);
        let mut node = node.start().await;
        node.wait_for_line("listening").await;
        parlor_testkit::eventually("the node is ready", async || {
            crate::support::get(&node.http_url(), "/readyz")
                .await
                .map(|it| it.0 == 200)
        })
        .await;
        assert_eq!(read_everything(&node).await, before);
        let blocked = call("GET", "/v1/admin/sessions/mallory")
            .by(&admin("root"))
            .at(&node)
            .await
            .ok();
        assert_eq!(blocked["status"], "blocked");
        let begin = call("POST", "/v1/conversations")
            .by(&service())
            .header("Parlor-User", "bob");
        let begin = begin
            .json(json!({ "id": "gone", "kind": "group" }))
            .at(&node)
            .await;
        begin.refused(409, "conversation_exists");
        assert!(node.terminate_and_wait().await.success());
    }
}

#[tokio::test]
async fn an_export_that_was_cut_off_or_changed_is_rejected() {
    let target = Target::sqlite();
    let source = Target::sqlite();
    source
        .import_lines(&[
            super::conversation("c1", "2024-01-01T00:00:00Z"),
            super::member("c1", "alice"),
            super::message("c1", "m1", "alice", "2024-01-01T00:00:01Z"),
        ])
        .await;
    let text = source.export().await;
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let rejected = async |change: &dyn Fn(&mut Vec<Value>), why: &str| {
        let mut lines = lines.clone();
        change(&mut lines);
        let refused = target.import(&target.file(&lines)).await;
        assert_eq!(refused.exit_code, 1, "{why}");
        assert!(refused.stdout.contains(why), "{why}\n{refused:?}");
    };
    rejected(
        &|lines| drop(lines.pop()),
        "line 5: the file ends without a line of the type `end`",
    )
    .await;
    rejected(
        &|lines| drop(lines.remove(3)),
        "line 5, field `records`: Parlor exported 4 records",
    )
    .await;
    rejected(
        &|lines| lines[0]["version"] = json!(2),
        "line 1, field `version`",
    )
    .await;
    rejected(&|lines| lines[3]["seq"] = json!(2), "line 4, field `rev`").await;
    rejected(
        &|lines| drop(lines[3].as_object_mut().unwrap().remove("seq")),
        "line 4, field `seq`: the field is missing",
    )
    .await;
    rejected(
        &|lines| lines[2]["joinedSeq"] = json!(9),
        "line 3, field `joinedSeq`: the number is above `lastSeq`",
    )
    .await;
    rejected(
        &|lines| lines[2]["role"] = json!("king"),
        "line 3, field `role`",
    )
    .await;
    assert_eq!(target.records("conversation").await.len(), 0);
    target.import(&target.file(&lines)).await.ok();
    assert_eq!(target.export().await, text);
    rejected(
        &|lines| lines[3]["content"] = json!("another text"),
        "line 4: the database contains another message with the same id or key",
    )
    .await;
    assert_eq!(target.export().await, text);
}
