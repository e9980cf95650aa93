//! Permissions and effects of the operations on conversations.

use futures_util::future::join_all;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::conversations::{
    CreateConversation, DeleteConversation, GetConversation, GetMember, JoinConversation,
    LeaveConversation, ListMembers, MemberRole, PutMember, RemoveMember, UpdateConversation,
};
use serde_json::json;

use super::fixture::{
    ConversationsFixture, admin_caller, error_code_of, run_operation, service_caller, user_caller,
};
use super::on_every_engine;

on_every_engine! {
    a_direct_conversation_is_created_once_for_each_pair;
    an_id_and_a_key_are_given_once;
    invalid_create_requests_are_rejected;
    members_come_and_go_by_the_rules;
    ownership_passes_to_another_member_when_the_owner_leaves;
    a_deleted_conversation_is_gone_for_good;
    members_are_listed_page_by_page;
}

pub async fn a_direct_conversation_is_created_once_for_each_pair(fixture: ConversationsFixture) {
    let node = &fixture.nodes[0];
    let create = run_operation::<CreateConversation>;
    let (alice, bob) = (user_caller("alice"), user_caller("bob"));
    let with = |other: &str| json!({ "kind": "direct", "members": [other] });
    let first = create(node, &alice, with("bob")).await.unwrap();
    assert!(first.created);
    let id = first.conversation.id.to_string();
    assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 7);
    for (caller, other) in [(&alice, "bob"), (&bob, "alice")] {
        let again = create(&fixture.nodes[1], caller, with(other))
            .await
            .unwrap();
        assert!(!again.created);
        assert_eq!(again.conversation, first.conversation);
    }
    let carol = create(node, &alice, with("carol")).await.unwrap();
    assert_ne!(carol.conversation.id, first.conversation.id);
    assert_eq!(fixture.members(&id).await, ["alice owner", "bob member"]);
    // The two members of a direct conversation cannot change.
    let at = |user: &str| json!({ "conversationId": id, "userId": user });
    let forbidden = Some(ErrorCode::Forbidden);
    assert_eq!(
        error_code_of::<PutMember>(node, &alice, at("carol")).await,
        forbidden
    );
    assert_eq!(
        error_code_of::<RemoveMember>(node, &service_caller(), at("bob")).await,
        forbidden
    );
    assert_eq!(
        error_code_of::<LeaveConversation>(node, &bob, at("")).await,
        forbidden
    );
    assert_eq!(
        error_code_of::<JoinConversation>(node, &admin_caller("root"), at("")).await,
        forbidden
    );
    assert_eq!(fixture.members(&id).await, ["alice owner", "bob member"]);
    // Concurrent calls create one conversation.
    let request = (0..12).map(|nth| {
        let caller = if nth % 2 == 0 { "dave" } else { "erin" };
        let other = if nth % 2 == 0 { "erin" } else { "dave" };
        let node = &fixture.nodes[nth % 3];
        async move {
            let caller = user_caller(caller);
            run_operation::<CreateConversation>(
                node,
                &caller,
                json!({ "kind": "direct", "members": [other] }),
            )
            .await
        }
    });
    let mut ids = std::collections::HashSet::new();
    let mut created = 0;
    for answer in join_all(request).await {
        let answer = answer.unwrap();
        created += usize::from(answer.created);
        ids.insert(answer.conversation.id);
    }
    assert_eq!((ids.len(), created), (1, 1));
}

