//! Frames published after a change: to the nodes on the conversation's channel, and to the users on their own channels.

use parlor_chat::conversations::{CreateConversation, DeleteConversation, PutMember, RemoveMember};
use parlor_store::{BusEvent, BusSubscription};
use serde_json::{Value, json};

use super::fixture::{ConversationsFixture, conversation, run_operation, service_caller, user};
use super::on_every_engine;

on_every_engine! {
    each_change_is_published_to_nodes_and_users;
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
    let changes = [
        (2, "member", true),
        (3, "admin", false),
        (3, "admin", false),
    ];
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
