//! Another service writes the keys of the layouts `status` and `document`, with the commands of its document.

use std::time::Duration;

use parlor_chat::presence::PresenceStatus;

use super::fixture::{api_device, socket_device, user};
use super::other_services::{EXTERNAL, OFFLINE, ONLINE, SharedStore, beside_services};

const TEN_SECONDS: Duration = Duration::from_secs(10);

beside_services! { UserStatus:
    an_explicit_offline_stays_a_day_without_a_device;
    a_heartbeat_registers_nobody;
    a_heartbeat_extends_what_another_service_set_online;
    a_heartbeat_keeps_the_offline_of_another_service;
    a_user_kept_alive_by_another_service_stays_online;
    a_disconnect_keeps_the_lease_of_another_service;
    an_offline_ends_the_lease_of_another_service;
    a_status_that_a_user_sets_replaces_that_of_another_service;
}

beside_services! { ChatApp:
    the_document_of_another_service_keeps_its_lease;
    the_later_document_of_another_service_stays;
}

/// Value and remaining seconds of Alice's status.
async fn stored(shared: &SharedStore) -> (Option<String>, i64) {
    let value = shared.run("GET user:status:<>").await;
    (value, shared.run("TTL user:status:<>").await)
}

async fn an_explicit_offline_stays_a_day_without_a_device(shared: SharedStore) {
    let node = &shared.0.nodes[0];
    let hide = async || {
        let hidden = node
            .set_status(&user("alice"), PresenceStatus::Offline)
            .await;
        assert_eq!(hidden.unwrap().status, PresenceStatus::Offline);
    };
    hide().await;
    let (value, left) = stored(&shared).await;
    assert_eq!(value.as_deref(), Some("offline"));
    assert!(left > 86_000, "{left}");
    // Set online, then hidden, then gone: the key stays.
    let phone = api_device("alice", "phone");
    node.connect_visible(phone.clone()).await.unwrap();
    assert_eq!(stored(&shared).await.0.as_deref(), Some("online"));
    hide().await;
    shared.0.pass(shared.0.ttl() + TEN_SECONDS).await;
    shared.0.run_background_once().await;
    let (value, left) = stored(&shared).await;
    assert_eq!(value.as_deref(), Some("offline"));
    assert!(left > 86_000, "{left}");
    node.connect(phone).await.unwrap();
    assert_eq!(stored(&shared).await.0.as_deref(), Some("online"));
    let many: Vec<Option<String>> = shared.run("MGET user:status:<>").await;
    assert_eq!(many, [Some("online".to_owned())]);
}

async fn a_heartbeat_registers_nobody(mut shared: SharedStore) {
    shared.0.nodes[0]
        .heartbeat(&api_device("alice", "api"))
        .unwrap();
    shared.0.run_background_once().await;
    assert_eq!(stored(&shared).await.0, None);
    assert_eq!(shared.status().await, OFFLINE);
    assert_eq!(shared.0.nodes[0].count().await.unwrap(), 0);
    assert_eq!(shared.0.drain_event_names().await, Vec::<String>::new());
}

async fn a_heartbeat_extends_what_another_service_set_online(shared: SharedStore) {
    let _: () = shared.run("SET user:status:<> online EX 30").await;
    for _ in 0..6 {
        shared.0.pass(TEN_SECONDS).await;
        let api = api_device("alice", "api");
        shared.0.nodes[0].heartbeat(&api).unwrap();
        shared.0.run_background_once().await;
    }
    assert_eq!(stored(&shared).await.0.as_deref(), Some("online"));
    assert_eq!(shared.status().await, EXTERNAL);
}

async fn a_heartbeat_keeps_the_offline_of_another_service(shared: SharedStore) {
    let api = api_device("alice", "api");
    shared.0.nodes[0]
        .connect_visible(api.clone())
        .await
        .unwrap();
    let _: () = shared.run("SET user:status:<> offline EX 86400").await;
    assert_eq!(shared.status().await, OFFLINE);
    shared.0.nodes[0].heartbeat(&api).unwrap();
    shared.0.run_background_once().await;
    let (value, left) = stored(&shared).await;
    assert_eq!(value.as_deref(), Some("offline"));
    assert!(left > 86_000, "{left}");
    assert_eq!(shared.status().await, OFFLINE);
    // The other service sets the user online again.
    let _: () = shared.run("SET user:status:<> online EX 30").await;
    shared.0.nodes[0].heartbeat(&api).unwrap();
    shared.0.run_background_once().await;
    assert_eq!(shared.status().await, ONLINE);
}

async fn a_user_kept_alive_by_another_service_stays_online(mut shared: SharedStore) {
    let api = api_device("alice", "api");
    shared.0.nodes[0].connect_visible(api).await.unwrap();
    for _ in 0..9 {
        shared.0.pass(TEN_SECONDS).await;
        let extended: bool = shared.run("EXPIRE user:status:<> 30").await;
        assert!(extended);
        shared.0.run_background_once().await;
    }
    assert_eq!(shared.status().await, EXTERNAL);
    assert_eq!(shared.0.drain_event_names().await, ["online alice"]);
    shared.0.pass(shared.0.ttl() + TEN_SECONDS).await;
    shared.0.run_background_once().await;
    assert_eq!(shared.status().await, OFFLINE);
    assert_eq!(shared.0.drain_event_names().await, ["offline alice"]);
}

