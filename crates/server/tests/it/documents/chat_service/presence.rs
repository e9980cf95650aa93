//! Checks of sections 1 and 7: online flag, sockets, owner of a socket, last activity.

use parlor_testkit::eventually;
use redis::AsyncCommands;
use serde_json::json;

use crate::documents::side_by_side::SideBySide;

/// A connection to Parlor sets the flag and removes it, and the old service reads it.
pub(super) async fn flag_follows_connections(run: &SideBySide) {
    let old = &run.old;
    assert_eq!(old.call("isUserOnline", json!(["ann"])).await, false);
    let ann = run.connect("ann").await;
    assert_eq!(old.run("GET user:ann:online").await, "true");
    assert_eq!(old.run("TTL user:ann:online").await, -1);
    assert_eq!(old.run("TYPE user:ann:online").await, "string");
    ann.disconnect().await.unwrap();
    eventually("ann is offline", async || {
        old.run("GET user:ann:online").await == "false"
    })
    .await;
    assert_eq!(old.call("isUserOnline", json!(["ann"])).await, false);
}

/// The flag that the old service sets is read by Parlor, in both directions.
pub(super) async fn flag_of_the_old_service_is_read(run: &SideBySide) {
    let user = "507f1f77bcf86cd799439011";
    run.old
        .run(r#"SET user:507f1f77bcf86cd799439011:online "true""#)
        .await;
    assert_eq!(
        run.old
            .run("GET user:507f1f77bcf86cd799439011:online")
            .await,
        "true"
    );
    let presence = run.presence(user).await;
    assert_eq!(
        (&presence["status"], &presence["external"]),
        (&json!("online"), &json!(true))
    );
    run.old
        .run(r#"SET user:507f1f77bcf86cd799439011:online "false""#)
        .await;
    assert_eq!(run.presence(user).await["status"], "offline");
}

/// Each connection is a member, also two of one device.
pub(super) async fn each_connection_is_a_member(run: &SideBySide) {
    let tabs = [run.connect("ben").await, run.connect("ben").await];
    let mut keys = run.keys.clone();
    let members: Vec<String> = keys.smembers("user:ben:sockets").await.unwrap();
    assert_eq!(members.len(), 2, "{members:?}");
    for tab in &tabs {
        let socket = tab.connect_payload["sid"].as_str().unwrap();
        assert!(
            members.iter().any(|it| it == socket),
            "{socket}: {members:?}"
        );
    }
    assert_eq!(run.old.run("TYPE user:ben:sockets").await, "set");
    assert_eq!(run.old.run("TTL user:ben:sockets").await, -1);
}

/// Sockets of both sides are in the set, each side removes its own, and the last one ends the user's presence.
pub(super) async fn both_sides_add_and_remove_their_sockets(run: &SideBySide) {
    let old = &run.old;
    let user = "507f1f77bcf86cd799439012";
    let key = format!("user:{user}:sockets");
    old.run(&format!(r#"SADD {key} "abc123socketId""#)).await;
    old.run(&format!(r#"SADD {key} "def456socketId""#)).await;
    old.run(&format!("SET user:{user}:online true")).await;
    let tab = run.connect(user).await;
    assert_eq!(old.run(&format!("SCARD {key}")).await, 3);
    tab.disconnect().await.unwrap();
    eventually("Parlor has removed its socket", async || {
        old.run(&format!("SCARD {key}")).await == 2
    })
    .await;
    let members = old.run(&format!("SMEMBERS {key}")).await;
    for socket in ["abc123socketId", "def456socketId"] {
        assert!(
            members.as_array().unwrap().contains(&json!(socket)),
            "{members}"
        );
    }
    assert_eq!(old.call("isUserOnline", json!([user])).await, true);
    assert_eq!(run.presence(user).await["external"], true);
}

/// The key exists for each socket of Parlor, and is gone with it.
pub(super) async fn owner_of_a_socket_is_found(run: &SideBySide) {
    let tab = run.connect("cleo").await;
    let socket = tab.connect_payload["sid"].as_str().unwrap().to_owned();
    assert_eq!(run.old.call("userOfSocket", json!([socket])).await, "cleo");
    let key = format!("socket:{socket}:user");
    assert_eq!(run.old.run(&format!("TYPE {key}")).await, "string");
    tab.disconnect().await.unwrap();
    eventually("the key is gone with its socket", async || {
        run.old.run(&format!("GET {key}")).await.is_null()
    })
    .await;
}

/// The keys of the old service's sockets stay as they are.
pub(super) async fn owners_of_foreign_sockets_stay(run: &SideBySide) {
    let old = &run.old;
    old.run(r#"SET socket:abc123socketId:user "cyd""#).await;
    old.call("addUserSocket", json!(["cyd", "abc123socketId"]))
        .await;
    let tab = run.connect("cyd").await;
    tab.disconnect().await.unwrap();
    eventually("Parlor's socket is gone", async || {
        old.run("SCARD user:cyd:sockets").await == 1
    })
    .await;
    assert_eq!(old.run("GET socket:abc123socketId:user").await, "cyd");
}
