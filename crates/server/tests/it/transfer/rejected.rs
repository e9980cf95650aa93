//! Invalid files, and systems that are running.

use parlor_testkit::{Postgres, Redis};
use serde_json::{Value, json};

use super::{Target, conversation, member, message, run_on};
use crate::http::client::{node, ready};

/// A line with one changed field.
fn with(mut line: Value, field: &str, value: Value) -> Value {
    line[field] = value;
    line
}

#[tokio::test]
async fn every_invalid_line_is_named_and_nothing_is_written() {
    let day = "2024-01-01T00:00:00Z";
    let text = |id: &str| message("c1", id, "alice", day);
    let cases = [
        (conversation("c1", day), ""),
        (
            json!({ "type": "chat" }),
            "field `type`: the type \"chat\" is unknown; use one of parlor, user",
        ),
        (json!({ "id": "x" }), "missing field `type`"),
        (
            with(conversation("c2", day), "id", json!("a b")),
            "field `id`: conversation id \"a b\" is not allowed",
        ),
        (
            with(conversation("c2", day), "kind", json!("direct")),
            "field `members`: a direct conversation needs",
        ),
        (
            with(conversation("c2", day), "priority", json!("low")),
            "only a support conversation can have a `priority`",
        ),
        (
            conversation("c2", "2024-01-01"),
            "field `createdAt`: invalid value",
        ),
        (
            conversation("c2", "2199-01-01T00:00:00Z"),
            "field `createdAt`: the time 2199-01-01T00:00:00.000Z is in the future",
        ),
        (
            with(member("c1", "alice"), "role", json!("king")),
            "field `role`",
        ),
        (
            with(member("c1", "alice"), "name", json!("Alice")),
            "unknown field `name`",
        ),
        (
            member("c1", "online"),
            "field `userId`: user id \"online\" is not allowed",
        ),
        (
            with(text("m1"), "seq", json!(7)),
            "field `seq`: only a file that Parlor exported has this field",
        ),
        (
            with(text("m1"), "content", json!("x".repeat(9_000))),
            "the content has 9000 bytes; the maximum is 8192",
        ),
        (
            with(text("m1"), "content", json!("")),
            "`content` is empty and `metadata` is absent",
        ),
        (
            with(text("m1"), "metadata", json!([1])),
            "`metadata` must be a JSON object",
        ),
        (
            with(text("m1"), "deletedAt", json!(day)),
            "a deleted message has no content",
        ),
        (
            with(text("m1"), "editedAt", json!("2023-01-01T00:00:00Z")),
            "field `editedAt`: the time is before `createdAt`",
        ),
        (
            with(text("m1"), "id", json!("\n")),
            "field `id`: the id is not 1 to 128 bytes of printable text",
        ),
        (
            with(text("m1"), "createdAt", json!("2023-12-31T00:00:00Z")),
            "field `createdAt`: the message is older than",
        ),
        (
            json!({ "type": "read", "conversationId": "c1", "userId": "alice" }),
            "exactly one of `seq`, `messageId` and `at`",
        ),
    ];
    let target = Target::sqlite();
    let lines: Vec<Value> = cases.iter().map(|(line, _)| line.clone()).collect();
    let file = target.file(&lines);
    for args in [
        &["import", file.to_str().unwrap()][..],
        &["import", file.to_str().unwrap(), "--dry-run"],
    ] {
        let refused = target.run(args).await;
        assert_eq!(refused.exit_code, 1, "{refused:?}");
        for (nth, (_, problem)) in cases.iter().enumerate().skip(1) {
            let start = format!("line {}", nth + 1);
            let mut found = refused
                .stdout
                .lines()
                .filter(|line| line.starts_with(&start));
            assert!(
                found.any(|line| line.contains(problem)),
                "{start}: {problem}\n{}",
                refused.stdout
            );
        }
        assert!(
            refused.stdout.contains("nothing was changed"),
            "{refused:?}"
        );
    }
    assert!(!target.data_folder().join("parlor.db").exists());
    let unknown = target.file(&[conversation("c1", day), member("c2", "alice")]);
    let refused = target
        .run(&["import", unknown.to_str().unwrap(), "--dry-run", "--json"])
        .await;
    let problem = "line 2, field `conversationId`: the conversation c2 is unknown; put its line before this one";
    assert_eq!(
        refused.json()["listedProblems"],
        json!([problem]),
        "{refused:?}"
    );
    std::fs::write(&unknown, "{\"type\":\"user\",\"id\":\"a\"} {}\n{\n").unwrap();
    let refused = target.import(&unknown).await;
    assert!(
        refused
            .stdout
            .contains("line 1: there is text after the JSON object"),
        "{refused:?}"
    );
    assert!(
        refused.stdout.contains("line 2: EOF while parsing"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_line_that_contradicts_the_database_stops_before_its_page() {
    let server = Postgres::start().await;
    let day = "2024-01-01T00:00:00Z";
    for target in Target::both(&server).await {
        let direct = |id: &str| json!({ "type": "conversation", "id": id, "kind": "direct", "members": ["a", "b"], "createdAt": day });
        target
            .import_lines(&[
                conversation("c1", day),
                message("c1", "m1", "a", "2024-02-01T00:00:00Z"),
                direct("ab"),
            ])
            .await;
        let before = target.export().await;
        for (line, why) in [
            (
                with(conversation("c1", day), "kind", json!("support")),
                "another conversation has the id c1: its kind is group",
            ),
            (
                direct("ba"),
                "field `members`: the direct conversation of these users exists already as ab",
            ),
            (
                member("ab", "c"),
                "field `userId`: c is not one of the two users",
            ),
            (
                message("ab", "m", "c", day),
                "field `senderId`: c is not one of the two users",
            ),
            (
                message("c1", "m2", "a", day),
                "field `createdAt`: the message is older than",
            ),
            (
                json!({ "type": "read", "conversationId": "c1", "userId": "zoe", "seq": 1 }),
                "field `userId`: zoe is not a member of c1",
            ),
            (
                json!({ "type": "read", "conversationId": "ab", "userId": "a", "seq": 1 }),
                "field `seq`: the conversation has only 0 messages",
            ),
            (
                json!({ "type": "read", "conversationId": "ab", "userId": "a", "messageId": "q" }),
                "field `messageId`: the conversation has no message \"q\"",
            ),
        ] {
            let file = target.file(&[json!({ "type": "user", "id": "new" }), line]);
            let refused = target.import(&file).await;
            assert!(
                refused.exit_code == 1 && refused.stdout.contains("line 2, "),
                "{why}\n{refused:?}"
            );
            assert!(
                refused.stdout.contains(why) && refused.stdout.contains("nothing was changed"),
                "{why}\n{refused:?}"
            );
            assert_eq!(target.export().await, before, "{why}");
        }
    }
}

#[tokio::test]
async fn an_import_into_a_running_system_is_refused() {
    let (redis, server) = (Redis::start().await, Postgres::start().await);
    let url = server.create_database().await;
    let empty = Target::at(url.clone());
    let file = empty.file(&[json!({ "type": "user", "id": "alice" })]);
    let args = ["import", file.to_str().unwrap()];
    let refused = async |data: &std::path::Path, database: &str, more: &[&str], why: &str| {
        let ran = run_on(data, database, &[&args, more].concat()).await;
        assert!(
            ran.exit_code == 1 && ran.stderr.contains(why),
            "{why}\n{ran:?}"
        );
    };
    let mut on_redis = ready(
        node()
            .env("PARLOR_STORE__URL", redis.url())
            .env("PARLOR_DATABASE__URL", &url),
    )
    .await;
    let redis_url = redis.url();
    refused(
        &empty.data_folder(),
        &url,
        &["--store", &redis_url],
        "in use by the node",
    )
    .await;
    refused(
        &empty.data_folder(),
        &url,
        &[],
        "is in use; stop every server",
    )
    .await;
    assert!(on_redis.terminate_and_wait().await.success());
    run_on(
        &empty.data_folder(),
        &url,
        &[&args[..], &["--store", &redis_url]].concat(),
    )
    .await
    .ok();
    let other = empty.folder.path().join("other");
    refused(
        &other,
        "sqlite:",
        &["--store", &redis_url],
        "belongs to another database",
    )
    .await;

    let embedded = ready(node()).await;
    let data = embedded.data_folder();
    refused(
        &data,
        "sqlite:",
        &[],
        "if a server uses it, stop the server",
    )
    .await;
    let database = format!("sqlite:{}", data.join("parlor.db").display());
    refused(
        &empty.data_folder(),
        &database,
        &[],
        "is in use; stop every server",
    )
    .await;
}

#[tokio::test]
async fn an_export_that_names_a_conversation_of_the_database_as_deleted_is_rejected() {
    let day = "2024-01-01T00:00:00Z";
    let target = Target::sqlite();
    target
        .import_lines(&[
            conversation("c1", day),
            message("c1", "m1", "a", "2024-02-01T00:00:00Z"),
        ])
        .await;
    let before = target.export().await;
    let header: Value = serde_json::from_str(before.lines().next().unwrap()).unwrap();
    let file = target.file(&[
        header,
        json!({ "type": "deletedConversation", "id": "c1", "deletedAt": day }),
        json!({ "type": "end", "records": 1 }),
    ]);
    let refused = target.import(&file).await;
    let problem = "line 2, field `id`: the database contains this conversation";
    assert!(
        refused.exit_code == 1 && refused.stdout.contains(problem),
        "{refused:?}"
    );
    assert_eq!(target.export().await, before);
}
