//! Tests of `LimitService`.

use parlor_server::grpc::proto::v1::check_limit_request::Algorithm;
use parlor_server::grpc::proto::v1::{CheckLimitRequest, CheckLimitResponse};
use tonic::{Code, Status};

use super::client::{Client, assert_refused, node, ready, service_token};

async fn check(client: &Client, request: CheckLimitRequest) -> Result<CheckLimitResponse, Status> {
    let service = "parlor.v1.LimitService";
    client.ask(service, "Check", request).await
}

fn test_request(algorithm: Algorithm) -> CheckLimitRequest {
    CheckLimitRequest {
        key: "login:alice".into(),
        algorithm: algorithm.into(),
        limit: 2,
        window_ms: 600_000,
        cost: None,
        peek: false,
    }
}

#[tokio::test]
async fn a_service_checks_limits_of_its_own() {
    let node = ready(node()).await;
    let service = Client::new(Some(service_token()), node.grpc_address()).await;
    for algorithm in [Algorithm::Fixed, Algorithm::Sliding, Algorithm::Gcra] {
        let peek = CheckLimitRequest {
            peek: true,
            ..test_request(algorithm)
        };
        let free = check(&service, peek).await.unwrap();
        assert_eq!((free.allowed, free.remaining, free.reset_ms), (true, 2, 0));
        let both = CheckLimitRequest {
            cost: Some(2),
            ..test_request(algorithm)
        };
        let taken = check(&service, both).await.unwrap();
        assert_eq!((taken.allowed, taken.remaining), (true, 0));
        assert_eq!((taken.limit, taken.retry_after_ms), (2, None));
        let full = check(&service, test_request(algorithm)).await.unwrap();
        assert!(!full.allowed && full.retry_after_ms > Some(0), "{full:?}");
    }
}

#[tokio::test]
async fn invalid_checks_are_rejected_with_the_reason() {
    let node = ready(node()).await;
    let service = Client::new(Some(service_token()), node.grpc_address()).await;
    let refused = check(&service, test_request(Algorithm::Unspecified)).await;
    assert_refused(
        &refused.unwrap_err(),
        Code::InvalidArgument,
        "invalid_request",
    );
    let blank = CheckLimitRequest {
        key: "a b".into(),
        ..test_request(Algorithm::Fixed)
    };
    let refused = check(&service, blank).await.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "invalid_id");
    let alice = Client::of("alice", node.grpc_address()).await;
    let refused = check(&alice, test_request(Algorithm::Fixed))
        .await
        .unwrap_err();
    assert_refused(&refused, Code::PermissionDenied, "forbidden");
}