pub async fn an_id_and_a_key_are_given_once(fixture: ConversationsFixture) {
    let node = &fixture.nodes[0];
    let create = run_operation::<CreateConversation>;
    let (alice, bob) = (user_caller("alice"), user_caller("bob"));
    let group =
        json!({ "id": "c1", "kind": "group", "title": "One", "members": ["bob", "bob", "alice"] });
    let first = create(node, &alice, group.clone()).await.unwrap();
    assert_eq!(first.conversation.member_count, 2);
    assert_eq!(first.conversation.created_by.unwrap().as_str(), "alice");
    for caller in [&alice, &bob, &service_caller()] {
        let again = error_code_of::<CreateConversation>(node, caller, group.clone()).await;
        assert_eq!(again, Some(ErrorCode::ConversationExists));
    }
    let keyed = |key: &str| json!({ "kind": "group", "members": ["carol"], "idempotencyKey": key });
    for caller in [&alice, &bob, &service_caller()] {
        let one = create(node, caller, keyed("k")).await.unwrap();
        let two = create(&fixture.nodes[2], caller, keyed("k")).await.unwrap();
        assert_eq!((one.created, two.created), (true, false));
        assert_eq!(one.conversation, two.conversation);
        let other = create(node, caller, keyed("l")).await.unwrap();
        assert_ne!(other.conversation.id, one.conversation.id);
    }
    // If a service does not act for a user, the first member becomes owner.
    let two = json!({ "id": "c2", "kind": "support", "members": ["bob", "alice"] });
    create(node, &service_caller(), two).await.unwrap();
    assert_eq!(fixture.members("c2").await, ["alice member", "bob owner"]);
}

pub async fn invalid_create_requests_are_rejected(fixture: ConversationsFixture) {
    let node = &fixture.nodes[0];
    let alice = user_caller("alice");
    let many: Vec<String> = (0..1_000).map(|it| format!("u{it:04}")).collect();
    for (wrong, refusal) in [
        (json!({ "kind": "direct" }), ErrorCode::InvalidRequest),
        (
            json!({ "kind": "direct", "members": ["alice"] }),
            ErrorCode::InvalidRequest,
        ),
        (
            json!({ "kind": "direct", "members": ["bob", "carol"] }),
            ErrorCode::InvalidRequest,
        ),
        (
            json!({ "kind": "direct", "members": ["bob"], "title": "x" }),
            ErrorCode::InvalidRequest,
        ),
        (
            json!({ "kind": "direct", "members": ["bob"], "history": "since_join" }),
            ErrorCode::InvalidRequest,
        ),
        (
            json!({ "kind": "support", "open": true }),
            ErrorCode::InvalidRequest,
        ),
        (
            json!({ "kind": "group", "priority": "high" }),
            ErrorCode::InvalidRequest,
        ),
        (
            json!({ "kind": "group", "title": "x".repeat(257) }),
            ErrorCode::InvalidRequest,
        ),
        (
            json!({ "kind": "group", "title": "a\u{0}b" }),
            ErrorCode::InvalidRequest,
        ),
        (
            json!({ "kind": "group", "idempotencyKey": "" }),
            ErrorCode::InvalidRequest,
        ),
        (
            json!({ "kind": "group", "id": "total" }),
            ErrorCode::InvalidId,
        ),
        (
            json!({ "kind": "group", "members": ["a:b"] }),
            ErrorCode::InvalidId,
        ),
        (
            json!({ "kind": "group", "members": vec!["u"; 1_001] }),
            ErrorCode::TooMany,
        ),
    ] {
        let refused = error_code_of::<CreateConversation>(node, &alice, wrong.clone()).await;
        assert_eq!(refused, Some(refusal), "{wrong}");
    }
    let nobody =
        error_code_of::<CreateConversation>(node, &service_caller(), json!({ "kind": "group" }))
            .await;
    assert_eq!(nobody, Some(ErrorCode::InvalidRequest));
    let all = json!({ "id": "all", "kind": "group", "members": many, "title": "x".repeat(256) });
    let all = run_operation::<CreateConversation>(node, &alice, all)
        .await
        .unwrap();
    assert_eq!(all.conversation.member_count, 1_001);

    let change = |what: serde_json::Value| {
        let mut request = json!({ "conversationId": "all" });
        request
            .as_object_mut()
            .unwrap()
            .extend(what.as_object().unwrap().clone());
        request
    };
    let update = error_code_of::<UpdateConversation>;
    let refused = update(node, &alice, change(json!({ "priority": "low" }))).await;
    assert_eq!(refused, Some(ErrorCode::InvalidRequest));
    let stranger = update(
        node,
        &user_caller("u0001"),
        change(json!({ "title": "Mine" })),
    )
    .await;
    assert_eq!(stranger, Some(ErrorCode::Forbidden));
    let stranger = update(
        node,
        &user_caller("zoe"),
        change(json!({ "title": "Mine" })),
    )
    .await;
    assert_eq!(stranger, Some(ErrorCode::NotAMember));
    let missing = json!({ "conversationId": "none", "title": "x" });
    assert_eq!(
        update(node, &admin_caller("root"), missing).await,
        Some(ErrorCode::NotFound)
    );
    let changed = change(json!({ "title": "", "open": true, "history": "since_join" }));
    let changed = run_operation::<UpdateConversation>(node, &admin_caller("root"), changed)
        .await
        .unwrap();
    let shown = serde_json::to_value(&changed).unwrap();
    assert_eq!(shown["open"], true);
    assert_eq!(shown["history"], "since_join");
    assert_eq!(shown.get("title"), None);
}

