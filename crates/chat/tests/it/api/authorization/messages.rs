//! Authorization of typing, messages and unread counts.

use parlor_chat::api::caller::Caller;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::Operation;
use parlor_chat::database::PerBackend;
use parlor_chat::messages::{
    CatchUpConversation, DeleteMessage, EditMessage, GetMessage, ListMessages, SendMessage,
};
use parlor_chat::typing::{ListTyping, SetTyping};
use parlor_chat::unread::{GetUnread, ListReceipts, MarkDelivered, MarkRead, MarkUnread};

use super::{
    admin_caller, chat, create_group, run_for_error_code, service_caller, typing, user_caller,
    visitor_caller,
};

#[tokio::test]
async fn members_and_services_type() {
    let (_backend, chat) = chat().await;
    let list = || ListTyping {
        conversation_id: "c1".into(),
    };
    let alice = Caller {
        name: Some("ALICE".into()),
        ..user_caller("alice")
    };
    let bob = user_caller("bob");
    assert_eq!(
        run_for_error_code(&chat, &alice, typing("c1")).await,
        Some(ErrorCode::NotAMember)
    );
    create_group(&chat, &alice, "c1", &[]).await;
    assert_eq!(run_for_error_code(&chat, &alice, typing("c1")).await, None);
    assert_eq!(run_for_error_code(&chat, &alice, list()).await, None);
    assert_eq!(
        run_for_error_code(&chat, &bob, typing("c1")).await,
        Some(ErrorCode::NotAMember)
    );
    assert_eq!(
        run_for_error_code(&chat, &bob, list()).await,
        Some(ErrorCode::NotAMember)
    );
    assert_eq!(
        run_for_error_code(&chat, &visitor_caller(), typing("c1")).await,
        Some(ErrorCode::ReadOnlySession)
    );
    assert_eq!(
        run_for_error_code(&chat, &service_caller(), typing("c1")).await,
        Some(ErrorCode::UserRequired)
    );
    let for_bob = service_caller().on_behalf_of("bob").unwrap();
    let named = SetTyping {
        username: Some("Bob".into()),
        ..typing("c1")
    };
    assert_eq!(run_for_error_code(&chat, &for_bob, named).await, None);
    let typers = list().run(&chat, &service_caller()).await.unwrap().typing;
    let names: Vec<_> = typers
        .iter()
        .map(|it| (it.user_id.as_str(), it.username.as_deref()))
        .collect();
    assert_eq!(names, [("alice", Some("ALICE")), ("bob", Some("Bob"))]);
    let long = SetTyping {
        username: Some("x".repeat(257)),
        ..typing("c1")
    };
    assert_eq!(
        run_for_error_code(&chat, &for_bob, long).await,
        Some(ErrorCode::InvalidRequest)
    );
}