async fn a_disconnect_keeps_the_lease_of_another_service(shared: SharedStore) {
    let phone = socket_device("alice", "s1");
    let node = &shared.0.nodes[0];
    node.connect(phone.clone()).await.unwrap();
    shared.0.pass(TEN_SECONDS).await;
    let _: bool = shared.run("EXPIRE user:status:<> 30").await;
    shared.0.pass(TEN_SECONDS).await;
    node.heartbeat(&phone).unwrap();
    shared.0.run_background_once().await;
    node.disconnect(&phone).await.unwrap();
    let (value, left) = stored(&shared).await;
    assert_eq!(value.as_deref(), Some("online"));
    assert!(left <= 20, "{left}");
    assert_eq!(shared.status().await, EXTERNAL);
    // Without another service, the key ends with the last device.
    shared.0.pass(shared.0.ttl()).await;
    shared.0.run_background_once().await;
    node.connect(phone.clone()).await.unwrap();
    node.disconnect(&phone).await.unwrap();
    assert_eq!(stored(&shared).await.0, None);
}

async fn an_offline_ends_the_lease_of_another_service(shared: SharedStore) {
    let (alice, phone) = (user("alice"), socket_device("alice", "s1"));
    let node = &shared.0.nodes[0];
    for by_parlor in [true, false] {
        let _: () = shared.run("SET user:status:<> online EX 30").await;
        node.connect(phone.clone()).await.unwrap();
        if by_parlor {
            let hidden = node.set_status(&alice, PresenceStatus::Offline);
            hidden.await.unwrap();
        } else {
            let _: () = shared.run("SET user:status:<> offline EX 86400").await;
        }
        let shown = node.set_status(&alice, PresenceStatus::Online);
        shown.await.unwrap();
        assert_eq!(stored(&shared).await.0.as_deref(), Some("online"));
        node.disconnect(&phone).await.unwrap();
        assert_eq!(stored(&shared).await.0, None, "{by_parlor}");
    }
}

async fn a_status_that_a_user_sets_replaces_that_of_another_service(shared: SharedStore) {
    let (alice, phone) = (user("alice"), socket_device("alice", "s1"));
    let node = &shared.0.nodes[0];
    node.connect(phone.clone()).await.unwrap();
    let words = [
        ("online", PresenceStatus::Online),
        ("offline", PresenceStatus::Offline),
    ];
    // Parlor knows the status already, but the key says what the other service has set since.
    for (word, status) in words {
        node.set_status(&alice, status).await.unwrap();
        let other = if word == "online" {
            "offline"
        } else {
            "online"
        };
        let _: () = shared
            .run(&format!("SET user:status:<> {other} EX 30"))
            .await;
        let set = node.set_status(&alice, status).await.unwrap();
        assert_eq!(set.status, status);
        assert_eq!(stored(&shared).await.0.as_deref(), Some(word));
        assert_eq!(shared.status().await.0, status);
    }
}

const FOREIGN_DOCUMENT: &str = r#"{"userId":"alice","status":"online","lastSeen":1}"#;

async fn the_document_of_another_service_keeps_its_lease(mut shared: SharedStore) {
    let _: () = shared
        .run(&format!("SETEX presence:<> 300 {FOREIGN_DOCUMENT}"))
        .await;
    assert_eq!(shared.status().await, EXTERNAL);
    let phone = socket_device("alice", "s1");
    shared.0.nodes[0].connect(phone.clone()).await.unwrap();
    shared.0.nodes[0].heartbeat(&phone).unwrap();
    shared.0.run_background_once().await;
    shared.0.nodes[0].disconnect(&phone).await.unwrap();
    let left: i64 = shared.run("TTL presence:<>").await;
    assert!((200..=300).contains(&left), "{left}");
    assert_eq!(shared.status().await, EXTERNAL);
    assert_eq!(shared.0.drain_event_names().await, Vec::<String>::new());
    shared.0.pass(shared.0.ttl() + TEN_SECONDS).await;
    shared.0.run_background_once().await;
    assert_eq!(shared.status().await, OFFLINE);
}

async fn the_later_document_of_another_service_stays(shared: SharedStore) {
    let phone = socket_device("alice", "s1");
    let node = &shared.0.nodes[0];
    node.connect(phone.clone()).await.unwrap();
    let _: () = shared
        .run(&format!("SETEX presence:<> 300 {FOREIGN_DOCUMENT}"))
        .await;
    node.disconnect(&phone).await.unwrap();
    let document: String = shared.run("GET presence:<>").await;
    assert_eq!(document, FOREIGN_DOCUMENT);
    // Its own document is deleted.
    let _: u64 = shared.run("DEL presence:<>").await;
    node.connect(phone.clone()).await.unwrap();
    node.disconnect(&phone).await.unwrap();
    let document: Option<String> = shared.run("GET presence:<>").await;
    assert_eq!(document, None);
}