pub async fn members_come_and_go_by_the_rules(fixture: ConversationsFixture) {
    let node = &fixture.nodes[0];
    let alice = user_caller("alice");
    let group = json!({ "id": "c1", "kind": "group", "members": ["bob", "carol"] });
    run_operation::<CreateConversation>(node, &alice, group)
        .await
        .unwrap();
    let put = async |caller: &str, who: &str, role: &str| {
        let request = json!({ "conversationId": "c1", "userId": who, "role": role });
        error_code_of::<PutMember>(node, &user_caller(caller), request).await
    };
    let remove = async |caller: &str, who: &str| {
        let request = json!({ "conversationId": "c1", "userId": who });
        error_code_of::<RemoveMember>(node, &user_caller(caller), request).await
    };
    let forbidden = Some(ErrorCode::Forbidden);
    assert_eq!(put("bob", "dave", "member").await, forbidden);
    assert_eq!(
        put("zoe", "zoe", "member").await,
        Some(ErrorCode::NotAMember)
    );
    assert_eq!(remove("bob", "carol").await, forbidden);
    assert_eq!(put("alice", "bob", "admin").await, None);
    assert_eq!(put("bob", "dave", "member").await, None);
    assert_eq!(put("bob", "carol", "admin").await, None);
    assert_eq!(put("bob", "carol", "member").await, None);
    // An admin can neither add nor change nor remove owners.
    assert_eq!(put("bob", "bob", "owner").await, forbidden);
    assert_eq!(put("bob", "alice", "member").await, forbidden);
    assert_eq!(remove("bob", "alice").await, forbidden);
    assert_eq!(
        put("alice", "alice", "member").await,
        Some(ErrorCode::InvalidRequest)
    );
    assert_eq!(remove("bob", "dave").await, None);
    assert_eq!(
        remove("bob", "dave").await,
        None,
        "a repeated removal succeeds"
    );
    assert_eq!(remove("carol", "carol").await, None);
    assert_eq!(fixture.members("c1").await, ["alice owner", "bob admin"]);
    let version = fixture.version("c1").await;
    assert_eq!(remove("bob", "dave").await, None);
    assert_eq!(put("alice", "bob", "admin").await, None);
    assert_eq!(
        fixture.version("c1").await,
        version,
        "calls without effect do not change the version"
    );

    let at = json!({ "conversationId": "c1" });
    let join = error_code_of::<JoinConversation>;
    assert_eq!(
        join(node, &user_caller("erin"), at.clone()).await,
        forbidden
    );
    let open = json!({ "conversationId": "c1", "open": true });
    run_operation::<UpdateConversation>(node, &alice, open)
        .await
        .unwrap();
    assert_eq!(join(node, &user_caller("erin"), at.clone()).await, None);
    assert_eq!(
        join(node, &user_caller("erin"), at.clone()).await,
        None,
        "a repeated join succeeds"
    );
    let head = run_operation::<GetConversation>(node, &alice, at.clone())
        .await
        .unwrap();
    assert_eq!(head.member_count, 3);
    let none = json!({ "conversationId": "none" });
    assert_eq!(join(node, &alice, none).await, Some(ErrorCode::NotFound));

    let support = json!({ "id": "help", "kind": "support" });
    run_operation::<CreateConversation>(node, &user_caller("erin"), support)
        .await
        .unwrap();
    let help = json!({ "conversationId": "help" });
    assert_eq!(join(node, &alice, help.clone()).await, forbidden);
    assert_eq!(join(node, &admin_caller("root"), help).await, None);
    assert_eq!(fixture.members("help").await, ["erin owner", "root admin"]);

    // Members mute for themselves only, and other members do not see the mute.
    let mute = |who: &str| json!({ "conversationId": "c1", "userId": who, "mutedUntil": "2999-01-01T00:00:00Z" });
    assert_eq!(
        error_code_of::<PutMember>(node, &alice, mute("bob")).await,
        forbidden
    );
    assert_eq!(
        error_code_of::<PutMember>(node, &user_caller("zoe"), mute("zoe")).await,
        Some(ErrorCode::NotAMember)
    );
    let muted = run_operation::<PutMember>(node, &user_caller("bob"), mute("bob"))
        .await
        .unwrap();
    assert_eq!(muted.muted_until.unwrap(), "2999-01-01T00:00:00.000Z");
    assert_eq!(muted.role, MemberRole::Admin);
    let bob = json!({ "conversationId": "c1", "userId": "bob" });
    let seen = run_operation::<GetMember>(node, &alice, bob.clone())
        .await
        .unwrap();
    assert_eq!(seen.muted_until, None);
    let unmute = json!({ "conversationId": "c1", "userId": "bob", "mutedUntil": null });
    let unmuted = run_operation::<PutMember>(node, &service_caller(), unmute)
        .await
        .unwrap();
    assert_eq!(unmuted.muted_until, None);
    let wrong = json!({ "conversationId": "c1", "userId": "bob", "mutedUntil": "soon" });
    let wrong = error_code_of::<PutMember>(node, &user_caller("bob"), wrong).await;
    assert_eq!(wrong, Some(ErrorCode::InvalidRequest));
    assert_eq!(
        error_code_of::<GetMember>(node, &user_caller("zoe"), bob).await,
        Some(ErrorCode::NotAMember)
    );
}

