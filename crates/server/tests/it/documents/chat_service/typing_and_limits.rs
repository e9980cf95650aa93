//! Checks of sections 2 and 3: typing, message rate.

use serde_json::{Value, json};

use crate::documents::side_by_side::SideBySide;

async fn set_typing(run: &SideBySide, conversation: &str, user: &str, typing: bool) {
    let path = format!("/v1/conversations/{conversation}/typing");
    let put = run.request(user, "PUT", &path);
    put.json(json!({ "typing": typing }))
        .at(&run.node)
        .await
        .ok();
}

/// The key of a user who types at Parlor.
pub(super) async fn typing_sets_the_flag(run: &SideBySide) {
    run.conversation("typing1", &["dora", "eve"]).await;
    set_typing(run, "typing1", "dora", true).await;
    assert_eq!(run.old.run("GET typing:typing1:dora").await, "1");
    assert_eq!(run.old.run("TYPE typing:typing1:dora").await, "string");
    let left = run.old.run("TTL typing:typing1:dora").await;
    assert!((1..=5).contains(&left.as_i64().unwrap()), "{left}");
    set_typing(run, "typing1", "dora", false).await;
    assert_eq!(run.old.run("GET typing:typing1:dora").await, Value::Null);
}

/// Commands of the document. A message of the same user at Parlor leaves the flag alone, and so does another user there.
pub(super) async fn typing_of_the_old_service_stays(run: &SideBySide) {
    run.conversation("conv123", &["user456", "user789"]).await;
    let flag = "typing:conv123:user456";
    run.old.run(&format!(r#"SET {flag} "1" EX 5"#)).await;
    assert_eq!(run.old.run(&format!("GET {flag}")).await, "1");
    // A busy machine must not let the flag expire.
    run.old.run(&format!(r#"SET {flag} "1" EX 60"#)).await;
    let sent = run.send("conv123", "user456", "sent at Parlor").await;
    sent.created();
    set_typing(run, "conv123", "user789", true).await;
    set_typing(run, "conv123", "user789", false).await;
    let left = run.old.run(&format!("TTL {flag}")).await;
    assert!((6..=60).contains(&left.as_i64().unwrap()), "{left}");
}

/// One pattern finds the users of both sides, and nothing internal. Parlor lists its own.
pub(super) async fn typing_users_of_both_sides_are_listed(run: &SideBySide) {
    run.conversation("typing3", &["dora", "eve"]).await;
    set_typing(run, "typing3", "dora", true).await;
    run.old.call("startTyping", json!(["typing3", "eve"])).await;
    let users = run.old.call("typingUsers", json!(["typing3"])).await;
    assert_eq!(users, json!(["dora", "eve"]));
    let list = run.request("dora", "GET", "/v1/conversations/typing3/typing");
    let listed = list.at(&run.node).await.ok()["typing"].take();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["userId"], "dora");
}

/// Messages at Parlor count in the key.
pub(super) async fn messages_count_in_the_key(run: &SideBySide) {
    run.conversation("rate1", &["finn", "eve"]).await;
    for number in ["1", "2"] {
        run.send("rate1", "finn", "counted").await.created();
        assert_eq!(run.old.run("GET rate:message:finn").await, number);
    }
    assert_eq!(run.old.run("TYPE rate:message:finn").await, "string");
    let left = run.old.run("TTL rate:message:finn").await;
    assert!((50..=60).contains(&left.as_i64().unwrap()), "{left}");
}

/// INCR, PEXPIRE and GET of the old service and messages at Parlor are one count.
pub(super) async fn both_sides_share_the_count(run: &SideBySide) {
    let user = "507f1f77bcf86cd799439013";
    run.conversation("rate2", &[user, "eve"]).await;
    let key = format!("rate:message:{user}");
    assert_eq!(run.old.run(&format!("INCR {key}")).await, 1);
    assert_eq!(run.old.run(&format!("PEXPIRE {key} 60000")).await, 1);
    run.send("rate2", user, "the second").await.created();
    assert_eq!(run.old.run(&format!("INCR {key}")).await, 3);
    assert_eq!(run.old.run(&format!("GET {key}")).await, "3");
}

/// 20 messages per window, whichever side accepted them.
pub(super) async fn the_limit_holds_across_both_sides(run: &SideBySide) {
    run.conversation("rate3", &["gwen", "eve"]).await;
    for _ in 0..18 {
        assert_eq!(
            run.old.call("checkMessageRateLimit", json!(["gwen"])).await,
            true
        );
    }
    for _ in 0..2 {
        run.send("rate3", "gwen", "within the limit")
            .await
            .created();
    }
    let refused = run.send("rate3", "gwen", "one too many").await;
    refused.refused(429, "rate_limited");
    assert_eq!(
        run.old.call("checkMessageRateLimit", json!(["gwen"])).await,
        false
    );
}

/// The check of the document in front of each message, in turns. A counter without a TTL, left by a crash between INCR and
/// PEXPIRE, does not last for ever.
pub(super) async fn a_rejected_message_is_rejected_on_both_sides(run: &SideBySide) {
    run.conversation("rate4", &["gina", "eve"]).await;
    run.old.run("SET rate:message:gina 18").await;
    run.send("rate4", "gina", "the nineteenth").await.created();
    let left = run.old.run("TTL rate:message:gina").await;
    assert!((50..=60).contains(&left.as_i64().unwrap()), "{left}");
    let check = async || run.old.call("checkMessageRateLimit", json!(["gina"])).await;
    assert_eq!((check().await, check().await), (json!(true), json!(false)));
    run.send("rate4", "gina", "refused")
        .await
        .refused(429, "rate_limited");
}
