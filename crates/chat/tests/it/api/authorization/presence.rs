//! Authorization of presence operations.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::Operation;
use parlor_chat::ids::UserId;
use parlor_chat::presence::{
    CountPresence, GetPresence, Heartbeat, ListDevices, PresenceStatus, QueryPresence,
    RemoveDevice, WatchPresence,
};

use super::{
    admin_caller, chat, run_for_error_code, service_caller, set, user_caller, visitor_caller,
};

#[tokio::test]
async fn a_user_changes_their_own_presence_only() {
    let (_backend, chat) = chat().await;
    let alice = user_caller("alice");
    let admin = admin_caller("root");
    let beat = |user: &str| Heartbeat {
        user_id: user.into(),
        device_id: None,
    };
    for status in [
        PresenceStatus::Online,
        PresenceStatus::Away,
        PresenceStatus::Offline,
    ] {
        assert_eq!(
            run_for_error_code(&chat, &alice, set("alice", status)).await,
            None
        );
        assert_eq!(
            run_for_error_code(&chat, &alice, set("", status)).await,
            None
        );
        let other = run_for_error_code(&chat, &alice, set("bob", status)).await;
        assert_eq!(other, Some(ErrorCode::Forbidden));
        let other = run_for_error_code(&chat, &admin, set("bob", status)).await;
        assert_eq!(other, Some(ErrorCode::Forbidden));
        assert_eq!(
            run_for_error_code(&chat, &service_caller(), set("bob", status)).await,
            None
        );
        let nobody = run_for_error_code(&chat, &service_caller(), set("", status)).await;
        assert_eq!(nobody, Some(ErrorCode::UserRequired));
    }
    assert_eq!(run_for_error_code(&chat, &alice, beat("alice")).await, None);
    assert_eq!(
        run_for_error_code(&chat, &alice, beat("bob")).await,
        Some(ErrorCode::Forbidden)
    );
    assert_eq!(
        run_for_error_code(&chat, &service_caller(), beat("")).await,
        Some(ErrorCode::UserRequired)
    );
}

#[tokio::test]
async fn a_refused_change_changes_nothing() {
    let (_backend, chat) = chat().await;
    let mallory = user_caller("mallory");
    run_for_error_code(&chat, &mallory, set("alice", PresenceStatus::Online)).await;
    let alice = UserId::new("alice").unwrap();
    assert_eq!(chat.presence().status(&alice).await.unwrap().version, 0);
    assert_eq!(chat.presence().count().await.unwrap(), 0);
}

#[tokio::test]
async fn devices_are_for_the_user_admins_and_services() {
    let (_backend, chat) = chat().await;
    let cases = [
        (user_caller("alice"), None),
        (admin_caller("root"), None),
        (service_caller(), None),
        (user_caller("bob"), Some(ErrorCode::Forbidden)),
        (
            service_caller().on_behalf_of("bob").unwrap(),
            Some(ErrorCode::Forbidden),
        ),
    ];
    for (caller, expected) in cases {
        let list = ListDevices {
            user_id: "alice".into(),
        };
        let remove = RemoveDevice {
            user_id: "alice".into(),
            device_id: "api".into(),
        };
        assert_eq!(
            run_for_error_code(&chat, &caller, list).await,
            expected,
            "{caller:?}"
        );
        assert_eq!(
            run_for_error_code(&chat, &caller, remove).await,
            expected,
            "{caller:?}"
        );
    }
}

#[tokio::test]
async fn anybody_with_a_token_sees_how_users_are_seen() {
    let (_backend, chat) = chat().await;
    for caller in [user_caller("bob"), visitor_caller(), service_caller()] {
        let get = GetPresence {
            user_id: "alice".into(),
        };
        let user_ids = vec!["alice".to_owned(), "bob".to_owned()];
        let query = QueryPresence {
            user_ids: user_ids.clone(),
        };
        assert_eq!(run_for_error_code(&chat, &caller, get).await, None);
        assert_eq!(run_for_error_code(&chat, &caller, query).await, None);
        assert_eq!(
            run_for_error_code(&chat, &caller, CountPresence {}).await,
            None
        );
        assert_eq!(
            run_for_error_code(&chat, &caller, WatchPresence { user_ids }).await,
            None
        );
    }
}

#[tokio::test]
async fn a_thousand_users_are_answered_and_one_more_is_refused() {
    let (_backend, chat) = chat().await;
    let bob = user_caller("bob");
    let mut user_ids: Vec<String> = (0..1_000).map(|it| format!("u{it}")).collect();
    let query = QueryPresence {
        user_ids: user_ids.clone(),
    };
    let users = query.run(&chat, &bob).await.unwrap().users;
    assert!(users.iter().map(|it| it.user_id.as_str()).eq(&user_ids));
    user_ids.push("one-more".into());
    let query = QueryPresence {
        user_ids: user_ids.clone(),
    };
    assert_eq!(
        run_for_error_code(&chat, &bob, query).await,
        Some(ErrorCode::TooMany)
    );
    let watch = WatchPresence { user_ids };
    assert_eq!(
        run_for_error_code(&chat, &bob, watch).await,
        Some(ErrorCode::TooMany)
    );
}
