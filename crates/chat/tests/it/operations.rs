//! Who may do what, asked of the operations themselves: no gateway decides.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

use std::collections::HashSet;

use parlor_chat::access::{Caller, Role};
use parlor_chat::chat::Chat;
use parlor_chat::code::Code;
use parlor_chat::conversations::{
    ConversationKind, CreateConversation, DeleteConversation, GetConversation, IsMember,
    JoinConversation, LeaveConversation, PutMember, UpdateConversation,
};
use parlor_chat::database::Either;
use parlor_chat::ids::{NodeId, UserId};
use parlor_chat::keys::{Preset, Settings};
use parlor_chat::limits::{Algorithm, CheckLimit};
use parlor_chat::messages::{
    CatchUp, DeleteMessage, EditMessage, GetMessage, ListMessages, SendMessage,
};
use parlor_chat::operation::{ALL, EVERYWHERE, Operation};
use parlor_chat::options;
use parlor_chat::presence::{
    CountPresence, GetPresence, Heartbeat, ListDevices, QueryPresence, RemoveDevice, SetPresence,
    Status, WatchPresence,
};
use parlor_chat::typing::{ListTyping, SetTyping};
use parlor_chat::unread::{GetUnread, ListReceipts, MarkDelivered, MarkRead, MarkUnread};

use crate::ground::Ground;

/// A chat, and the ground it must not outlive.
async fn chat() -> (Ground, Chat) {
    let ground = Ground::embedded().await;
    let context = ground.context(Settings::from_preset(Preset::Parlor));
    let node = NodeId::new("n1").unwrap();
    let database = ground.database().await;
    let chat = Chat::new(context, database, node, &options::Options::default());
    chat.start().await.unwrap();
    (ground, chat)
}

fn person(user: &str, role: Role) -> Caller {
    Caller {
        user: Some(UserId::new(user).unwrap()),
        name: Some(user.to_uppercase()),
        role,
        anonymous: false,
        issued_at: Some(0),
        expires_at: u64::MAX,
        address: None,
    }
}

fn service() -> Caller {
    Caller {
        user: None,
        ..person("x", Role::Service)
    }
}

fn visitor() -> Caller {
    Caller {
        anonymous: true,
        ..person("alice", Role::User)
    }
}

/// The code of the answer, or none if it was done. What is refused must be declared.
async fn asked<O: Operation>(chat: &Chat, caller: &Caller, request: O) -> Option<Code> {
    let code = request.run(chat, caller).await.err()?.code();
    let declared = O::INFO.codes.iter().chain(EVERYWHERE);
    assert!(
        declared.into_iter().any(|it| *it == code),
        "{} refuses with {code}, which it does not declare",
        O::INFO.name
    );
    Some(code)
}

fn set(user: &str, status: Status) -> SetPresence {
    SetPresence {
        user_id: user.into(),
        status,
        device_id: None,
    }
}

fn typing(conversation: &str) -> SetTyping {
    SetTyping {
        conversation_id: conversation.into(),
        typing: true,
        username: None,
    }
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let names: HashSet<_> = ALL.iter().map(|info| info.name).collect();
    assert_eq!(names.len(), ALL.len());
    for info in ALL {
        assert!(info.name.split_once('.').is_some(), "{}", info.name);
        assert!(!info.summary.ends_with('.'), "{}", info.name);
    }
}

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

#[tokio::test]
async fn a_wrong_id_is_called_so_by_every_operation() {
    let (_ground, chat) = chat().await;
    let root = person("root", Role::Admin);
    let service = service();
    let wrong = || "a:b".to_owned();
    let get = GetPresence { user_id: wrong() };
    let list = ListDevices { user_id: wrong() };
    let remove = RemoveDevice {
        user_id: "root".into(),
        device_id: wrong(),
    };
    let beat = Heartbeat {
        user_id: String::new(),
        device_id: Some(wrong()),
    };
    let query = QueryPresence {
        user_ids: vec![wrong()],
    };
    let watch = WatchPresence {
        user_ids: vec![wrong()],
    };
    let codes = [
        asked(&chat, &root, get).await,
        asked(&chat, &root, list).await,
        asked(&chat, &root, remove).await,
        asked(&chat, &root, beat).await,
        asked(&chat, &root, query).await,
        asked(&chat, &root, watch).await,
        asked(&chat, &root, set("a:b", Status::Online)).await,
        asked(
            &chat,
            &service.clone().acting_for("u").unwrap(),
            typing("total"),
        )
        .await,
    ];
    assert_eq!(codes, [Some(Code::InvalidId); 8]);
}

