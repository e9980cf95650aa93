//! Tests of calls and errors.

use parlor_server::grpc::proto::v1::user_status::Status::{self as Seen, Busy, Offline, Online};
use parlor_server::grpc::proto::v1::{
    GetMultipleUserStatusRequest, GetMultipleUserStatusResponse, SendHeartbeatRequest,
    SendHeartbeatResponse, SetUserStatusRequest, UserStatus,
};
use parlor_testkit::eventually;
use tonic::Code;

use super::client::{Client, assert_refused, node, ready, service_token, token};

#[tokio::test]
async fn a_status_that_is_set_is_returned() {
    let node = ready(node()).await;
    let alice = Client::of("alice", node.grpc_address()).await;
    let before = alice.get("").await.unwrap();
    assert_eq!(
        (before.user_id.as_str(), before.status(), before.version),
        ("alice", Offline, 0)
    );
    assert_eq!(before.last_seen, None);

    let online = alice.set(Online).await.unwrap();
    let busy = alice.set(Busy).await.unwrap();
    assert_eq!((online.status(), busy.status()), (Online, Busy));
    assert!(0 < online.version && online.version < busy.version);

    let bob = Client::of("bob", node.grpc_address()).await;
    assert_eq!(bob.get("alice").await.unwrap(), busy);
    let request = GetMultipleUserStatusRequest {
        user_ids: ["nobody", "alice", "nobody"].map(Into::into).into(),
    };
    let all: GetMultipleUserStatusResponse =
        bob.call("GetMultipleUserStatus", request).await.unwrap();
    let seen = |user: &UserStatus| (user.user_id.clone(), user.status());
    let expected = [("nobody", Offline), ("alice", Busy), ("nobody", Offline)];
    assert_eq!(
        all.users.iter().map(seen).collect::<Vec<_>>(),
        expected.map(|(user, status)| (user.to_owned(), status))
    );

    let offline = alice.set(Offline).await.unwrap();
    assert_eq!(offline.status(), Offline);
    let last_seen = offline.last_seen.as_deref();
    assert!(last_seen.is_some_and(|it| it.ends_with('Z')), "{offline:?}");
    assert_eq!(bob.get("alice").await.unwrap(), offline);
}

#[tokio::test]
async fn a_heartbeat_makes_the_user_online_and_returns_the_next_deadline() {
    let node = ready(node()).await;
    let alice = Client::of("alice", node.grpc_address()).await;
    let beat: SendHeartbeatResponse = alice
        .call("SendHeartbeat", SendHeartbeatRequest::default())
        .await
        .unwrap();
    assert_eq!(beat.next_heartbeat_in_seconds, 20);
    eventually("alice is online", async || {
        alice.get("alice").await.unwrap().status() == Online
    })
    .await;
}

#[tokio::test]
async fn a_service_acts_for_the_named_user() {
    let node = ready(node()).await;
    let service = Client::new(Some(service_token()), node.grpc_address()).await;
    for user in ["alice", "bob"] {
        let seen = service.set_for(user, Online).await.unwrap();
        assert_eq!((seen.user_id.as_str(), seen.status()), (user, Online));
    }
    let refused = service.set(Online).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "user_required");
    let refused = service.get("").await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "user_required");
}

#[tokio::test]
async fn errors_have_their_code_in_the_details_and_a_trailer() {
    let node = ready(node()).await;
    let alice = Client::of("alice", node.grpc_address()).await;
    let with = async |token: &str| Client::new(Some(token.into()), node.grpc_address()).await;

    let nobody = Client::new(None, node.grpc_address()).await;
    let refused = nobody.get("alice").await.unwrap_err();
    assert_refused(&refused, Code::Unauthenticated, "token_missing");
    let refused = nobody.subscribe(&["alice"]).await.unwrap_err();
    assert_refused(&refused, Code::Unauthenticated, "token_missing");
    let refused = with("no.such.token").await.get("alice").await.unwrap_err();
    assert_refused(&refused, Code::Unauthenticated, "token_invalid");
    let late = with(&token("alice", -31.0)).await;
    let refused = late.get("alice").await.unwrap_err();
    assert_refused(&refused, Code::Unauthenticated, "token_expired");

    let refused = alice.set_for("bob", Online).await.unwrap_err();
    assert_refused(&refused, Code::PermissionDenied, "forbidden");
    let refused = alice.get("a b").await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "invalid_id");
    let refused = alice.set(Seen::Unspecified).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "invalid_request");
    let unknown = SetUserStatusRequest {
        status: 99,
        ..SetUserStatusRequest::default()
    };
    let refused = alice.call::<_, UserStatus>("SetUserStatus", unknown).await;
    assert_refused(
        &refused.unwrap_err(),
        Code::InvalidArgument,
        "invalid_request",
    );
}

#[tokio::test]
async fn oversized_or_undecodable_requests_are_rejected_with_a_code() {
    let node = ready(node()).await;
    let alice = Client::of("alice", node.grpc_address()).await;
    let query = async |users: usize, length: usize| {
        let user_ids = (0..users).map(|user| format!("{user:0length$}")).collect();
        let request = GetMultipleUserStatusRequest { user_ids };
        alice
            .call::<_, GetMultipleUserStatusResponse>("GetMultipleUserStatus", request)
            .await
    };
    assert_eq!(query(1_000, 128).await.unwrap().users.len(), 1_000);
    let refused = query(1_001, 1).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "too_many");
    let refused = query(1_000, 300).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "body_too_large");
    let refused = alice.subscribe(&["bob"; 1_001]).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "too_many");

    // In this message, field 2 is a string instead of the status number.
    let other = SendHeartbeatRequest {
        user_id: "alice".into(),
        device_id: Some("phone".into()),
    };
    let refused = alice.call::<_, UserStatus>("SetUserStatus", other).await;
    assert_refused(
        &refused.unwrap_err(),
        Code::InvalidArgument,
        "invalid_request",
    );
    let refused = alice.call::<(), UserStatus>("Nothing", ()).await;
    assert_refused(
        &refused.unwrap_err(),
        Code::Unimplemented,
        "method_not_allowed",
    );
}