pub async fn ownership_passes_to_another_member_when_the_owner_leaves(
    fixture: ConversationsFixture,
) {
    let node = &fixture.nodes[0];
    let group = json!({ "id": "c1", "kind": "group", "members": ["bob"] });
    run_operation::<CreateConversation>(node, &user_caller("zoe"), group)
        .await
        .unwrap();
    for (who, role) in [
        ("carol", "member"),
        ("abe", "member"),
        ("dave", "admin"),
        ("aaron", "admin"),
    ] {
        let request = json!({ "conversationId": "c1", "userId": who, "role": role });
        run_operation::<PutMember>(node, &user_caller("zoe"), request)
            .await
            .unwrap();
    }
    let leave = async |who: &str| {
        let request = json!({ "conversationId": "c1" });
        run_operation::<LeaveConversation>(node, &user_caller(who), request)
            .await
            .unwrap();
        let members = fixture.members("c1").await.into_iter();
        let owners = members.filter(|it| it.ends_with("owner"));
        owners.collect::<Vec<_>>()
    };
    assert_eq!(
        leave("zoe").await,
        ["dave owner"],
        "the longest-standing admin becomes owner"
    );
    assert_eq!(leave("dave").await, ["aaron owner"]);
    assert_eq!(
        leave("aaron").await,
        ["bob owner"],
        "without an admin the longest-standing member becomes owner"
    );
    assert_eq!(leave("abe").await, ["bob owner"]);
    assert_eq!(leave("bob").await, ["carol owner"]);
    assert!(leave("carol").await.is_empty());
    let empty = json!({ "conversationId": "c1" });
    let empty = run_operation::<GetConversation>(node, &service_caller(), empty)
        .await
        .unwrap();
    assert_eq!(empty.member_count, 0);
}

