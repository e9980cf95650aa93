//! Tests of the routes of conversations and members.

use parlor_testkit::ServerProcess;
use serde_json::{Value, json};

use super::client::{TestRequest, call, embedded, sign_in};
use crate::tokens::{admin, service, user, visitor_token};

pub fn request(token: &str, method: &str, path: &str) -> TestRequest {
    call(method, &format!("/v1/conversations{path}")).by(token)
}

/// Creates the group `lunch` with alice, its owner, and bob.
pub async fn create_lunch_group(node: &ServerProcess) -> Value {
    let create = request(&user("alice"), "POST", "").json(json!({
        "id": "lunch", "kind": "group", "title": "Lunch", "members": ["bob"]
    }));
    create.at(node).await.created()
}

fn is_a_time(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.len() == 24 && text.ends_with('Z')
}

#[tokio::test]
async fn a_group_can_be_created_updated_and_deleted() {
    let node = embedded().await;
    let (alice, bob) = (user("alice"), user("bob"));
    let made = create_lunch_group(&node).await;
    assert!(is_a_time(&made["createdAt"]) && is_a_time(&made["lastAt"]));
    let expected = json!({
        "id": "lunch", "kind": "group", "title": "Lunch", "open": false, "history": "all", "createdBy": "alice",
        "createdAt": made["createdAt"], "lastSeq": 0, "lastAt": made["lastAt"], "rev": 0, "memberCount": 2,
        "membersVersion": 1, "version": 0
    });
    assert_eq!(made, expected);
    assert_eq!(request(&bob, "GET", "/lunch").at(&node).await.ok(), made);

    let change = |by: &str, body: Value| request(by, "PATCH", "/lunch").json(body);
    let changed = change(&alice, json!({ "title": "", "open": true }));
    let changed = changed.at(&node).await.ok();
    assert_eq!(
        (&changed["title"], &changed["open"]),
        (&Value::Null, &json!(true))
    );
    let not_theirs = change(&bob, json!({ "title": "Mine" })).at(&node).await;
    not_theirs.refused(403, "forbidden");
    let unfit = change(&alice, json!({ "priority": "high" }))
        .at(&node)
        .await;
    unfit.refused(400, "invalid_request");
    let long = change(&alice, json!({ "title": "x".repeat(257) }));
    long.at(&node).await.refused(400, "invalid_request");

    let joined = request(&admin("root"), "POST", "/lunch/join")
        .at(&node)
        .await;
    assert_eq!(joined.ok()["memberCount"], 3);
    let again = request(&admin("root"), "POST", "/lunch/join")
        .at(&node)
        .await;
    assert_eq!(again.ok()["memberCount"], 3);
    let left = json!({ "conversationId": "lunch", "userId": "bob" });
    for _ in 0..2 {
        let leave = request(&bob, "POST", "/lunch/leave").at(&node).await;
        assert_eq!(leave.ok(), left);
    }
    request(&bob, "GET", "/lunch")
        .at(&node)
        .await
        .refused(403, "not_a_member");

    request(&bob, "DELETE", "/lunch")
        .at(&node)
        .await
        .refused(403, "not_a_member");
    let gone = request(&alice, "DELETE", "/lunch").at(&node).await;
    assert_eq!(gone.ok(), json!({ "conversationId": "lunch" }));
    for token in [admin("root"), service()] {
        let missing = request(&token, "GET", "/lunch").at(&node).await;
        missing.refused(404, "not_found");
    }
    let missing = request(&alice, "GET", "/lunch").at(&node).await;
    missing.refused(403, "not_a_member");
    let buried = request(&alice, "POST", "").json(json!({ "id": "lunch", "kind": "group" }));
    buried.at(&node).await.refused(409, "conversation_exists");
}

#[tokio::test]
async fn members_are_listed_added_changed_muted_and_removed() {
    let node = embedded().await;
    let (alice, bob) = (user("alice"), user("bob"));
    create_lunch_group(&node).await;
    let put = async |by: &str, who: &str, body: Value| {
        let put = request(by, "PUT", &format!("/lunch/members/{who}"));
        put.json(body).at(&node).await
    };
    put(&bob, "slow", json!({})).await.refused(403, "forbidden");
    assert_eq!(put(&alice, "slow", json!({})).await.ok()["role"], "member");
    let promoted = put(&alice, "bob", json!({ "role": "admin" })).await.ok();
    assert_eq!(promoted["role"], "admin");
    put(&bob, "slow", json!({ "role": "owner" }))
        .await
        .refused(403, "forbidden");
    put(&alice, "alice", json!({ "role": "member" }))
        .await
        .refused(400, "invalid_request");
    put(&alice, "bob", json!({ "role": "king" }))
        .await
        .refused(400, "invalid_request");

    let until = "2099-01-01T00:00:00.000Z";
    let muted = put(&bob, "bob", json!({ "mutedUntil": until })).await.ok();
    assert_eq!(muted["mutedUntil"], until);
    assert_eq!(muted["role"], "admin");
    put(&alice, "bob", json!({ "mutedUntil": null }))
        .await
        .refused(403, "forbidden");
    put(&bob, "bob", json!({ "mutedUntil": "tomorrow" }))
        .await
        .refused(400, "invalid_request");
    let seen = async |by: &str| {
        let get = request(by, "GET", "/lunch/members/bob").at(&node).await;
        get.ok()["mutedUntil"].clone()
    };
    assert_eq!(
        (seen(&bob).await, seen(&alice).await),
        (until.into(), Value::Null)
    );
    put(&bob, "bob", json!({ "mutedUntil": null })).await.ok();
    assert_eq!(seen(&bob).await, Value::Null);

    let mut found = Vec::new();
    let mut path = "/lunch/members?limit=2".to_owned();
    loop {
        let page = request(&bob, "GET", &path).at(&node).await.ok();
        let members = page["members"].as_array().unwrap().clone();
        assert!((1..=2).contains(&members.len()), "{page}");
        found.extend(
            members
                .iter()
                .map(|it| it["userId"].as_str().unwrap().to_owned()),
        );
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        path = format!("/lunch/members?limit=2&cursor={cursor}");
    }
    assert_eq!(found, ["alice", "bob", "slow"]);

    let removed = request(&bob, "DELETE", "/lunch/members/slow")
        .at(&node)
        .await;
    let gone = json!({ "conversationId": "lunch", "userId": "slow" });
    assert_eq!(removed.ok(), gone);
    let again = request(&bob, "DELETE", "/lunch/members/slow")
        .at(&node)
        .await;
    assert_eq!(again.ok(), gone);
    let missing = request(&bob, "GET", "/lunch/members/slow").at(&node).await;
    missing.refused(404, "not_found");
    let owner = request(&bob, "DELETE", "/lunch/members/alice")
        .at(&node)
        .await;
    owner.refused(403, "forbidden");
    let stranger = request(&user("slow"), "GET", "/lunch/members")
        .at(&node)
        .await;
    stranger.refused(403, "not_a_member");
}

