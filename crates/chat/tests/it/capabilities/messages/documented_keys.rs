//! Content of the keys and channels, compared with the documentation.

use parlor_chat::keys::{RecentLayout, TtlName};
use parlor_chat::messages::NewMessage;
use parlor_testkit::eventually;
use serde_json::{Value, json};

use super::fixture::{PublishedFrame, World, c1, person, user};
use super::test_on_all_backends;

test_on_all_backends! {
    a_message_is_stored_and_told_as_documented;
    the_list_holds_a_hundred_and_every_key_is_declared;
    a_message_ends_the_typing_of_its_sender;
    a_large_conversation_tells_how_many_there_are;
}

pub async fn a_message_is_stored_and_told_as_documented(mut world: World) {
    let odd = "Ümit \"the 1st\" \\ 🙂\n";
    let new = NewMessage {
        content: odd.into(),
        metadata: Some(json!({"mentions": ["bob"], "rev": 7, "timestamp": "x"})),
        client_id: Some("k1".into()),
    };
    let messages = world.nodes[0].messages();
    let sent = messages.send(&person("alice"), &c1(), new).await.unwrap();
    assert!(!sent.is_duplicate);
    let message = serde_json::to_value(&sent.message).unwrap();
    let at = world.now().to_iso8601();
    let expected = json!({
        "id": sent.message.id, "conversationId": "c1", "seq": 1, "senderId": "alice", "content": odd,
        "metadata": {"mentions": ["bob"], "rev": 7, "timestamp": "x"}, "clientId": "k1",
        "createdAt": at, "rev": 1,
    });
    assert_eq!(message, expected);

    let mut entry = expected.clone();
    entry["timestamp"] = json!(at);
    if world.layout == RecentLayout::Conversation {
        entry["sender_role"] = json!("user");
    }
    assert_eq!(world.recent_list().await, [entry]);
    assert_eq!(world.watermark().await.unwrap()[0], 1);
    assert_eq!(world.frames().await, [PublishedFrame::Created(1, expected)]);
    let event = json!({
        "conversationId": "c1", "messageId": sent.message.id, "senderId": "alice",
        "participantIds": ["bob", "carol"],
    });
    assert_eq!(world.events(1).await, [event]);

    eventually("the participant set is filled", async || {
        let mut members = redis::cmd("SMEMBERS");
        members.arg(world.keys.participants(&c1()));
        let mut store = world.store.clone();
        let mut members: Vec<String> = members.query_async(&mut store).await.unwrap();
        members.sort();
        members == ["alice", "bob", "carol"]
    })
    .await;
}

async fn the_list_holds_a_hundred_and_every_key_is_declared(world: World) {
    for nth in 1..=105 {
        world.send(nth % 2, "alice", &nth.to_string()).await;
    }
    let seqs: Vec<Value> = world
        .recent_list()
        .await
        .iter()
        .map(|it| it["seq"].clone())
        .collect();
    assert_eq!(seqs, (6..=105).rev().map(Value::from).collect::<Vec<_>>());
    let mut scan = world.store.scan("*", 1_000);
    let mut lists = 0;
    while let Some(page) = scan.next().await.unwrap() {
        for name in page {
            let name = String::from_utf8(name.to_vec()).unwrap();
            let mut left = redis::cmd("PTTL");
            let mut store = world.store.clone();
            let left: i64 = left.arg(&name).query_async(&mut store).await.unwrap();
            let left = u64::try_from(left)
                .ok()
                .map(std::time::Duration::from_millis);
            let declared: Vec<_> = world.keys.matching_specs(name.as_bytes()).collect();
            assert_eq!(declared.len(), 1, "{name} is not declared");
            let settings = world.keys.settings();
            assert!(
                declared[0].spec.allows_ttl(settings, left),
                "{name} has {left:?}"
            );
            if name == world.keys.recent_list(&c1()).as_str() {
                let ttl = world.keys.ttl(TtlName::Recent);
                assert!(left.unwrap() <= ttl && left.unwrap() > ttl / 2, "{left:?}");
                lists += 1;
            }
        }
    }
    assert_eq!(lists, 1);
}

async fn a_message_ends_the_typing_of_its_sender(mut world: World) {
    let typing = world.nodes[1].typing();
    typing.start(&c1(), &user("alice"), None).await.unwrap();
    typing.start(&c1(), &user("bob"), None).await.unwrap();
    world.frames().await;
    world.send(0, "alice", "done").await;
    let typers = world.nodes[0].typing().typing_users(&c1()).await.unwrap();
    let typers: Vec<_> = typers.iter().map(|it| it.user_id.as_str()).collect();
    assert_eq!(typers, ["bob"]);
    let frames = world.frames().await;
    assert_eq!(frames[0], PublishedFrame::Typing("alice".into(), 0));
    assert!(
        matches!(frames[1..], [PublishedFrame::Created(1, _)]),
        "{frames:?}"
    );
    world.send(0, "alice", "again").await;
    let frames = world.frames().await;
    assert!(
        matches!(frames[..], [PublishedFrame::Created(2, _)]),
        "{frames:?}"
    );
}

async fn a_large_conversation_tells_how_many_there_are(mut world: World) {
    world.set_member_count(1_001).await;
    let message = world.send(0, "alice", "hello all").await;
    let event = json!({
        "conversationId": "c1", "messageId": message.id, "senderId": "alice",
        "participantIds": [], "participantCount": 1_001,
    });
    assert_eq!(world.events(1).await, [event]);
}
