//! The chat application and Parlor serve the same users at the same time.

use parlor_testkit::{SocketIoTestClient, eventually};
use serde_json::{Value, json};

use super::DOCUMENT;
use crate::documents::old_service::OldService;
use crate::documents::side_by_side::SideBySide;
use crate::socketio::emit_ok;

#[tokio::test]
async fn the_chat_application_and_parlor_see_each_others_users() {
    let mut run = SideBySide::start_after(&DOCUMENT, async |old| {
        // Before Parlor ever starts.
        old.call("setOnline", json!(["ada"])).await;
        let ran = old.call("runJob", json!(["unread-reminder", 7_200_000]));
        assert_eq!(ran.await, "run");
    })
    .await;
    users_from_before_are_online(&run).await;
    a_user_on_both_sides_is_online_until_the_last_one_is_gone(&run).await;
    a_disconnect_from_the_old_service_is_healed_by_the_next_heartbeat(&run).await;
    an_old_service_that_stops_takes_no_user_of_parlor_with_it(&run).await;
    a_parlor_that_stops_takes_no_user_of_the_old_service_with_it(&mut run).await;
    let ran = run
        .old
        .call("runJob", json!(["unread-reminder", 7_200_000]));
    assert_eq!(ran.await, "skipped");
    run.finish().await;
}

async fn watch(watcher: &mut SocketIoTestClient, user: &str) -> Value {
    let reply = emit_ok(watcher, "presence:watch", json!({ "userIds": [user] })).await;
    reply["users"][0].clone()
}

async fn users_from_before_are_online(run: &SideBySide) {
    let ada = run.presence("ada").await;
    assert_eq!(
        (&ada["status"], &ada["external"]),
        (&json!("online"), &json!(true))
    );
    let mut watcher = run.connect("watcher").await;
    let ada = watch(&mut watcher, "ada").await;
    assert_eq!(
        (&ada["status"], &ada["external"]),
        (&json!("online"), &json!(true))
    );
    let targets = run
        .old
        .call("pushTargets", json!([["ada", "watcher", "eve"]]));
    assert_eq!(targets.await, json!(["eve"]));
}

async fn a_user_on_both_sides_is_online_until_the_last_one_is_gone(run: &SideBySide) {
    // Parlor leaves first: the document lives as long as the old service wanted.
    let ada = run.connect("ada").await;
    assert_eq!(run.presence("ada").await.get("external"), None);
    ada.disconnect().await.unwrap();
    eventually("Parlor knows ada from the old service only", async || {
        run.presence("ada").await["external"] == true
    })
    .await;
    assert_eq!(run.old.call("status", json!(["ada"])).await, "online");
    let left = run.old.run("TTL presence:ada").await.as_i64().unwrap();
    assert!((200..=300).contains(&left), "{left}");
    // The old service leaves first and deletes the document. Without a device, Parlor reads offline as well.
    run.old.call("disconnect", json!(["ada"])).await;
    eventually("ada is offline", async || {
        run.presence("ada").await["status"] == "offline"
    })
    .await;
}

async fn a_disconnect_from_the_old_service_is_healed_by_the_next_heartbeat(run: &SideBySide) {
    let mut bea = run.connect("bea").await;
    run.old.call("setOnline", json!(["bea"])).await;
    run.old.call("disconnect", json!(["bea"])).await;
    assert_eq!(run.presence("bea").await["status"], "online");
    emit_ok(&mut bea, "heartbeat", json!({})).await;
    eventually("the document is back", async || {
        run.old.call("status", json!(["bea"])).await == "online"
    })
    .await;
    bea.disconnect().await.unwrap();
    eventually("bea is offline", async || {
        run.old.call("status", json!(["bea"])).await == "offline"
    })
    .await;
}

async fn an_old_service_that_stops_takes_no_user_of_parlor_with_it(run: &SideBySide) {
    let cy = run.connect("cy").await;
    let second = OldService::start(DOCUMENT.program, &run.redis).await;
    second.call("setOnline", json!(["dan"])).await;
    drop(second);
    // The document of a service that has died lives until its TTL ends.
    for user in ["cy", "dan"] {
        assert_eq!(run.presence(user).await["status"], "online", "{user}");
        assert_eq!(
            run.old.call("status", json!([user])).await,
            "online",
            "{user}"
        );
    }
    cy.disconnect().await.unwrap();
}

async fn a_parlor_that_stops_takes_no_user_of_the_old_service_with_it(run: &mut SideBySide) {
    run.old.call("setOnline", json!(["eli"])).await;
    let _both = [run.connect("eli").await, run.connect("fay").await];
    run.stop_parlor().await;
    let status = async |user: &str| run.old.call("status", json!([user])).await;
    assert_eq!(status("eli").await, "online");
    let left = run.old.run("TTL presence:eli").await.as_i64().unwrap();
    assert!((200..=300).contains(&left), "{left}");
    // The document of a user who was connected to Parlor only ends with the grace period.
    eventually("fay is offline", async || status("fay").await == "offline").await;
    run.restart_parlor().await;
    assert_eq!(run.presence("eli").await["external"], true);
    assert_eq!(run.presence("fay").await["status"], "offline");
}
