//! Checks of section 2: cached answers to "is this user a member".

use parlor_server::grpc::proto::v1::{IsMemberRequest, IsMemberResponse};
use serde_json::json;

use crate::documents::side_by_side::SideBySide;
use crate::grpc::client::Client;
use crate::http::client::call;
use crate::tokens::service;

/// Creates a conversation of Parlor with `abc-123` as its only member; returns its id.
async fn create(run: &SideBySide) -> String {
    let id = format!("parlor-{:08x}", rand::random::<u32>());
    run.conversation(&id, &["abc-123"]).await;
    id
}

/// Asks Parlor.
pub(super) async fn is_member(run: &SideBySide, conversation: &str, user: &str) -> bool {
    let request = IsMemberRequest {
        user_id: user.into(),
        conversation_id: conversation.into(),
    };
    let client = Client::new(Some(service()), run.node.grpc_address()).await;
    let reply = client.ask("parlor.v1.ChatService", "IsMember", request);
    let reply: IsMemberResponse = reply.await.unwrap();
    reply.is_member
}

async fn add(run: &SideBySide, conversation: &str, user: &str) {
    let put = call(
        "PUT",
        &format!("/v1/conversations/{conversation}/members/{user}"),
    );
    let put = put.by(&service()).json(json!({})).at(&run.node).await;
    assert!([200, 201].contains(&put.status), "{put:?}");
}

/// Parlor caches `1` and `0` for 30 s, and the old service uses both answers without a look into its rows.
pub(super) async fn answers_are_cached(run: &SideBySide) {
    let id = create(run).await;
    let reads = run.old.call("rowReads", json!([])).await;
    for (user, answer, value) in [("abc-123", true, "1"), ("other", false, "0")] {
        let key = format!("membership:{id}:{user}");
        assert!(run.old.run(&format!("GET {key}")).await.is_null());
        assert_eq!(is_member(run, &id, user).await, answer);
        assert_eq!(run.old.run(&format!("GET {key}")).await, value);
        assert_eq!(run.old.run(&format!("TYPE {key}")).await, "string");
        let left = run.old.run(&format!("PTTL {key}")).await.as_i64().unwrap();
        assert!((1..=30_000).contains(&left), "{left}");
        assert_eq!(run.old.call("isMember", json!([id, user])).await, answer);
    }
    assert_eq!(run.old.call("rowReads", json!([])).await, reads);
}

/// The rooms of the old service are unknown to Parlor. Parlor neither grants nor overwrites their answers.
pub(super) async fn each_side_uses_the_answers_of_its_own_rows(run: &SideBySide) {
    run.old.call("join", json!(["room-456", "abc-123"])).await;
    assert_eq!(
        run.old
            .call("isMember", json!(["room-456", "abc-123"]))
            .await,
        true
    );
    assert!(!is_member(run, "room-456", "abc-123").await);
    assert_eq!(run.old.run("GET membership:room-456:abc-123").await, "1");
    assert!(!is_member(run, "room-789", "abc-123").await);
    assert!(
        run.old
            .run("GET membership:room-789:abc-123")
            .await
            .is_null()
    );
    assert_eq!(
        run.old
            .call("isMember", json!(["room-789", "abc-123"]))
            .await,
        false
    );
    // In a conversation of Parlor, the rows of Parlor decide, whatever another service has cached.
    let id = create(run).await;
    assert!(!is_member(run, &id, "mallory").await);
    run.old
        .run(&format!("SET membership:{id}:mallory 1 EX 30"))
        .await;
    assert!(!is_member(run, &id, "mallory").await);
    assert_eq!(
        run.old.call("isMember", json!([id, "mallory"])).await,
        false
    );
}

/// A join in Parlor deletes the cached answer; the next question writes the new one.
pub(super) async fn a_join_deletes_the_answer(run: &SideBySide) {
    let id = create(run).await;
    assert!(!is_member(run, &id, "new").await);
    add(run, &id, "new").await;
    let key = format!("membership:{id}:new");
    assert!(run.old.run(&format!("GET {key}")).await.is_null());
    assert!(is_member(run, &id, "new").await);
    assert_eq!(run.old.run(&format!("GET {key}")).await, "1");
    assert_eq!(run.old.call("isMember", json!([id, "new"])).await, true);
}

/// After a `DEL` of the old service, Parlor reads its row again and caches the answer.
pub(super) async fn a_deleted_answer_is_read_again(run: &SideBySide) {
    let id = create(run).await;
    assert!(is_member(run, &id, "abc-123").await);
    assert_eq!(
        run.old.run(&format!("DEL membership:{id}:abc-123")).await,
        1
    );
    assert!(is_member(run, &id, "abc-123").await);
    assert_eq!(
        run.old.run(&format!("GET membership:{id}:abc-123")).await,
        "1"
    );
}

/// A member who is removed is refused at once, not after 30 s.
pub(super) async fn a_change_is_visible_at_once(run: &SideBySide) {
    let id = create(run).await;
    add(run, &id, "guest").await;
    assert!(is_member(run, &id, "guest").await);
    let remove = call("DELETE", &format!("/v1/conversations/{id}/members/guest"));
    let removed = remove.by(&service()).at(&run.node).await;
    assert!([200, 204].contains(&removed.status), "{removed:?}");
    assert!(
        run.old
            .run(&format!("GET membership:{id}:guest"))
            .await
            .is_null()
    );
    assert!(!is_member(run, &id, "guest").await);
}
