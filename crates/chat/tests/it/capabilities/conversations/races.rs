//! Concurrent reads and changes on several nodes.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use parlor_chat::conversations::{
    CreateConversation, GetConversation, JoinConversation, LeaveConversation, PutMember,
    RemoveMember,
};
use serde_json::json;

use super::fixture::{
    ConversationsFixture, conversation, run_operation, service_caller, user_caller,
};
use super::on_every_engine;

on_every_engine! {
    no_node_returns_stale_membership_after_an_acknowledged_change;
    counts_and_versions_hold_when_many_change_at_once;
}

const ROUNDS: usize = 60;

pub async fn no_node_returns_stale_membership_after_an_acknowledged_change(
    fixture: ConversationsFixture,
) {
    let group = json!({ "id": "c1", "kind": "group", "members": ["alice"] });
    run_operation::<CreateConversation>(&fixture.nodes[0], &service_caller(), group)
        .await
        .unwrap();
    let over = AtomicBool::new(false);
    let reading = join_all((0..6).map(|nth| {
        let (fixture, over) = (&fixture, &over);
        async move {
            while !over.load(Ordering::Relaxed) {
                fixture.is_member_on_node(nth % 3, "c1", "bob").await;
                tokio::task::yield_now().await;
            }
        }
    }));
    let changing = async {
        let bob = json!({ "conversationId": "c1", "userId": "bob" });
        let c1 = conversation("c1");
        for round in 0..ROUNDS {
            let node = &fixture.nodes[round % 3];
            run_operation::<PutMember>(node, &service_caller(), bob.clone())
                .await
                .unwrap();
            for nth in 0..3 {
                assert!(
                    fixture.is_member_on_node(nth, "c1", "bob").await,
                    "round {round}, node {nth}"
                );
            }
            let node = &fixture.nodes[(round + 1) % 3];
            run_operation::<RemoveMember>(node, &service_caller(), bob.clone())
                .await
                .unwrap();
            for nth in 0..3 {
                assert!(
                    !fixture.is_member_on_node(nth, "c1", "bob").await,
                    "round {round}, node {nth}"
                );
            }
            let version = fixture.version("c1").await;
            for node in &fixture.nodes {
                let found = node.conversations().participants_at(&c1, version).await;
                assert_eq!(found.unwrap().len(), 1, "round {round}");
            }
        }
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(reading, changing);
}

pub async fn counts_and_versions_hold_when_many_change_at_once(fixture: ConversationsFixture) {
    let group = json!({ "id": "c1", "kind": "group", "open": true, "members": ["alice"] });
    run_operation::<CreateConversation>(&fixture.nodes[0], &service_caller(), group)
        .await
        .unwrap();
    let c1 = json!({ "conversationId": "c1" });
    join_all((0..24).map(|nth| {
        let (node, c1) = (&fixture.nodes[nth % 3], c1.clone());
        async move {
            let who = user_caller(&format!("u{nth:02}"));
            run_operation::<JoinConversation>(node, &who, c1.clone())
                .await
                .unwrap();
            if nth % 3 == 0 {
                run_operation::<LeaveConversation>(node, &who, c1)
                    .await
                    .unwrap();
            }
        }
    }))
    .await;
    let head = run_operation::<GetConversation>(&fixture.nodes[0], &service_caller(), c1)
        .await
        .unwrap();
    assert_eq!(head.member_count, 17);
    assert_eq!(fixture.members("c1").await.len(), 17);
    assert_eq!(fixture.version("c1").await, 1 + 24 + 8);
    for nth in 0..24 {
        let who = format!("u{nth:02}");
        assert_eq!(
            fixture.is_member_on_node(nth % 3, "c1", &who).await,
            nth % 3 != 0,
            "{who}"
        );
    }
}
