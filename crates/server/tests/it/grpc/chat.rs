//! Tests of `ChatService` and `SessionService`.

use parlor_server::grpc::proto::v1::session::Status as Session;
use parlor_server::grpc::proto::v1::{
    GetUnreadRequest, GetUnreadResponse, IsMemberRequest, IsMemberResponse, ListMessagesRequest,
    ListMessagesResponse, MarkReadRequest, MarkReadResponse, SendMessageRequest,
    SendMessageResponse, ValidateSessionRequest, ValidateSessionResponse,
};
use parlor_testkit::ServerProcess;
use prost::Message;
use serde_json::json;
use tonic::{Code, Status};

use super::client::{Client, assert_refused, node, ready, service_token, token};
use crate::http::client::call;

async fn ask<Q: Message + 'static, A: Message + Default + 'static>(
    client: &Client,
    method: &str,
    request: Q,
) -> Result<A, Status> {
    client.ask("parlor.v1.ChatService", method, request).await
}

/// Creates the group `lunch` of alice and bob.
async fn group(node: &ServerProcess) {
    let create = call("POST", "/v1/conversations").by(&token("alice", 600.0));
    let create = create.json(json!({ "id": "lunch", "kind": "group", "members": ["bob"] }));
    create.at(node).await.created();
}

fn message(user: &str, content: &str) -> SendMessageRequest {
    SendMessageRequest {
        user_id: user.into(),
        conversation_id: "lunch".into(),
        content: content.into(),
        metadata_json: None,
        client_id: None,
    }
}

