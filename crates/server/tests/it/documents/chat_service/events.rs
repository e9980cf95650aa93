//! Checks of section 6: channels.

use serde_json::json;

use crate::documents::side_by_side::SideBySide;

const CREATED: &str = "events:message.created";

/// A notification service receives the messages of Parlor.
pub(super) async fn messages_are_announced(run: &SideBySide) {
    run.old.subscribe(CREATED).await;
    run.conversation("events1", &["lea", "leo", "liz"]).await;
    let sent = run.send("events1", "lea", "hello").await.created();
    let event = run
        .old
        .next_message(CREATED, |it| it["conversationId"] == "events1")
        .await;
    assert_eq!(
        (&event["messageId"], &event["senderId"]),
        (&sent["id"], &json!("lea"))
    );
    let mut others: Vec<&str> = event["participantIds"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it.as_str())
        .collect();
    others.sort_unstable();
    assert_eq!(
        others,
        ["leo", "liz"],
        "a push goes to everybody but the sender"
    );
    assert_eq!(event.as_object().unwrap().len(), 4, "{event}");
}

/// PUBLISH and SUBSCRIBE of the document; one subscriber receives the events of both sides.
pub(super) async fn both_sides_announce_messages(run: &SideBySide) {
    run.old.subscribe(CREATED).await;
    let event = r#"{"conversationId":"conv123","messageId":"msg456","senderId":"user789","participantIds":["user1","user2"]}"#;
    let receivers = run.old.run(&format!("PUBLISH {CREATED} '{event}'")).await;
    assert_eq!(
        receivers, 1,
        "the old service itself; Parlor does not listen"
    );
    run.old
        .next_message(CREATED, |it| it["messageId"] == "msg456")
        .await;
}

/// One event when the first connection opens, one when the last is closed.
pub(super) async fn presence_is_announced_once(run: &SideBySide) {
    for channel in ["events:user.online", "events:user.offline"] {
        run.old.subscribe(channel).await;
    }
    let tabs = [run.connect("mia").await, run.connect("mia").await];
    let is_mia = |it: &serde_json::Value| it["userId"] == "mia";
    let online = run.old.next_message("events:user.online", is_mia).await;
    for tab in tabs {
        tab.disconnect().await.unwrap();
    }
    let offline = run.old.next_message("events:user.offline", is_mia).await;
    let time = |event: &serde_json::Value| event["timestamp"].as_str().unwrap().to_owned();
    assert!(time(&online).ends_with('Z') && time(&online) <= time(&offline));
    assert!(online["version"].as_u64() < offline["version"].as_u64());
    let rest = run.old.rest("events:user.online");
    assert!(!rest.iter().any(is_mia), "{rest:?}");
}

/// A user with sockets at both sides goes online and offline once for all subscribers.
pub(super) async fn presence_of_both_sides_is_announced_once(run: &SideBySide) {
    for channel in ["events:user.online", "events:user.offline"] {
        run.old.subscribe(channel).await;
    }
    run.old.call("addUserSocket", json!(["moe", "moe-1"])).await;
    let tab = run.connect("moe").await;
    tab.disconnect().await.unwrap();
    run.old.wait_for("SCARD user:moe:sockets", 1).await;
    run.old
        .call("removeUserSocket", json!(["moe", "moe-1"]))
        .await;
    let is_moe = |it: &serde_json::Value| it["userId"] == "moe";
    for channel in ["events:user.online", "events:user.offline"] {
        run.old.next_message(channel, is_moe).await;
        let rest = run.old.rest(channel);
        assert!(!rest.iter().any(is_moe), "{channel}: {rest:?}");
    }
}

/// The publisher's examples of the document.
pub(super) async fn events_of_the_old_service_reach_its_subscribers(run: &SideBySide) {
    presence_of_both_sides_is_announced_once(run).await;
    for (event, time) in [("online", "10:00"), ("offline", "10:05")] {
        let channel = format!("events:user.{event}");
        let body = format!(r#"{{"userId":"user123","timestamp":"2025-11-16T{time}:00Z"}}"#);
        assert_eq!(run.old.run(&format!("PUBLISH {channel} '{body}'")).await, 1);
        run.old
            .next_message(&channel, |it| it["userId"] == "user123")
            .await;
    }
}

/// The function of the document, beside an event of Parlor on the same channel.
pub(super) async fn a_published_message_reaches_the_subscriber(run: &SideBySide) {
    run.old.subscribe(CREATED).await;
    let event = json!({
        "conversationId": "conv127", "messageId": "msg457", "senderId": "user789", "participantIds": ["user1", "user2"],
    });
    run.old.call("publishMessageCreated", json!([event])).await;
    let received = run
        .old
        .next_message(CREATED, |it| it["messageId"] == "msg457")
        .await;
    assert_eq!(received, event);
}