#[tokio::test]
async fn a_position_is_the_members_own_and_a_visitor_has_none() {
    let (_backend, chat) = chat().await;
    let statements = [
        "INSERT INTO conversations (id, kind, created_at, last_at, last_seq, members_version, member_count)
            VALUES ('c1', 'group', 0, 0, 3, 1, 1)",
        "INSERT INTO members (conversation_id, user_id, role, joined_at, joined_seq, joined_version, delivered_seq, read_seq, badge_seq)
            VALUES ('c1', 'alice', 'member', 0, 0, 1, 0, 0, 0)",
    ];
    for statement in statements {
        let mut tx = chat.database().begin().await.unwrap();
        let PerBackend::Sqlite(c) = tx.connection() else {
            unreachable!("the embedded store is tested with SQLite")
        };
        sqlx::query(statement).execute(c).await.unwrap();
        tx.commit().await.unwrap();
    }
    let read = |conversation: &str| MarkRead {
        conversation_id: conversation.into(),
        seq: Some(1),
    };
    let unread = |conversation: &str, seq| MarkUnread {
        conversation_id: conversation.into(),
        seq,
    };
    let delivered = |conversation: &str| MarkDelivered {
        conversation_id: conversation.into(),
        seq: None,
    };
    let cases = [
        (user_caller("alice"), "c1", None),
        (service_caller().on_behalf_of("alice").unwrap(), "c1", None),
        (service_caller(), "c1", Some(ErrorCode::UserRequired)),
        (visitor_caller(), "c1", Some(ErrorCode::ReadOnlySession)),
        (user_caller("bob"), "c1", Some(ErrorCode::NotAMember)),
        (admin_caller("root"), "c1", Some(ErrorCode::NotAMember)),
        (
            service_caller().on_behalf_of("bob").unwrap(),
            "c1",
            Some(ErrorCode::NotAMember),
        ),
        (user_caller("alice"), "c9", Some(ErrorCode::NotAMember)),
        (user_caller("alice"), "total", Some(ErrorCode::InvalidId)),
    ];
    for (caller, conv, expected) in cases {
        let codes = [
            run_for_error_code(&chat, &caller, read(conv)).await,
            run_for_error_code(&chat, &caller, unread(conv, 1)).await,
            run_for_error_code(&chat, &caller, delivered(conv)).await,
        ];
        assert_eq!(codes, [expected; 3], "{caller:?} {conv}");
    }
    let alice = user_caller("alice");
    let none = run_for_error_code(&chat, &alice, unread("c1", 0)).await;
    assert_eq!(none, Some(ErrorCode::InvalidRequest));
    let badge = read("c1").run(&chat, &alice).await.unwrap();
    assert_eq!((badge.unread, badge.total), (2, 2));
    for caller in [visitor_caller(), alice] {
        let counts = GetUnread {}.run(&chat, &caller).await.unwrap();
        assert_eq!(counts.total, 2, "visitors may read the counts");
    }
    assert_eq!(
        run_for_error_code(&chat, &service_caller(), GetUnread {}).await,
        Some(ErrorCode::UserRequired)
    );
    let list = |limit| ListReceipts {
        conversation_id: "c1".into(),
        cursor: None,
        limit,
    };
    let page = list(None).run(&chat, &service_caller()).await.unwrap();
    assert_eq!(page.receipts.len(), 1);
    let bob = user_caller("bob");
    assert_eq!(
        run_for_error_code(&chat, &bob, list(None)).await,
        Some(ErrorCode::NotAMember)
    );
    assert_eq!(
        run_for_error_code(&chat, &service_caller(), list(Some(1_001))).await,
        Some(ErrorCode::TooMany)
    );
    assert_eq!(
        run_for_error_code(&chat, &service_caller(), list(Some(0))).await,
        Some(ErrorCode::InvalidRequest)
    );
    let wrong = ListReceipts {
        cursor: Some("a:b".into()),
        ..list(None)
    };
    assert_eq!(
        run_for_error_code(&chat, &service_caller(), wrong).await,
        Some(ErrorCode::InvalidId)
    );
}

#[tokio::test]
async fn messages_are_for_members_and_services() {
    let (_backend, chat) = chat().await;
    create_group(&chat, &user_caller("alice"), "c1", &["bob"]).await;
    let send = || SendMessage {
        conversation_id: "c1".into(),
        content: "hello".into(),
        metadata: None,
        client_id: None,
    };
    let list = || ListMessages {
        conversation_id: "c1".into(),
        ..ListMessages::default()
    };
    let get = || GetMessage {
        conversation_id: "c1".into(),
        seq: 1,
    };
    let stranger = Some(ErrorCode::NotAMember);
    for (caller, may_send, may_read) in [
        (user_caller("alice"), None, None),
        (user_caller("bob"), None, None),
        (visitor_caller(), Some(ErrorCode::ReadOnlySession), None),
        (user_caller("mallory"), stranger, stranger),
        (admin_caller("root"), stranger, stranger),
        (service_caller(), Some(ErrorCode::UserRequired), None),
        (service_caller().on_behalf_of("bob").unwrap(), None, None),
        (
            service_caller().on_behalf_of("mallory").unwrap(),
            stranger,
            None,
        ),
    ] {
        assert_eq!(
            run_for_error_code(&chat, &caller, send()).await,
            may_send,
            "{caller:?}"
        );
        assert_eq!(
            run_for_error_code(&chat, &caller, list()).await,
            may_read,
            "{caller:?}"
        );
        assert_eq!(
            run_for_error_code(&chat, &caller, get()).await,
            may_read,
            "{caller:?}"
        );
    }
    let bob = user_caller("bob");
    for (before, after, limit) in [
        (Some(1), Some(1), None),
        (None, None, Some(0)),
        (None, None, Some(101)),
    ] {
        let wrong = ListMessages {
            before,
            after,
            limit,
            ..list()
        };
        assert_eq!(
            run_for_error_code(&chat, &bob, wrong).await,
            Some(ErrorCode::InvalidRequest)
        );
    }
}