#[tokio::test]
async fn conversations_are_listed_by_last_activity() {
    let node = embedded().await;
    let (alice, bob) = (user("alice"), user("bob"));
    create_lunch_group(&node).await;
    let direct = || {
        let create = request(&alice, "POST", "");
        create.json(json!({ "kind": "direct", "members": ["bob"] }))
    };
    let pair = direct().at(&node).await.created();
    let same = direct().at(&node).await.ok();
    assert_eq!(same["id"], pair["id"]);
    let support = request(&service(), "POST", "").header("Parlor-User", "bob");
    let support = support.json(json!({ "id": "help", "kind": "support", "priority": "high" }));
    assert_eq!(support.at(&node).await.created()["priority"], "high");
    let send = request(&alice, "POST", "/lunch/messages");
    let send = send.json(json!({ "content": "Noon?", "metadata": { "mentions": ["bob"] } }));
    let sent = send.at(&node).await.created();

    let first = request(&bob, "GET", "?limit=1").at(&node).await.ok();
    let top = &first["conversations"][0];
    assert_eq!(first["conversations"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&top["id"], &top["role"], &top["unread"], &top["mentions"]),
        (&json!("lunch"), &json!("member"), &json!(1), &json!(1))
    );
    assert_eq!(top["lastMessage"], sent);
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = request(&bob, "GET", &format!("?cursor={cursor}"))
        .at(&node)
        .await;
    let rest = rest.ok();
    assert_eq!(rest.get("nextCursor"), None);
    let rest = rest["conversations"].as_array().unwrap().clone();
    assert_eq!(rest.len(), 2);
    let other = rest.iter().find(|it| it["kind"] == "direct").unwrap();
    assert_eq!(other["other"]["userId"], "alice");
    assert!(rest.iter().any(|it| it["id"] == "help"));

    for wrong in [
        "?limit=0",
        "?limit=101",
        "?limit=x",
        "?cursor=zz",
        "?cursor=",
    ] {
        let answer = request(&bob, "GET", wrong).at(&node).await;
        answer.refused(400, "invalid_request");
    }
    let nobody = request(&service(), "GET", "").at(&node).await;
    nobody.refused(400, "user_required");
}

#[tokio::test]
async fn invalid_conversations_are_rejected_with_the_reason() {
    let node = embedded().await;
    let many: Vec<String> = (0..1_001).map(|nth| format!("user-{nth}")).collect();
    for (body, status, code) in [
        (json!({}), 400, "invalid_request"),
        (json!({ "kind": "party" }), 400, "invalid_request"),
        (json!({ "kind": "direct" }), 400, "invalid_request"),
        (
            json!({ "kind": "group", "members": "bob" }),
            400,
            "invalid_request",
        ),
        (
            json!({ "kind": "group", "members": ["a b"] }),
            400,
            "invalid_id",
        ),
        (json!({ "kind": "group", "id": "a:b" }), 400, "invalid_id"),
        (json!({ "kind": "group", "members": many }), 400, "too_many"),
    ] {
        let create = request(&user("alice"), "POST", "").json(body.clone());
        assert_eq!(
            create.at(&node).await.refusal(),
            (status, code.to_owned()),
            "{body}"
        );
    }
    let token = visitor_token("guest");
    sign_in(&node, &token).await;
    let create = request(&token, "POST", "").json(json!({ "kind": "group" }));
    create.at(&node).await.refused(403, "read_only_session");
    for (path, method) in [
        ("/none", "GET"),
        ("/none/members", "GET"),
        ("/none", "DELETE"),
    ] {
        let hidden = request(&user("alice"), method, path).at(&node).await;
        hidden.refused(403, "not_a_member");
        let missing = request(&admin("root"), method, path).at(&node).await;
        missing.refused(404, "not_found");
    }
}
