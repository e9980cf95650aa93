//! Files of other systems: order and times are kept, and `seq`, `rev` and ids are assigned.

use parlor_testkit::Postgres;
use serde_json::{Value, json};

use super::{Target, conversation, member, message, numbers};

/// Group `team` with late, muted and former members, and a direct conversation.
fn sample() -> Vec<Value> {
    let mut lines = vec![
        json!({ "type": "user", "id": "mallory", "blockedAt": "2024-01-03T00:00:00Z", "blockedReason": "spam" }),
        conversation("team", "2024-01-01T00:00:00Z"),
        json!({ "type": "member", "conversationId": "team", "userId": "carol", "joinedAt": "2024-01-02T00:00:00Z" }),
        json!({ "type": "member", "conversationId": "team", "userId": "bob", "joinedAt": "2024-01-01T00:00:00Z", "mutedUntil": "2099-01-01T00:00:00Z" }),
        json!({ "type": "member", "conversationId": "team", "userId": "alice", "role": "admin", "joinedAt": 1_704_067_200_000_u64 }),
        json!({ "type": "conversation", "id": "ab", "kind": "direct", "members": ["alice", "bob"], "createdAt": "2024-01-01T00:00:00Z" }),
        json!({ "type": "member", "conversationId": "ab", "userId": "bob", "mutedUntil": "2099-01-01T00:00:00Z" }),
        message("team", "x-1", "alice", "2024-01-01T09:00:00.250+01:00"),
        message("ab", "p-1", "bob", "2024-01-01T08:00:00Z"),
        message("team", "x-2", "dave", "2024-01-01T08:00:00.250Z"),
        message("team", "x-3", "alice", "2024-01-02T08:00:00Z"),
    ];
    lines[10]["metadata"] = json!({ "mentions": ["bob", "alice", "zoe"] });
    let mut deleted = message("team", "x-4", "bob", "2024-01-02T09:00:00Z");
    deleted["content"] = json!("");
    deleted["deletedAt"] = json!("2024-01-02T10:00:00Z");
    lines.push(deleted);
    lines.push(message("team", "x-5", "alice", "2024-01-02T11:00:00Z"));
    lines.push(
        json!({ "type": "read", "conversationId": "team", "userId": "carol", "messageId": "x-4" }),
    );
    lines.push(json!({ "type": "read", "conversationId": "ab", "userId": "alice", "at": "2024-06-01T00:00:00Z" }));
    lines
}