pub async fn a_deleted_conversation_is_gone_for_good(fixture: ConversationsFixture) {
    let node = &fixture.nodes[0];
    let alice = user_caller("alice");
    let group = json!({ "id": "c1", "kind": "group", "members": ["bob"] });
    run_operation::<CreateConversation>(node, &alice, group.clone())
        .await
        .unwrap();
    let c1 = json!({ "conversationId": "c1" });
    assert!(fixture.is_member_on_node(1, "c1", "bob").await);
    let refused = error_code_of::<DeleteConversation>(node, &user_caller("bob"), c1.clone()).await;
    assert_eq!(refused, Some(ErrorCode::Forbidden));
    let refused = error_code_of::<DeleteConversation>(node, &user_caller("zoe"), c1.clone()).await;
    assert_eq!(refused, Some(ErrorCode::NotAMember));
    run_operation::<DeleteConversation>(node, &alice, c1.clone())
        .await
        .unwrap();
    for nth in 0..3 {
        assert!(!fixture.is_member_on_node(nth, "c1", "alice").await);
        assert!(!fixture.is_member_on_node(nth, "c1", "bob").await);
    }
    let gone = error_code_of::<GetConversation>(node, &alice, c1.clone()).await;
    assert_eq!(gone, Some(ErrorCode::NotAMember));
    let gone = error_code_of::<DeleteConversation>(node, &service_caller(), c1.clone()).await;
    assert_eq!(gone, Some(ErrorCode::NotFound));
    assert_eq!(
        error_code_of::<ListMembers>(node, &service_caller(), c1).await,
        Some(ErrorCode::NotFound)
    );
    let again = error_code_of::<CreateConversation>(node, &alice, group).await;
    assert_eq!(again, Some(ErrorCode::ConversationExists));
    // After the deletion the same pair gets a new conversation.
    let direct = json!({ "kind": "direct", "members": ["bob"] });
    let first = run_operation::<CreateConversation>(node, &alice, direct.clone())
        .await
        .unwrap();
    let id = json!({ "conversationId": first.conversation.id });
    run_operation::<DeleteConversation>(node, &alice, id)
        .await
        .unwrap();
    let second = run_operation::<CreateConversation>(node, &alice, direct)
        .await
        .unwrap();
    assert!(second.created);
    assert_ne!(second.conversation.id, first.conversation.id);
}

pub async fn members_are_listed_page_by_page(fixture: ConversationsFixture) {
    let node = &fixture.nodes[0];
    let many: Vec<String> = (0..120).map(|it| format!("u{it:04}")).collect();
    let group = json!({ "id": "c1", "kind": "group", "members": many });
    run_operation::<CreateConversation>(node, &service_caller(), group)
        .await
        .unwrap();
    let mut found = Vec::new();
    let mut request = json!({ "conversationId": "c1" });
    loop {
        let page = run_operation::<ListMembers>(node, &user_caller("u0007"), request.clone())
            .await
            .unwrap();
        found.extend(page.members.iter().map(|it| it.user_id.to_string()));
        let Some(cursor) = page.next_cursor else {
            break;
        };
        request["cursor"] = cursor.into();
    }
    assert_eq!(found, many);
    for wrong in [
        json!({ "cursor": "x" }),
        json!({ "limit": 0 }),
        json!({ "limit": 101 }),
    ] {
        let mut request = wrong.clone();
        request["conversationId"] = "c1".into();
        let refused = error_code_of::<ListMembers>(node, &service_caller(), request).await;
        assert_eq!(refused, Some(ErrorCode::InvalidRequest), "{wrong}");
    }
}
