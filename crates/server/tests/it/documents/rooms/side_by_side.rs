//! The gateway of the rooms and Parlor serve the same users at the same time.

use parlor_testkit::eventually;
use serde_json::json;

use super::DOCUMENT;
use super::membership::is_member;
use crate::documents::old_service::OldService;
use crate::documents::side_by_side::SideBySide;
use crate::socketio::emit_ok;

#[tokio::test]
async fn the_rooms_gateway_and_parlor_see_each_others_users() {
    let mut run = SideBySide::start_after(&DOCUMENT, async |old| {
        // Before Parlor ever starts.
        old.call("connect", json!(["ada", "old-1"])).await;
        old.call("join", json!(["room-1", "ada"])).await;
        assert_eq!(old.call("isMember", json!(["room-1", "ada"])).await, true);
    })
    .await;
    users_from_before_are_online(&run).await;
    heartbeats_of_both_sides_keep_both_fields(&run).await;
    an_old_gateway_that_stops_takes_no_user_of_parlor_with_it(&run).await;
    a_parlor_that_stops_takes_no_user_of_the_old_gateway_with_it(&mut run).await;
    run.finish().await;
}

async fn fields(run: &SideBySide, user: &str) -> usize {
    let fields = run.old.run(&format!("HKEYS presence:user:{user}")).await;
    fields.as_array().unwrap().len()
}

async fn users_from_before_are_online(run: &SideBySide) {
    let ada = run.presence("ada").await;
    assert_eq!(
        (&ada["status"], &ada["external"]),
        (&json!("online"), &json!(true))
    );
    let mut watcher = run.connect("watcher").await;
    let body = json!({ "userIds": ["ada"] });
    let watched = emit_ok(&mut watcher, "presence:watch", body).await;
    assert_eq!(watched["users"][0]["external"], true);
    assert_eq!(run.old.call("isOnline", json!(["watcher"])).await, true);
    // The room is the old service's: Parlor knows no member, and leaves the answer of its cache.
    assert!(!is_member(run, "room-1", "ada").await);
    assert_eq!(
        run.old.call("isMember", json!(["room-1", "ada"])).await,
        true
    );
}

async fn heartbeats_of_both_sides_keep_both_fields(run: &SideBySide) {
    let mut ada = run.connect("ada").await;
    assert_eq!(fields(run, "ada").await, 2);
    assert_eq!(run.presence("ada").await.get("external"), None);
    for _ in 0..3 {
        run.old.call("heartbeat", json!(["ada", "old-1"])).await;
        let before = run.old.run("HGETALL presence:user:ada").await;
        emit_ok(&mut ada, "heartbeat", json!({})).await;
        eventually("the heartbeat of Parlor is written", async || {
            run.old.run("HGETALL presence:user:ada").await != before
        })
        .await;
        let of_old = run.old.run("HGET presence:user:ada old-1").await;
        assert!(
            of_old.as_str().unwrap().starts_with(r#"{"refreshedAt":"#),
            "{of_old}"
        );
        assert_eq!(fields(run, "ada").await, 2);
    }
    ada.disconnect().await.unwrap();
    eventually("Parlor has removed its field", async || {
        fields(run, "ada").await == 1
    })
    .await;
    assert_eq!(run.old.call("isOnline", json!(["ada"])).await, true);
    assert_eq!(run.presence("ada").await["external"], true);
}

async fn an_old_gateway_that_stops_takes_no_user_of_parlor_with_it(run: &SideBySide) {
    let _bea = run.connect("bea").await;
    let second = OldService::start(DOCUMENT.program, &run.redis).await;
    second.call("connect", json!(["bea", "old-2"])).await;
    second.call("connect", json!(["cy", "old-2"])).await;
    // Its fields stay until the TTL ends.
    drop(second);
    for user in ["bea", "cy"] {
        assert_eq!(run.presence(user).await["status"], "online", "{user}");
    }
    // Another gateway of the old service cleans up.
    run.old.call("disconnect", json!(["bea", "old-2"])).await;
    run.old.call("disconnect", json!(["cy", "old-2"])).await;
    assert_eq!(run.presence("bea").await["status"], "online");
    assert_eq!(run.old.call("isOnline", json!(["bea"])).await, true);
    assert_eq!(run.presence("cy").await["status"], "offline");
}

async fn a_parlor_that_stops_takes_no_user_of_the_old_gateway_with_it(run: &mut SideBySide) {
    run.old.call("connect", json!(["dan", "old-1"])).await;
    let _both = [run.connect("dan").await, run.connect("eli").await];
    run.stop_parlor().await;
    let is_online = async |user: &str| run.old.call("isOnline", json!([user])).await;
    assert_eq!(is_online("dan").await, true);
    // The hash of a user who was connected to Parlor only ends with the grace period.
    eventually("eli is offline", async || is_online("eli").await == false).await;
    run.restart_parlor().await;
    eventually("the lost connections are removed", async || {
        fields(run, "dan").await == 1
    })
    .await;
    assert_eq!(run.presence("dan").await["external"], true);
    assert_eq!(run.presence("eli").await["status"], "offline");
    let left = run.old.run("TTL presence:user:dan").await.as_i64().unwrap();
    assert!((1..=60).contains(&left), "{left}");
}