/// Creates a group of a caller.
async fn group(chat: &Chat, caller: &Caller, id: &str, members: &[&str]) {
    let members = members.iter().map(ToString::to_string).collect();
    let create = CreateConversation {
        id: Some(id.into()),
        kind: ConversationKind::Group,
        title: None,
        members,
        open: Some(true),
        history: None,
        priority: None,
        idempotency_key: None,
    };
    assert_eq!(asked(chat, caller, create).await, None);
}

#[tokio::test]
async fn members_and_services_type() {
    let (_ground, chat) = chat().await;
    let list = || ListTyping {
        conversation_id: "c1".into(),
    };
    let (alice, bob) = (person("alice", Role::User), person("bob", Role::User));
    assert_eq!(
        asked(&chat, &alice, typing("c1")).await,
        Some(Code::NotAMember)
    );
    group(&chat, &alice, "c1", &[]).await;
    assert_eq!(asked(&chat, &alice, typing("c1")).await, None);
    assert_eq!(asked(&chat, &alice, list()).await, None);
    assert_eq!(
        asked(&chat, &bob, typing("c1")).await,
        Some(Code::NotAMember)
    );
    assert_eq!(asked(&chat, &bob, list()).await, Some(Code::NotAMember));
    assert_eq!(
        asked(&chat, &visitor(), typing("c1")).await,
        Some(Code::ReadOnlySession)
    );
    assert_eq!(
        asked(&chat, &service(), typing("c1")).await,
        Some(Code::UserRequired)
    );
    let for_bob = service().acting_for("bob").unwrap();
    let named = SetTyping {
        username: Some("Bob".into()),
        ..typing("c1")
    };
    assert_eq!(asked(&chat, &for_bob, named).await, None);
    let typers = list().run(&chat, &service()).await.unwrap().typing;
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
        asked(&chat, &for_bob, long).await,
        Some(Code::InvalidRequest)
    );
}

#[tokio::test]
async fn a_position_is_the_members_own_and_a_visitor_has_none() {
    let (_ground, chat) = chat().await;
    let statements = [
        "INSERT INTO conversations (id, kind, created_at, last_at, last_seq, members_version, member_count)
            VALUES ('c1', 'group', 0, 0, 3, 1, 1)",
        "INSERT INTO members (conversation_id, user_id, role, joined_at, joined_seq, joined_version, delivered_seq, read_seq, badge_seq)
            VALUES ('c1', 'alice', 'member', 0, 0, 1, 0, 0, 0)",
    ];
    for statement in statements {
        let mut tx = chat.database().begin().await.unwrap();
        let Either::Sqlite(c) = tx.connection() else {
            unreachable!("it is beside the embedded engine")
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
        (person("alice", Role::User), "c1", None),
        (service().acting_for("alice").unwrap(), "c1", None),
        (service(), "c1", Some(Code::UserRequired)),
        (visitor(), "c1", Some(Code::ReadOnlySession)),
        (person("bob", Role::User), "c1", Some(Code::NotAMember)),
        (person("root", Role::Admin), "c1", Some(Code::NotAMember)),
        (
            service().acting_for("bob").unwrap(),
            "c1",
            Some(Code::NotAMember),
        ),
        (person("alice", Role::User), "c9", Some(Code::NotAMember)),
        (person("alice", Role::User), "total", Some(Code::InvalidId)),
    ];
    for (caller, conv, expected) in cases {
        let codes = [
            asked(&chat, &caller, read(conv)).await,
            asked(&chat, &caller, unread(conv, 1)).await,
            asked(&chat, &caller, delivered(conv)).await,
        ];
        assert_eq!(codes, [expected; 3], "{caller:?} {conv}");
    }
    let alice = person("alice", Role::User);
    let none = asked(&chat, &alice, unread("c1", 0)).await;
    assert_eq!(none, Some(Code::InvalidRequest));
    let badge = read("c1").run(&chat, &alice).await.unwrap();
    assert_eq!((badge.unread, badge.total), (2, 2));
    for caller in [visitor(), alice] {
        let counts = GetUnread {}.run(&chat, &caller).await.unwrap();
        assert_eq!(counts.total, 2, "looking is for everybody");
    }
    assert_eq!(
        asked(&chat, &service(), GetUnread {}).await,
        Some(Code::UserRequired)
    );
    let list = |limit| ListReceipts {
        conversation_id: "c1".into(),
        cursor: None,
        limit,
    };
    let page = list(None).run(&chat, &service()).await.unwrap();
    assert_eq!(page.receipts.len(), 1);
    let bob = person("bob", Role::User);
    assert_eq!(asked(&chat, &bob, list(None)).await, Some(Code::NotAMember));
    assert_eq!(
        asked(&chat, &service(), list(Some(1_001))).await,
        Some(Code::TooMany)
    );
    assert_eq!(
        asked(&chat, &service(), list(Some(0))).await,
        Some(Code::InvalidRequest)
    );
    let wrong = ListReceipts {
        cursor: Some("a:b".into()),
        ..list(None)
    };
    assert_eq!(asked(&chat, &service(), wrong).await, Some(Code::InvalidId));
}

#[tokio::test]
async fn messages_are_for_members_and_services() {
    let (_ground, chat) = chat().await;
    group(&chat, &person("alice", Role::User), "c1", &["bob"]).await;
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
    let stranger = Some(Code::NotAMember);
    for (caller, may_send, may_read) in [
        (person("alice", Role::User), None, None),
        (person("bob", Role::User), None, None),
        (visitor(), Some(Code::ReadOnlySession), None),
        (person("mallory", Role::User), stranger, stranger),
        (person("root", Role::Admin), stranger, stranger),
        (service(), Some(Code::UserRequired), None),
        (service().acting_for("bob").unwrap(), None, None),
        (service().acting_for("mallory").unwrap(), stranger, None),
    ] {
        assert_eq!(asked(&chat, &caller, send()).await, may_send, "{caller:?}");
        assert_eq!(asked(&chat, &caller, list()).await, may_read, "{caller:?}");
        assert_eq!(asked(&chat, &caller, get()).await, may_read, "{caller:?}");
    }
    let bob = person("bob", Role::User);
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
        assert_eq!(asked(&chat, &bob, wrong).await, Some(Code::InvalidRequest));
    }
}