#[tokio::test]
async fn a_service_sends_reads_and_counts_for_the_named_users() {
    let node = ready(node()).await;
    group(&node).await;
    let service = Client::new(Some(service_token()), node.grpc_address()).await;
    let keyed = SendMessageRequest {
        metadata_json: Some(r#"{"mentions":["bob"]}"#.into()),
        client_id: Some("c1".into()),
        ..message("alice", "Noon?")
    };
    let sent: SendMessageResponse = ask(&service, "SendMessage", keyed.clone()).await.unwrap();
    let first = sent.message.unwrap();
    assert_eq!((first.seq, first.sender_id.as_str()), (1, "alice"));
    assert_eq!(
        first.metadata_json.as_deref(),
        Some(r#"{"mentions":["bob"]}"#)
    );
    let again: SendMessageResponse = ask(&service, "SendMessage", keyed).await.unwrap();
    assert_eq!((again.message, again.repeated_send), (Some(first), true));
    let second = ask(&service, "SendMessage", message("alice", "One?")).await;
    let second: SendMessageResponse = second.unwrap();

    let page = ListMessagesRequest {
        user_id: "bob".into(),
        conversation_id: "lunch".into(),
        after: Some(1),
        ..ListMessagesRequest::default()
    };
    let page: ListMessagesResponse = ask(&service, "ListMessages", page).await.unwrap();
    assert_eq!(
        (page.messages, page.has_more),
        (vec![second.message.unwrap()], false)
    );

    let bob = Client::of("bob", node.grpc_address()).await;
    let all: GetUnreadResponse = ask(&bob, "GetUnread", GetUnreadRequest::default())
        .await
        .unwrap();
    assert_eq!((all.total, all.mentions), (2, 1));
    assert_eq!(all.conversations[0].conversation_id, "lunch");
    let read = MarkReadRequest {
        conversation_id: "lunch".into(),
        seq: Some(1),
        ..MarkReadRequest::default()
    };
    let left: MarkReadResponse = ask(&bob, "MarkRead", read).await.unwrap();
    assert_eq!((left.unread, left.total), (1, 1));
}

#[tokio::test]
async fn is_member_is_answered_for_services_and_members_only() {
    let node = ready(node()).await;
    group(&node).await;
    let test_request = |user: &str| IsMemberRequest {
        user_id: user.into(),
        conversation_id: "lunch".into(),
    };
    let is_member = async |by: &Client, user: &str| {
        let answer = ask(by, "IsMember", test_request(user)).await;
        answer.map(|it: IsMemberResponse| it.is_member)
    };
    let service = Client::new(Some(service_token()), node.grpc_address()).await;
    assert!(is_member(&service, "bob").await.unwrap());
    assert!(!is_member(&service, "slow").await.unwrap());
    let alice = Client::of("alice", node.grpc_address()).await;
    assert!(is_member(&alice, "").await.unwrap());
    let slow = Client::of("slow", node.grpc_address()).await;
    assert!(!is_member(&slow, "").await.unwrap());
    let refused = is_member(&slow, "bob").await.unwrap_err();
    assert_refused(&refused, Code::PermissionDenied, "not_a_member");
}

#[tokio::test]
async fn grpc_errors_have_the_codes_of_the_other_gateways() {
    let node = ready(node().env("PARLOR_LIMITS__MESSAGES", "1")).await;
    group(&node).await;
    let service = Client::new(Some(service_token()), node.grpc_address()).await;
    let alice = Client::of("alice", node.grpc_address()).await;
    let send = async |by: &Client, request| {
        ask::<_, SendMessageResponse>(by, "SendMessage", request).await
    };
    send(&alice, message("", "!")).await.unwrap();
    for (by, request, grpc, code) in [
        (
            &alice,
            message("alice", "!"),
            Code::ResourceExhausted,
            "rate_limited",
        ),
        (
            &alice,
            message("bob", "!"),
            Code::PermissionDenied,
            "forbidden",
        ),
        (
            &service,
            message("", "!"),
            Code::InvalidArgument,
            "user_required",
        ),
        (
            &service,
            message("a b", "!"),
            Code::InvalidArgument,
            "invalid_id",
        ),
        (
            &service,
            message("slow", "!"),
            Code::PermissionDenied,
            "not_a_member",
        ),
        (
            &service,
            message("bob", &"x".repeat(9_000)),
            Code::InvalidArgument,
            "content_too_large",
        ),
        (
            &service,
            SendMessageRequest {
                metadata_json: Some("{".into()),
                ..message("bob", "!")
            },
            Code::InvalidArgument,
            "invalid_request",
        ),
    ] {
        let refused = send(by, request).await.unwrap_err();
        assert_refused(&refused, grpc, code);
    }
    let carol = Client::of("carol", node.grpc_address()).await;
    let refused = send(&carol, message("", "!")).await.unwrap_err();
    assert_refused(&refused, Code::Unauthenticated, "session_expired");
}

#[tokio::test]
async fn validate_session_returns_whether_a_user_may_connect() {
    let node = ready(node()).await;
    let service = Client::new(Some(service_token()), node.grpc_address()).await;
    let validate = async |by: &Client, user: &str| {
        let user_id = user.into();
        by.ask::<_, ValidateSessionResponse>(
            "parlor.v1.SessionService",
            "Validate",
            ValidateSessionRequest { user_id },
        )
        .await
    };
    let alice = validate(&service, "alice").await.unwrap();
    let session = alice.session.unwrap();
    assert!(alice.valid);
    assert_eq!(
        (session.user_id.as_str(), session.status()),
        ("alice", Session::Login)
    );
    let nobody = validate(&service, "nobody").await.unwrap();
    assert_eq!((nobody.valid, nobody.session), (false, None));

    let block = call("PATCH", "/v1/admin/sessions/alice").by(&service_token());
    block
        .json(json!({ "status": "blocked" }))
        .at(&node)
        .await
        .ok();
    let blocked = validate(&service, "alice").await.unwrap();
    assert!(!blocked.valid);
    assert_eq!(blocked.session.unwrap().status(), Session::Blocked);
    let client = Client::of("alice", node.grpc_address()).await;
    let refused = client.get("alice").await.unwrap_err();
    assert_refused(&refused, Code::PermissionDenied, "session_blocked");
    let bob = Client::of("bob", node.grpc_address()).await;
    let refused = validate(&bob, "bob").await.unwrap_err();
    assert_refused(&refused, Code::PermissionDenied, "forbidden");
}
