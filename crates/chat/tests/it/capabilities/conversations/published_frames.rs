//! Frames published after a change: to the nodes on the conversation's channel, and to the users on their own channels.

use parlor_chat::conversations::{
    CreateConversation, DeleteConversation, JoinConversation, LeaveConversation, PutMember,
    RemoveMember,
};
use parlor_store::{BusEvent, BusSubscription};
use serde_json::{Value, json};

use super::fixture::{
    ConversationsFixture, conversation, error_code_of, run_operation, service_caller, user,
    user_caller,
};
use super::on_every_engine;

on_every_engine! {
    each_change_is_published_to_nodes_and_users;
    a_call_that_changes_nothing_publishes_nothing;
}

/// Waits for the next frame of a kind; returns its JSON.
async fn frame(subscription: &mut BusSubscription, kind: u8) -> Value {
    loop {
        let event = crate::support::with_timeout(subscription.next()).await;
        let Some(BusEvent::Message { payload, .. }) = event else {
            panic!("the subscription ended or lost messages");
        };
        match &payload[..] {
            [1, found, body @ ..] if *found == kind => {
                return serde_json::from_slice(body).unwrap();
            }
            _ => {}
        }
    }
}

pub async fn each_change_is_published_to_nodes_and_users(fixture: ConversationsFixture) {
    let bus = fixture.store.bus();
    let channel = fixture.keys.conversation_channel(&conversation("c1"));
    let mut nodes = bus.subscribe_sharded(channel.as_str()).await.unwrap();
    let channel = fixture.keys.user_channel(&user("bob"));
    let mut bob = bus.subscribe_sharded(channel.as_str()).await.unwrap();
    let node = &fixture.nodes[1];
    let group = json!({ "id": "c1", "kind": "group", "members": ["alice"] });
    run_operation::<CreateConversation>(node, &service_caller(), group)
        .await
        .unwrap();
    let created = json!({ "membersVersion": 1, "deleted": false, "members": [{ "userId": "alice", "role": "owner", "joined": true }] });
    assert_eq!(frame(&mut nodes, 6).await, created);

    let at = |role: &str| json!({ "conversationId": "c1", "userId": "bob", "role": role });
    let changes = [(2, "member", true), (3, "admin", false)];
    for (version, role, joined) in changes {
        run_operation::<PutMember>(node, &service_caller(), at(role))
            .await
            .unwrap();
        let expected = json!({ "membersVersion": version, "deleted": false, "members": [{ "userId": "bob", "role": role, "joined": joined }] });
        assert_eq!(frame(&mut nodes, 6).await, expected);
        let expected = json!({ "conversationId": "c1", "membersVersion": version, "role": role, "joined": joined });
        assert_eq!(frame(&mut bob, 8).await, expected);
    }
    run_operation::<RemoveMember>(node, &service_caller(), at("member"))
        .await
        .unwrap();
    let left = json!([{ "userId": "bob", "role": null, "joined": false }]);
    assert_eq!(frame(&mut nodes, 6).await["members"], left);
    assert_eq!(frame(&mut bob, 8).await["role"], Value::Null);
    run_operation::<PutMember>(node, &service_caller(), at("member"))
        .await
        .unwrap();
    frame(&mut nodes, 6).await;
    frame(&mut bob, 8).await;
    run_operation::<DeleteConversation>(node, &service_caller(), json!({ "conversationId": "c1" }))
        .await
        .unwrap();
    assert_eq!(frame(&mut nodes, 6).await["deleted"], true);
    assert_eq!(frame(&mut bob, 8).await["role"], Value::Null);
}

async fn a_call_that_changes_nothing_publishes_nothing(fixture: ConversationsFixture) {
    let node = &fixture.nodes[0];
    let group = json!({ "id": "c1", "kind": "group", "open": true, "members": ["alice", "bob"] });
    let direct = json!({ "kind": "direct", "members": ["alice", "bob"] });
    run_operation::<CreateConversation>(node, &service_caller(), group)
        .await
        .unwrap();
    let service = service_caller();
    let created = run_operation::<CreateConversation>(node, &service, direct.clone());
    let pair = created.await.unwrap().conversation.id;
    node.outbox().drain().await.unwrap();
    assert!(fixture.is_member_on_node(1, "c1", "bob").await);
    let generations =
        [conversation("c1"), pair.clone()].map(|id| fixture.keys.membership_generation(&id));
    let mut before = Vec::new();
    for generation in &generations {
        before.push(fixture.get_key(generation).await);
    }
    let bus = fixture.store.bus();
    let mut channels = Vec::new();
    for channel in [
        fixture.keys.conversation_channel(&conversation("c1")),
        fixture.keys.conversation_channel(&pair),
        fixture.keys.user_channel(&user("alice")),
        fixture.keys.user_channel(&user("bob")),
        fixture.keys.user_channel(&user("eve")),
    ] {
        let subscription = bus.subscribe_sharded(channel.as_str()).await.unwrap();
        channels.push((channel, subscription));
    }

    let c1 = json!({ "conversationId": "c1" });
    let put = json!({ "conversationId": "c1", "userId": "bob" });
    let eve = json!({ "conversationId": "c1", "userId": "eve" });
    let node = &fixture.nodes[1];
    let eve_caller = user_caller("eve");
    let calls = [
        error_code_of::<LeaveConversation>(node, &eve_caller, c1.clone()).await,
        error_code_of::<JoinConversation>(node, &user_caller("bob"), c1).await,
        error_code_of::<PutMember>(node, &user_caller("alice"), put).await,
        error_code_of::<RemoveMember>(node, &service_caller(), eve).await,
        error_code_of::<CreateConversation>(node, &service_caller(), direct).await,
    ];
    assert_eq!(calls, [None; 5]);

    for (channel, subscription) in &mut channels {
        bus.publish_sharded(channel.as_str(), "end").await.unwrap();
        let event = crate::support::with_timeout(subscription.next()).await;
        let Some(BusEvent::Message { payload, .. }) = event else {
            panic!("the subscription ended or lost messages");
        };
        assert_eq!(&payload[..], b"end", "{}", channel.as_str());
    }
    for (generation, before) in generations.iter().zip(before) {
        assert_eq!(fixture.get_key(generation).await, before);
    }
    assert_eq!(fixture.version("c1").await, 1);
    let cached = fixture.cached_membership("c1", "bob").await;
    assert_eq!(cached.as_deref(), Some("1"));
    assert_eq!(fixture.nodes[2].outbox().drain().await.unwrap(), 0);
}
