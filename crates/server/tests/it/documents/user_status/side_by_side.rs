//! The service of online statuses and Parlor serve the same users at the same time.

use parlor_testkit::eventually;
use serde_json::json;

use super::DOCUMENT;
use super::status::{get, heartbeats_are_written, open_parlor, parlor, set, ttl, value};
use crate::documents::old_service::OldService;
use crate::documents::side_by_side::SideBySide;

#[tokio::test]
async fn the_status_service_and_parlor_see_each_others_users() {
    let mut run = SideBySide::start_after(&DOCUMENT, async |old| {
        // Before Parlor ever starts.
        old.call("setOffline", json!(["ada"])).await;
    })
    .await;
    open_parlor(&run).await;
    the_offline_of_the_old_service_stays(&run).await;
    a_user_of_both_sides_stays_online_while_one_side_wants_it(&run).await;
    each_side_hides_a_user_of_the_other(&run).await;
    an_old_service_that_stops_takes_no_user_of_parlor_with_it(&run).await;
    a_parlor_that_stops_takes_no_user_of_the_old_service_with_it(&mut run).await;
    run.finish().await;
}

async fn the_offline_of_the_old_service_stays(run: &SideBySide) {
    assert_eq!(get(run, "ada").await, "OFFLINE");
    parlor(run, "SendHeartbeat", json!({ "user_id": "ada" })).await;
    heartbeats_are_written(run).await;
    assert_eq!(value(run, "ada").await, "offline");
    assert!(ttl(run, "ada").await > 86_000);
    // The user is set online, which is what ends it.
    eventually("the key is read in time", async || {
        set(run, "ada", "ONLINE").await;
        run.old.call("status", json!(["ada"])).await == "online"
    })
    .await;
}

async fn a_user_of_both_sides_stays_online_while_one_side_wants_it(run: &SideBySide) {
    // Parlor leaves first.
    eventually("the key is read in time", async || {
        run.old.call("setOnline", json!(["bea"])).await;
        let client = run.connect("bea").await;
        client.disconnect().await.unwrap();
        eventually("Parlor has removed its device", async || {
            let bea = run.presence("bea").await;
            bea["status"] == "offline" || bea["external"] == true
        })
        .await;
        run.presence("bea").await["external"] == true && value(run, "bea").await == "online"
    })
    .await;
    // A heartbeat over gRPC extends what the old service has set.
    eventually("the key is extended before it expires", async || {
        run.old.call("setOnline", json!(["bea"])).await;
        run.old.run("EXPIRE user:status:bea 20").await;
        parlor(run, "SendHeartbeat", json!({ "user_id": "bea" })).await;
        heartbeats_are_written(run).await;
        ttl(run, "bea").await > 20
    })
    .await;
    // The user of a connection stays online without the old service.
    let client = run.connect("cy").await;
    eventually("the old service reads cy", async || {
        run.old.call("status", json!(["cy"])).await == "online"
    })
    .await;
    client.disconnect().await.unwrap();
    eventually("cy is offline", async || value(run, "cy").await.is_null()).await;
}

async fn each_side_hides_a_user_of_the_other(run: &SideBySide) {
    // The old service hides a user who is connected to Parlor: both read offline, and the connection changes nothing.
    let mut client = run.connect("dan").await;
    run.old.call("setOffline", json!(["dan"])).await;
    assert_eq!(get(run, "dan").await, "OFFLINE");
    crate::socketio::emit_ok(&mut client, "heartbeat", json!({})).await;
    heartbeats_are_written(run).await;
    assert_eq!(value(run, "dan").await, "offline");
    // The old service shows the user again.
    run.old.call("setOnline", json!(["dan"])).await;
    crate::socketio::emit_ok(&mut client, "heartbeat", json!({})).await;
    heartbeats_are_written(run).await;
    assert_eq!(get(run, "dan").await, "ONLINE");
    // The user shows up again through Parlor, which knows this status already.
    run.old.call("setOffline", json!(["dan"])).await;
    let online = json!({ "status": "online" });
    crate::socketio::emit_ok(&mut client, "presence:set", online).await;
    assert_eq!(run.old.call("status", json!(["dan"])).await, "online");
    // Parlor hides a user that the old service has set online.
    run.old.call("setOnline", json!(["eli"])).await;
    set(run, "eli", "OFFLINE").await;
    assert_eq!(run.old.call("status", json!(["eli"])).await, "offline");
    assert_eq!(run.old.call("heartbeat", json!(["eli"])).await, false);
    client.disconnect().await.unwrap();
}

async fn an_old_service_that_stops_takes_no_user_of_parlor_with_it(run: &SideBySide) {
    let _fay = run.connect("fay").await;
    let second = OldService::start(DOCUMENT.program, &run.redis).await;
    second.call("setOffline", json!(["gus"])).await;
    drop(second);
    assert_eq!(get(run, "fay").await, "ONLINE");
    assert_eq!(get(run, "gus").await, "OFFLINE");
    assert!(ttl(run, "gus").await > 86_000);
}

async fn a_parlor_that_stops_takes_no_user_of_the_old_service_with_it(run: &mut SideBySide) {
    set(run, "hal", "OFFLINE").await;
    let _both = [run.connect("ida").await, run.connect("jon").await];
    run.old.call("setOnline", json!(["ida"])).await;
    run.old.run("EXPIRE user:status:ida 3600").await;
    run.stop_parlor().await;
    let status = async |user: &str| run.old.call("status", json!([user])).await;
    assert_eq!(status("ida").await, "online");
    assert!(ttl(run, "ida").await > 3_000);
    // The key of a user who was connected to Parlor only ends with the grace period.
    eventually("jon is offline", async || status("jon").await == "offline").await;
    // The status that a user has set stays.
    assert_eq!(value(run, "hal").await, "offline");
    assert!(ttl(run, "hal").await > 86_000);
    run.restart_parlor().await;
    open_parlor(run).await;
    assert_eq!(get(run, "ida").await, "ONLINE");
    assert_eq!(get(run, "jon").await, "OFFLINE");
    assert_eq!(get(run, "hal").await, "OFFLINE");
    run.old.run("DEL user:status:ida").await;
}
