//! Checks of sections 4, 5 and 8: recent messages, unread counts, participants.

use parlor_testkit::eventually;
use serde_json::{Value, json};

use crate::documents::side_by_side::SideBySide;

/// The list of a conversation of Parlor: newest first, at most 100, one hour.
pub(super) async fn recent_messages_are_listed(run: &SideBySide) {
    let members = ["hal", "hana", "hank", "harry", "hedi", "helen"];
    run.conversation("recent1", &members).await;
    let mut last = Value::Null;
    for number in 0..102 {
        let sender = members[number % members.len()];
        last = run
            .send("recent1", sender, &format!("number {number}"))
            .await
            .created();
    }
    let key = "messages:recent1:recent";
    eventually("the list has the newest message", async || {
        let newest = run.old.call("recentMessages", json!(["recent1", 1])).await;
        newest[0]["id"] == last["id"]
    })
    .await;
    assert_eq!(run.old.run(&format!("TYPE {key}")).await, "list");
    assert_eq!(run.old.run(&format!("LLEN {key}")).await, 100);
    let left = run.old.run(&format!("TTL {key}")).await;
    assert!((3_500..=3_600).contains(&left.as_i64().unwrap()), "{left}");
    let page = run.old.call("recentMessages", json!(["recent1", 50])).await;
    for (nth, message) in page.as_array().unwrap().iter().enumerate() {
        assert_eq!(message["content"], format!("number {}", 101 - nth));
        assert_eq!(message["timestamp"], message["createdAt"]);
        for field in ["id", "senderId", "timestamp"] {
            assert!(message[field].is_string(), "{field}: {message}");
        }
    }
}

/// A list of the old service, of a conversation that Parlor does not have.
pub(super) async fn foreign_recent_lists_stay(run: &SideBySide) {
    let key = "messages:conv124:recent";
    let message =
        r#"{"id":"msg1","content":"Hello","senderId":"user1","timestamp":"2025-11-16T10:00:00Z"}"#;
    run.old.run(&format!("LPUSH {key} '{message}'")).await;
    run.old
        .run(&format!("LTRIM {key} 0 99  # Keep only 100 most recent"))
        .await;
    run.old
        .run(&format!("EXPIRE {key} 3600  # 1 hour TTL"))
        .await;
    let history = run.request("user1", "GET", "/v1/conversations/conv124/messages");
    let history = history.at(&run.node).await.ok();
    assert_eq!(history["messages"], json!([]));
    let send = run.send("conv124", "user1", "refused").await;
    assert_ne!(send.status, 201);
    assert_eq!(
        run.old.run(&format!("LRANGE {key} 0 49")).await,
        json!([message])
    );
    // Parlor serves its own messages, whatever another service pushes into the list.
    run.conversation("recent2", &["hal", "hana"]).await;
    run.send("recent2", "hal", "from Parlor").await.created();
    let foreign = json!(["recent2", { "id": "foreign" }]);
    run.old.call("cacheMessage", foreign).await;
    let history = run.request("hal", "GET", "/v1/conversations/recent2/messages");
    let history = history.at(&run.node).await.ok();
    assert_eq!(
        history["messages"].as_array().unwrap().len(),
        1,
        "{history}"
    );
    assert_eq!(history["messages"][0]["content"], "from Parlor");
}

async fn mark_read(run: &SideBySide, user: &str, conversation: &str) {
    let path = format!("/v1/conversations/{conversation}/read");
    let read = run.request(user, "POST", &path);
    read.json(json!({})).at(&run.node).await.ok();
}

/// The counter of a member rises with messages and is deleted when they are read.
pub(super) async fn unread_messages_are_counted(run: &SideBySide) {
    run.conversation("unread1", &["ida", "ivan"]).await;
    for number in ["1", "2"] {
        run.send("unread1", "ida", "unread").await.created();
        run.old.wait_for("GET unread:ivan:unread1", number).await;
    }
    assert_eq!(run.old.run("TYPE unread:ivan:unread1").await, "string");
    assert_eq!(run.old.run("TTL unread:ivan:unread1").await, -1);
    assert_eq!(run.old.call("unread", json!(["ida", "unread1"])).await, 0);
    mark_read(run, "ivan", "unread1").await;
    run.old
        .wait_for("GET unread:ivan:unread1", Value::Null)
        .await;
}