#[tokio::test]
async fn messages_are_changed_by_their_sender_and_by_admins() {
    let (_backend, chat) = chat().await;
    create_group(&chat, &user_caller("alice"), "c1", &["bob"]).await;
    let send = SendMessage {
        conversation_id: "c1".into(),
        content: "hello".into(),
        metadata: None,
        client_id: Some("k".into()),
    };
    let bob = user_caller("bob");
    let sent = send.clone().run(&chat, &bob).await.unwrap();
    assert!(SendMessage::is_new(&sent));
    assert!(!SendMessage::is_new(&send.run(&chat, &bob).await.unwrap()));
    let edit = || EditMessage {
        conversation_id: "c1".into(),
        seq: 1,
        content: Some("hi".into()),
        metadata: None,
    };
    let delete = || DeleteMessage {
        conversation_id: "c1".into(),
        seq: 1,
    };
    let owner = user_caller("alice");
    let mut anonymous = bob.clone();
    anonymous.anonymous = true;
    let callers = [
        (bob, None),
        (owner, None),
        (admin_caller("root"), None),
        (service_caller(), None),
        (anonymous, Some(ErrorCode::ReadOnlySession)),
        (user_caller("mallory"), Some(ErrorCode::NotAMember)),
    ];
    for (caller, expected) in &callers {
        assert_eq!(
            run_for_error_code(&chat, caller, edit()).await,
            *expected,
            "{caller:?}"
        );
    }
    for (caller, expected) in &callers {
        assert_eq!(
            run_for_error_code(&chat, caller, delete()).await,
            *expected,
            "{caller:?}"
        );
    }
    let deleted = run_for_error_code(&chat, &callers[0].0, edit()).await;
    assert_eq!(deleted, Some(ErrorCode::MessageDeleted));
    let nothing = EditMessage {
        content: None,
        ..edit()
    };
    let refused = run_for_error_code(&chat, &callers[0].0, nothing).await;
    assert_eq!(refused, Some(ErrorCode::InvalidRequest));
}

#[tokio::test]
async fn members_catch_up_and_nobody_else_does() {
    let (_backend, chat) = chat().await;
    create_group(&chat, &user_caller("bob"), "c1", &["alice"]).await;
    let catch_up = |id: &str| CatchUpConversation {
        conversation_id: id.into(),
        after_seq: Some(0),
        after_rev: Some(0),
    };
    let as_alice = service_caller().on_behalf_of("alice").unwrap();
    let as_mallory = service_caller().on_behalf_of("mallory").unwrap();
    for (caller, expected) in [
        (user_caller("alice"), None),
        (as_alice, None),
        (service_caller(), Some(ErrorCode::UserRequired)),
        (as_mallory, Some(ErrorCode::NotAMember)),
        (user_caller("mallory"), Some(ErrorCode::NotAMember)),
        (admin_caller("root"), Some(ErrorCode::NotAMember)),
    ] {
        let answer = run_for_error_code(&chat, &caller, catch_up("c1")).await;
        assert_eq!(answer, expected, "{caller:?}");
    }
    let alice = user_caller("alice");
    let unknown = run_for_error_code(&chat, &alice, catch_up("c9")).await;
    assert_eq!(unknown, Some(ErrorCode::NotAMember));
    let wrong = run_for_error_code(&chat, &alice, catch_up("no id")).await;
    assert_eq!(wrong, Some(ErrorCode::InvalidId));
}