#[tokio::test]
async fn messages_are_changed_by_their_sender_and_by_admins() {
    let (_ground, chat) = chat().await;
    group(&chat, &person("alice", Role::User), "c1", &["bob"]).await;
    let send = SendMessage {
        conversation_id: "c1".into(),
        content: "hello".into(),
        metadata: None,
        client_id: Some("k".into()),
    };
    let bob = person("bob", Role::User);
    let sent = send.clone().run(&chat, &bob).await.unwrap();
    assert!(SendMessage::created(&sent));
    assert!(!SendMessage::created(&send.run(&chat, &bob).await.unwrap()));
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
    let owner = person("alice", Role::User);
    let mut anonymous = bob.clone();
    anonymous.anonymous = true;
    let callers = [
        (bob, None),
        (owner, None),
        (person("root", Role::Admin), None),
        (service(), None),
        (anonymous, Some(Code::ReadOnlySession)),
        (person("mallory", Role::User), Some(Code::NotAMember)),
    ];
    for (caller, expected) in &callers {
        assert_eq!(asked(&chat, caller, edit()).await, *expected, "{caller:?}");
    }
    for (caller, expected) in &callers {
        assert_eq!(
            asked(&chat, caller, delete()).await,
            *expected,
            "{caller:?}"
        );
    }
    let deleted = asked(&chat, &callers[0].0, edit()).await;
    assert_eq!(deleted, Some(Code::MessageDeleted));
    let nothing = EditMessage {
        content: None,
        ..edit()
    };
    let refused = asked(&chat, &callers[0].0, nothing).await;
    assert_eq!(refused, Some(Code::InvalidRequest));
}

#[tokio::test]
async fn members_catch_up_and_nobody_else_does() {
    let (_ground, chat) = chat().await;
    group(&chat, &person("bob", Role::User), "c1", &["alice"]).await;
    let catch_up = |id: &str| CatchUp {
        conversation_id: id.into(),
        after_seq: Some(0),
        after_rev: Some(0),
    };
    let as_alice = service().acting_for("alice").unwrap();
    let as_mallory = service().acting_for("mallory").unwrap();
    for (caller, expected) in [
        (person("alice", Role::User), None),
        (as_alice, None),
        (service(), Some(Code::UserRequired)),
        (as_mallory, Some(Code::NotAMember)),
        (person("mallory", Role::User), Some(Code::NotAMember)),
        (person("root", Role::Admin), Some(Code::NotAMember)),
    ] {
        let answer = asked(&chat, &caller, catch_up("c1")).await;
        assert_eq!(answer, expected, "{caller:?}");
    }
    let alice = person("alice", Role::User);
    let unknown = asked(&chat, &alice, catch_up("c9")).await;
    assert_eq!(unknown, Some(Code::NotAMember));
    let wrong = asked(&chat, &alice, catch_up("no id")).await;
    assert_eq!(wrong, Some(Code::InvalidId));
}

