//! Read receipts: how far members have received and read messages.

use serde_json::json;

use super::fixture::{World, conversation, next, user};
use super::on_both;

on_both! {
    receipts_only_rise;
    receipts_are_told_to_the_conversation;
    receipts_are_paged;
}

async fn delivery(world: &World, who: &str) -> Option<u64> {
    let key = world.keys.delivered_seq(&conversation("c1"), &user(who));
    let get = redis::cmd("GET").arg(key).take();
    get.query_async(&mut world.store.clone()).await.unwrap()
}

pub async fn receipts_only_rise(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    for _ in 0..5 {
        world.send("c1", "alice").await;
    }
    let (bob, c1, node) = (user("bob"), conversation("c1"), world.node());
    let reached = async || {
        let page = node.receipts(&c1, None, 10).await.unwrap();
        let bob = page.receipts.into_iter().find(|it| it.user_id == bob);
        let bob = bob.unwrap();
        (bob.delivered_seq, bob.read_seq)
    };
    let badge = node.delivered(&bob, &c1, Some(3)).await.unwrap();
    assert_eq!(
        (badge.unread, badge.total),
        (5, 5),
        "a delivered message is still unread"
    );
    assert_eq!(reached().await, (3, 0));
    assert_eq!(delivery(&world, "bob").await, Some(3));
    node.delivered(&bob, &c1, Some(2)).await.unwrap();
    assert_eq!(reached().await, (3, 0));
    node.read(&bob, &c1, Some(2)).await.unwrap();
    assert_eq!(reached().await, (3, 2));
    assert_eq!(delivery(&world, "bob").await, Some(3));
    node.read(&bob, &c1, Some(4)).await.unwrap();
    assert_eq!(reached().await, (4, 4), "a read message is also delivered");
    assert_eq!(delivery(&world, "bob").await, Some(4));
    node.mark_unread(&bob, &c1, 1).await.unwrap();
    assert_eq!(
        reached().await,
        (4, 4),
        "marking as unread does not change receipts"
    );
    node.read(&bob, &c1, Some(2)).await.unwrap();
    assert_eq!(reached().await, (4, 4));
    node.delivered(&bob, &c1, Some(u64::MAX)).await.unwrap();
    assert_eq!(
        reached().await,
        (5, 4),
        "a position never passes the last message"
    );
    let ttl = redis::cmd("PTTL")
        .arg(world.keys.delivered_seq(&c1, &bob))
        .take();
    let left: u64 = ttl.query_async(&mut world.store.clone()).await.unwrap();
    assert!((3_000_000..=3_600_000).contains(&left), "{left}");
}

pub async fn receipts_are_told_to_the_conversation(world: World) {
    world.group("c1", &["alice", "bob"]).await;
    let (bob, c1) = (user("bob"), conversation("c1"));
    let channel = world.keys.conversation_channel(&c1);
    let frames = world.store.bus().subscribe_sharded(channel.as_str());
    let mut frames = frames.await.unwrap();
    world.send("c1", "alice").await;
    world.send("c1", "alice").await;
    let frame = |delivered: u64, read: u64, moved: &str| {
        let body = json!({"conversationId": "c1", "userId": "bob", "deliveredSeq": delivered, "readSeq": read, "moved": moved});
        (5, body)
    };
    world.node().delivered(&bob, &c1, None).await.unwrap();
    assert_eq!(next(&mut frames).await, frame(2, 0, "delivered"));
    world.node().delivered(&bob, &c1, Some(1)).await.unwrap();
    world.node().read(&bob, &c1, Some(1)).await.unwrap();
    assert_eq!(
        next(&mut frames).await,
        frame(2, 1, "read"),
        "a position that did not rise is not published"
    );
}

pub async fn receipts_are_paged(world: World) {
    let members = ["alice", "bob", "carol", "dave", "erin"];
    world.group("c1", &members).await;
    let c1 = conversation("c1");
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = world
            .node()
            .receipts(&c1, cursor.as_ref(), 2)
            .await
            .unwrap();
        assert!(page.receipts.len() <= 2);
        found.extend(page.receipts.iter().map(|it| it.user_id.to_string()));
        match page.next_cursor {
            Some(next) => cursor = Some(user(&next)),
            None => break,
        }
    }
    assert_eq!(found, members);
}