/// INCR, GET and DEL of the old service, in conversations that Parlor does not have.
pub(super) async fn foreign_counters_stay(run: &SideBySide) {
    assert_eq!(run.old.run("INCR unread:user1:conv125").await, 1);
    let unread = run.request("user1", "GET", "/v1/unread");
    assert_eq!(unread.at(&run.node).await.ok()["total"], 0);
    assert_eq!(run.old.run("GET unread:user1:conv125").await, "1");
    let delete = run
        .old
        .run("DEL unread:user1:conv125  # Clear when user reads messages");
    assert_eq!(delete.await, 1);
}

/// The total is the sum of both sides, whichever writes first.
pub(super) async fn the_total_is_the_sum_of_both_sides(run: &SideBySide) {
    for user in ["jan", "joy"] {
        let conversation = format!("total-{user}");
        run.conversation(&conversation, &["ida", user]).await;
        let total = format!("unread:{user}:total");
        if user == "jan" {
            run.old.call("countUnread", json!([user, "legacy"])).await;
            run.send(&conversation, "ida", "unread").await.created();
        } else {
            run.send(&conversation, "ida", "unread").await.created();
            run.old.wait_for(&format!("GET {total}"), "1").await;
            run.old.call("countUnread", json!([user, "legacy"])).await;
        }
        run.old.wait_for(&format!("GET {total}"), "2").await;
        assert_eq!(run.old.run(&format!("TTL {total}")).await, -1);
        mark_read(run, user, &conversation).await;
        run.old.wait_for(&format!("GET {total}"), "1").await;
        assert_eq!(run.old.run(&format!("GET unread:{user}:legacy")).await, "1");
    }
}

/// INCRBY and DECRBY of the old service stay in the total of Parlor.
pub(super) async fn changes_of_the_total_stay(run: &SideBySide) {
    let old = &run.old;
    assert_eq!(
        old.run("INCRBY unread:user2:total 5  # Add 5 unread messages")
            .await,
        5
    );
    assert_eq!(
        old.run("DECRBY unread:user2:total 3  # Mark 3 as read")
            .await,
        2
    );
    run.conversation("total3", &["ida", "user2"]).await;
    run.send("total3", "ida", "unread").await.created();
    run.old.wait_for("GET unread:user2:total", "3").await;
    // The old service marks Parlor's message as read: Parlor counts on from its rows.
    old.call("readMessages", json!(["user2", "total3"])).await;
    run.old.wait_for("GET unread:user2:total", "2").await;
    run.send("total3", "ida", "unread").await.created();
    run.old.wait_for("GET unread:user2:total3", "2").await;
}

/// The set of members, for an hour.
pub(super) async fn participants_are_cached(run: &SideBySide) {
    run.conversation("members1", &["kim", "kurt", "kyle"]).await;
    run.send("members1", "kim", "hello").await.created();
    eventually("the members are cached", async || {
        let members = run.old.call("participants", json!(["members1"])).await;
        members == json!(["kim", "kurt", "kyle"])
    })
    .await;
    let key = "conversation:members1:participants";
    assert_eq!(run.old.run(&format!("TYPE {key}")).await, "set");
    let left = run.old.run(&format!("TTL {key}")).await;
    assert!((3_500..=3_600).contains(&left.as_i64().unwrap()), "{left}");
    for (user, expected) in [("kurt", true), ("nobody", false)] {
        let member = run
            .old
            .call("isParticipant", json!(["members1", user]))
            .await;
        assert_eq!(member, expected, "{user}");
    }
    // A member who leaves is gone from the set before the answer.
    let leave = run.request("kyle", "POST", "/v1/conversations/members1/leave");
    leave.at(&run.node).await.ok();
    assert_eq!(
        run.old
            .call("isParticipant", json!(["members1", "kyle"]))
            .await,
        false
    );
}

/// The set of a conversation that Parlor does not have.
pub(super) async fn foreign_participants_stay(run: &SideBySide) {
    let key = "conversation:conv126:participants";
    run.old
        .run(&format!(r#"SADD {key} "user1" "user2" "user3""#))
        .await;
    assert_eq!(run.old.run(&format!(r#"SISMEMBER {key} "user1""#)).await, 1);
    assert_eq!(run.old.run(&format!("EXPIRE {key} 3600")).await, 1);
    run.send("conv126", "user1", "refused")
        .await
        .refused(403, "not_a_member");
    assert_eq!(run.old.run(&format!("SCARD {key}")).await, 3);
    // Once Parlor has the conversation, its rows decide.
    run.conversation("conv126", &["user1", "user2"]).await;
    run.send("conv126", "user1", "hello").await.created();
    eventually("the rows are cached", async || {
        run.old.call("participants", json!(["conv126"])).await == json!(["user1", "user2"])
    })
    .await;
}