#[tokio::test]
async fn a_visitor_changes_no_conversation() {
    let (_ground, chat) = chat().await;
    group(&chat, &person("bob", Role::User), "c1", &["alice"]).await;
    let visitor = visitor();
    let id = || "c1".to_owned();
    let refused = Some(Code::ReadOnlySession);
    let update = UpdateConversation {
        conversation_id: id(),
        title: Some("Mine".into()),
        ..UpdateConversation::default()
    };
    assert_eq!(asked(&chat, &visitor, update).await, refused);
    let join = JoinConversation {
        conversation_id: id(),
    };
    assert_eq!(asked(&chat, &visitor, join).await, refused);
    let delete = DeleteConversation {
        conversation_id: id(),
    };
    assert_eq!(asked(&chat, &visitor, delete).await, refused);
    let put = PutMember {
        conversation_id: id(),
        user_id: "carol".into(),
        ..PutMember::default()
    };
    assert_eq!(asked(&chat, &visitor, put).await, refused);
    let get = GetConversation {
        conversation_id: id(),
    };
    assert_eq!(asked(&chat, &visitor, get).await, None);
    let leave = LeaveConversation {
        conversation_id: id(),
    };
    assert_eq!(asked(&chat, &visitor, leave).await, None);
}

#[tokio::test]
async fn who_is_a_member_is_for_the_user_and_for_members() {
    let (_ground, chat) = chat().await;
    let (alice, bob) = (person("alice", Role::User), person("bob", Role::User));
    group(&chat, &alice, "c1", &[]).await;
    let is = |user: &str| IsMember {
        conversation_id: "c1".into(),
        user_id: user.into(),
    };
    let yes = is("").run(&chat, &alice).await.unwrap();
    assert!(yes.is_member);
    assert!(!is("").run(&chat, &bob).await.unwrap().is_member);
    assert!(!is("bob").run(&chat, &alice).await.unwrap().is_member);
    assert!(is("alice").run(&chat, &service()).await.unwrap().is_member);
    assert_eq!(
        asked(&chat, &bob, is("alice")).await,
        Some(Code::NotAMember)
    );
    assert_eq!(
        asked(&chat, &service(), is("")).await,
        Some(Code::UserRequired)
    );
    assert_eq!(asked(&chat, &alice, is("a:b")).await, Some(Code::InvalidId));
}

#[tokio::test]
async fn limits_are_for_services_and_admins() {
    let (_ground, chat) = chat().await;
    let check = || CheckLimit {
        key: "login:alice".into(),
        algorithm: Algorithm::Fixed,
        limit: 10,
        window_ms: 60_000,
        cost: 1,
        peek: false,
    };
    let forbidden = Some(Code::Forbidden);
    for (caller, expected) in [
        (person("alice", Role::User), forbidden),
        (visitor(), forbidden),
        (person("root", Role::Admin), None),
        (service(), None),
        (service().acting_for("alice").unwrap(), None),
    ] {
        assert_eq!(asked(&chat, &caller, check()).await, expected, "{caller:?}");
    }
    let answer = check().run(&chat, &service()).await.unwrap();
    assert_eq!(answer.remaining, 6, "what was forbidden took no place");
}

#[tokio::test]
async fn a_limit_that_cannot_be_kept_is_refused() {
    let (_ground, chat) = chat().await;
    let check = |limit, window_ms, cost| CheckLimit {
        key: "x".into(),
        algorithm: Algorithm::Gcra,
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
        let expected = (!allowed).then_some(Code::InvalidRequest);
        let told = format!("{request:?}");
        assert_eq!(asked(&chat, &service(), request).await, expected, "{told}");
    }
    for key in ["", "a b", "a{b}", &"x".repeat(257)] {
        let request = CheckLimit {
            key: key.into(),
            ..check(1, 1, 1)
        };
        let code = asked(&chat, &service(), request).await;
        assert_eq!(code, Some(Code::InvalidId), "{key}");
    }
}