#[tokio::test]
async fn a_foreign_file_keeps_order_and_times_and_gets_numbers() {
    let server = Postgres::start().await;
    let mut exports = Vec::new();
    for target in Target::both(&server).await {
        let report = target.import_lines(&sample()).await;
        assert_eq!(numbers(&report, "message"), [6, 6, 0], "{report}");
        let messages = target.records("message").await;
        let team: Vec<_> = messages
            .iter()
            .filter(|it| it["conversationId"] == "team")
            .map(|it| {
                (
                    it["seq"].as_u64().unwrap(),
                    it["rev"].as_u64().unwrap(),
                    it["clientId"].as_str().unwrap(),
                    it["createdAt"].as_str().unwrap(),
                )
            })
            .collect();
        let expected = [
            (1, 1, "x-1", "2024-01-01T08:00:00.250Z"),
            (2, 2, "x-2", "2024-01-01T08:00:00.250Z"),
            (3, 3, "x-3", "2024-01-02T08:00:00.000Z"),
            // The deletion has a revision of its own.
            (4, 5, "x-4", "2024-01-02T09:00:00.000Z"),
            (5, 6, "x-5", "2024-01-02T11:00:00.000Z"),
        ];
        assert_eq!(team, expected);
        let mentions = target.records("mention").await;
        let mentioned: Vec<_> = mentions
            .iter()
            .map(|it| (&it["userId"], &it["seq"]))
            .collect();
        assert_eq!(mentioned, [(&json!("bob"), &json!(3))]);
        let members = target.records("member").await;
        let carol = members.iter().find(|it| it["userId"] == "carol").unwrap();
        assert_eq!(
            (&carol["joinedSeq"], &carol["joinedVersion"]),
            (&json!(2), &json!(2))
        );
        // The file names no owner, so the admin becomes one.
        let alice = members
            .iter()
            .find(|it| it["userId"] == "alice" && it["conversationId"] == "team")
            .unwrap();
        assert_eq!(
            (&alice["role"], &alice["joinedSeq"]),
            (&json!("owner"), &json!(0))
        );
        assert_eq!(
            members
                .iter()
                .filter(|it| it["mutedUntil"].is_string())
                .count(),
            2
        );
        let reads = target.records("read").await;
        let position = |conversation: &str, user: &str| {
            let read = reads
                .iter()
                .find(|it| it["conversationId"] == conversation && it["userId"] == user);
            read.map(|it| {
                ["deliveredSeq", "readSeq", "badgeSeq"].map(|name| it[name].as_u64().unwrap())
            })
        };
        assert_eq!(position("team", "carol"), Some([4, 4, 4]));
        assert_eq!(position("team", "bob"), Some([4, 4, 4]));
        assert_eq!(position("team", "alice"), Some([5, 5, 5]));
        assert_eq!(position("ab", "alice"), Some([1, 1, 1]));
        exports.push(target.export().await);

        let again = target.import_lines(&sample()).await;
        assert_eq!(numbers(&again, "message"), [6, 0, 6], "{again}");
        let written = again["types"].as_object().unwrap().values();
        assert_eq!(
            written
                .map(|it| it["written"].as_u64().unwrap())
                .sum::<u64>(),
            0,
            "{again}"
        );
        assert_eq!(target.export().await, exports[exports.len() - 1]);
        let mut more = sample();
        more.extend([
            member("team", "erin"),
            message("team", "x-6", "carol", "2024-01-03T00:00:00Z"),
        ]);
        let added = target.import_lines(&more).await;
        assert_eq!(
            (numbers(&added, "message"), numbers(&added, "member")),
            ([7, 1, 6], [5, 1, 4]),
            "{added}"
        );
    }
    assert_eq!(
        exports[0], exports[1],
        "the same file gives the same rows in both databases"
    );
}

#[tokio::test]
async fn a_member_line_after_the_messages_finds_the_messages_before_the_join() {
    let server = Postgres::start().await;
    for target in Target::both(&server).await {
        target
            .import_lines(&[
                conversation("c", "2024-01-01T00:00:00Z"),
                message("c", "1", "alice", "2024-01-01T01:00:00Z"),
                message("c", "2", "bob", "2024-01-01T02:00:00Z"),
                message("c", "3", "alice", "2024-01-01T03:00:00Z"),
            ])
            .await;
        let late = |user: &str| json!({ "type": "member", "conversationId": "c", "userId": user, "joinedAt": "2024-01-01T01:30:00Z" });
        target.import_lines(&[late("bob"), late("carol")]).await;
        let members = target.records("member").await;
        assert!(members.iter().all(|it| it["joinedSeq"] == 1), "{members:?}");
        let reads = target.records("read").await;
        assert_eq!(reads.len(), 1, "only Bob has sent a message: {reads:?}");
        assert_eq!(
            (&reads[0]["userId"], &reads[0]["badgeSeq"]),
            (&json!("bob"), &json!(2))
        );
    }
}

#[tokio::test]
async fn the_example_file_of_the_guide_is_imported() {
    let target = Target::sqlite();
    let example =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/import.jsonl");
    target.import(&example).await.ok();
    let guide = example.parent().unwrap().join("../docs/guide/importing.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for line in std::fs::read_to_string(&example).unwrap().lines() {
        assert!(guide.contains(line), "the guide does not show {line}");
    }
}
