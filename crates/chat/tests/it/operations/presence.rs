//! Who may see and change presence.

use parlor_chat::access::Role;
use parlor_chat::code::Code;
use parlor_chat::ids::UserId;
use parlor_chat::operation::Operation;
use parlor_chat::presence::{
    CountPresence, GetPresence, Heartbeat, ListDevices, QueryPresence, RemoveDevice, Status,
    WatchPresence,
};

use super::{asked, chat, person, service, set, visitor};

#[tokio::test]
async fn a_user_changes_their_own_presence_only() {
    let (_ground, chat) = chat().await;
    let alice = person("alice", Role::User);
    let admin = person("root", Role::Admin);
    let beat = |user: &str| Heartbeat {
        user_id: user.into(),
        device_id: None,
    };
    for status in [Status::Online, Status::Away, Status::Offline] {
        assert_eq!(asked(&chat, &alice, set("alice", status)).await, None);
        assert_eq!(asked(&chat, &alice, set("", status)).await, None);
        let other = asked(&chat, &alice, set("bob", status)).await;
        assert_eq!(other, Some(Code::Forbidden));
        let other = asked(&chat, &admin, set("bob", status)).await;
        assert_eq!(other, Some(Code::Forbidden));
        assert_eq!(asked(&chat, &service(), set("bob", status)).await, None);
        let nobody = asked(&chat, &service(), set("", status)).await;
        assert_eq!(nobody, Some(Code::UserRequired));
    }
    assert_eq!(asked(&chat, &alice, beat("alice")).await, None);
    assert_eq!(
        asked(&chat, &alice, beat("bob")).await,
        Some(Code::Forbidden)
    );
    assert_eq!(
        asked(&chat, &service(), beat("")).await,
        Some(Code::UserRequired)
    );
}

#[tokio::test]
async fn a_refused_change_changes_nothing() {
    let (_ground, chat) = chat().await;
    let mallory = person("mallory", Role::User);
    asked(&chat, &mallory, set("alice", Status::Online)).await;
    let alice = UserId::new("alice").unwrap();
    assert_eq!(chat.presence().status(&alice).await.unwrap().version, 0);
    assert_eq!(chat.presence().count().await.unwrap(), 0);
}

#[tokio::test]
async fn devices_are_for_the_user_admins_and_services() {
    let (_ground, chat) = chat().await;
    let cases = [
        (person("alice", Role::User), None),
        (person("root", Role::Admin), None),
        (service(), None),
        (person("bob", Role::User), Some(Code::Forbidden)),
        (service().acting_for("bob").unwrap(), Some(Code::Forbidden)),
    ];
    for (caller, expected) in cases {
        let list = ListDevices {
            user_id: "alice".into(),
        };
        let remove = RemoveDevice {
            user_id: "alice".into(),
            device_id: "api".into(),
        };
        assert_eq!(asked(&chat, &caller, list).await, expected, "{caller:?}");
        assert_eq!(asked(&chat, &caller, remove).await, expected, "{caller:?}");
    }
}

#[tokio::test]
async fn anybody_with_a_token_sees_how_users_are_seen() {
    let (_ground, chat) = chat().await;
    for caller in [person("bob", Role::User), visitor(), service()] {
        let get = GetPresence {
            user_id: "alice".into(),
        };
        let user_ids = vec!["alice".to_owned(), "bob".to_owned()];
        let query = QueryPresence {
            user_ids: user_ids.clone(),
        };
        assert_eq!(asked(&chat, &caller, get).await, None);
        assert_eq!(asked(&chat, &caller, query).await, None);
        assert_eq!(asked(&chat, &caller, CountPresence {}).await, None);
        assert_eq!(
            asked(&chat, &caller, WatchPresence { user_ids }).await,
            None
        );
    }
}

#[tokio::test]
async fn a_thousand_users_are_answered_and_one_more_is_refused() {
    let (_ground, chat) = chat().await;
    let bob = person("bob", Role::User);
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
    assert_eq!(asked(&chat, &bob, query).await, Some(Code::TooMany));
    let watch = WatchPresence { user_ids };
    assert_eq!(asked(&chat, &bob, watch).await, Some(Code::TooMany));
}
