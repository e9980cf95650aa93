//! Authorization of rate limit checks.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::Operation;
use parlor_chat::limits::{CheckLimit, RateLimitAlgorithm};

use super::{admin_caller, chat, run_for_error_code, service_caller, user_caller, visitor_caller};

#[tokio::test]
async fn limits_are_for_services_and_admins() {
    let (_backend, chat) = chat().await;
    let check = || CheckLimit {
        key: "login:alice".into(),
        algorithm: RateLimitAlgorithm::Fixed,
        limit: 10,
        window_ms: 60_000,
        cost: 1,
        peek: false,
    };
    let forbidden = Some(ErrorCode::Forbidden);
    for (caller, expected) in [
        (user_caller("alice"), forbidden),
        (visitor_caller(), forbidden),
        (admin_caller("root"), None),
        (service_caller(), None),
        (service_caller().on_behalf_of("alice").unwrap(), None),
    ] {
        assert_eq!(
            run_for_error_code(&chat, &caller, check()).await,
            expected,
            "{caller:?}"
        );
    }
    let answer = check().run(&chat, &service_caller()).await.unwrap();
    assert_eq!(answer.remaining, 6, "forbidden calls were not counted");
}

#[tokio::test]
async fn a_limit_that_cannot_be_kept_is_refused() {
    let (_backend, chat) = chat().await;
    let check = |limit, window_ms, cost| CheckLimit {
        key: "x".into(),
        algorithm: RateLimitAlgorithm::Gcra,
        limit,
        window_ms,
        cost,
        peek: true,
    };
    let month = 31 * 24 * 60 * 60 * 1_000;
    for (request, allowed) in [
        (check(0, 1_000, 1), false),
        (check(10_000, 1, 100), true),
        (check(10_001, 1_000, 1), false),
        (check(1, 0, 1), false),
        (check(1, month, 1), true),
        (check(1, month + 1, 1), false),
        (check(1, u64::MAX, 1), false),
        (check(10, 1_000, 0), false),
        (check(10, 1_000, 11), false),
        (check(1_000, 1_000, 101), false),
    ] {
        let expected = (!allowed).then_some(ErrorCode::InvalidRequest);
        let name = format!("{request:?}");
        assert_eq!(
            run_for_error_code(&chat, &service_caller(), request).await,
            expected,
            "{name}"
        );
    }
    for key in ["", "a b", "a{b}", &"x".repeat(257)] {
        let request = CheckLimit {
            key: key.into(),
            ..check(1, 1, 1)
        };
        let code = run_for_error_code(&chat, &service_caller(), request).await;
        assert_eq!(code, Some(ErrorCode::InvalidId), "{key}");
    }
}
