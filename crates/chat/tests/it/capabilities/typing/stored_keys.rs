//! Content of the keys, compared with the documentation.

use std::collections::BTreeMap;
use std::time::Duration;

use parlor_chat::context::ChatContext;
use parlor_chat::keys::{Keyspace, TypingLayout};
use parlor_chat::typing::Typing;
use parlor_store::Store;
use parlor_testkit::{Redis, eventually};
use serde_json::json;

use super::fixture::{TypingFixture, conversation, settings, start, stop, typers, user};
use super::on_every_layout;
use crate::support::backend::options_with_long_timeout;

on_every_layout! {
    a_start_is_stored_as_documented;
    a_renewal_is_written_with_a_new_time;
    a_stop_leaves_nothing;
    the_key_of_another_service_stays;
    typing_keys_expire;
    expired_typers_are_removed_from_the_index;
    typers_are_listed_by_id_with_their_names;
}

/// Reads the documented keys with value and TTL. Asserts that every key is declared and has a declared TTL.
async fn documented(fixture: &TypingFixture) -> BTreeMap<String, (String, Duration)> {
    let mut found = BTreeMap::new();
    let mut store = fixture.store.clone();
    let mut scan = fixture.store.scan("*", 1_000);
    while let Some(page) = scan.next().await.unwrap() {
        for name in page {
            let name = String::from_utf8(name.to_vec()).unwrap();
            let mut left = redis::cmd("PTTL");
            let left: i64 = left.arg(&name).query_async(&mut store).await.unwrap();
            let left = u64::try_from(left).ok().map(Duration::from_millis);
            let declared: Vec<_> = fixture.keys.matching_specs(name.as_bytes()).collect();
            assert_eq!(declared.len(), 1, "{name} is not declared");
            let spec = declared[0].spec;
            let settings = fixture.keys.settings();
            assert!(spec.allows_ttl(settings, left), "{name} has {left:?}");
            if !spec.internal {
                let mut value = redis::cmd("GET");
                let value = value.arg(&name).query_async(&mut store).await.unwrap();
                found.insert(name, (value, left.unwrap()));
            }
        }
    }
    found
}

async fn internal_are_gone(fixture: &TypingFixture) -> bool {
    let conv = conversation("c1");
    let mut exists = redis::cmd("EXISTS");
    exists.arg(fixture.keys.typing_index(&conv));
    exists.arg(fixture.keys.typing_names(&conv));
    let count: u64 = exists
        .query_async(&mut fixture.store.clone())
        .await
        .unwrap();
    count == 0
}

fn name(fixture: &TypingFixture, who: &str) -> String {
    if fixture.keys.cluster() {
        format!("typing:{{c1}}:{who}")
    } else {
        format!("typing:c1:{who}")
    }
}

fn value(fixture: &TypingFixture, who: &str, called: &str, at: u64) -> String {
    match fixture.layout {
        TypingLayout::Flag => "1".to_owned(),
        TypingLayout::Document => {
            json!({"userId": who, "username": called, "timestamp": at}).to_string()
        }
    }
}

/// Asserts that the store has exactly these documented keys, each with its full TTL.
async fn must_be(fixture: &TypingFixture, expected: &[(&str, &str, u64)]) {
    let found = documented(fixture).await;
    let shown: Vec<_> = found.iter().map(|(name, it)| (name, &it.0)).collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(who, called, at)| (name(fixture, who), value(fixture, who, called, *at)))
        .collect();
    let expected: Vec<_> = expected.iter().map(|(name, it)| (name, it)).collect();
    assert_eq!(shown, expected);
    for (name, (_, left)) in &found {
        let ttl = fixture.ttl();
        assert!(
            *left <= ttl && *left + fixture.slack() >= ttl,
            "{name} {left:?}"
        );
    }
}

pub async fn a_start_is_stored_as_documented(fixture: TypingFixture) {
    let node = &fixture.nodes[0];
    let now = fixture.now().as_millis();
    let odd = "Alice \"the 1st\" \\ Ümit 🙂";
    let (conv, alice) = (conversation("c1"), user("alice"));
    node.start(&conv, &alice, Some(odd)).await.unwrap();
    must_be(&fixture, &[("alice", odd, now)]).await;
    start(node, "c1", "bob").await;
    node.start(&conv, &user("carol"), Some("")).await.unwrap();
    let expected = [
        ("alice", odd, now),
        ("bob", "bob", now),
        ("carol", "carol", now),
    ];
    must_be(&fixture, &expected).await;
    let typers = node.typing_users(&conv).await.unwrap();
    let seen: Vec<_> = typers.iter().map(|it| it.username.as_deref()).collect();
    assert_eq!(seen, [Some(odd), None, None]);
    let json = serde_json::to_value(&typers[0]).unwrap();
    assert_eq!(json, json!({"userId": "alice", "username": odd}));
}

pub async fn a_renewal_is_written_with_a_new_time(fixture: TypingFixture) {
    let node = &fixture.nodes[0];
    let (conv, alice) = (conversation("c1"), user("alice"));
    node.start(&conv, &alice, Some("Alice")).await.unwrap();
    fixture.advance(fixture.ttl() * 2 / 3).await;
    node.start(&conv, &alice, Some("Al")).await.unwrap();
    let now = fixture.now();
    must_be(&fixture, &[("alice", "Al", now.as_millis())]).await;
    // Longer than the first start would have lasted.
    fixture.advance(fixture.ttl() * 2 / 3).await;
    let typers = node.typing_users(&conv).await.unwrap();
    assert_eq!(typers.len(), 1);
    assert_eq!(typers[0].username.as_deref(), Some("Al"));
    assert_eq!(typers[0].until, now.saturating_add(fixture.ttl()));
    // A start without a name removes the name.
    start(node, "c1", "alice").await;
    let typers = node.typing_users(&conv).await.unwrap();
    assert_eq!(typers[0].username, None);
}

pub async fn a_stop_leaves_nothing(fixture: TypingFixture) {
    let [one, other] = &fixture.nodes[..] else {
        panic!("two nodes")
    };
    start(one, "c1", "alice").await;
    stop(one, "c1", "alice").await;
    assert_eq!(documented(&fixture).await, BTreeMap::new());
    assert!(internal_are_gone(&fixture).await);
    start(one, "c1", "alice").await;
    start(one, "c1", "bob").await;
    let now = fixture.now().as_millis();
    stop(other, "c1", "alice").await;
    must_be(&fixture, &[("bob", "bob", now)]).await;
    assert_eq!(typers(one, "c1").await, ["bob"]);
    stop(other, "c1", "bob").await;
    stop(other, "c1", "bob").await;
    assert_eq!(documented(&fixture).await, BTreeMap::new());
    assert!(internal_are_gone(&fixture).await);
}

async fn the_key_of_another_service_stays(mut fixture: TypingFixture) {
    let (conv, alice) = (conversation("c1"), user("alice"));
    let key = fixture.keys.typing_user(&conv, &alice);
    let mut store = fixture.store.clone();
    let get = redis::cmd("GET").arg(&key).take();
    let foreign = r#"{"userId":"alice","username":"A","timestamp":1}"#;
    let seconds = fixture.ttl().as_secs();
    let set = redis::cmd("SETEX")
        .arg(&key)
        .arg(seconds)
        .arg(foreign)
        .take();
    // Alice types in the other service only: a stop in Parlor changes nothing there, and nobody is notified.
    set.exec_async(&mut store).await.unwrap();
    stop(&fixture.nodes[0], "c1", "alice").await;
    let value: Option<String> = get.query_async(&mut store).await.unwrap();
    assert_eq!(value.as_deref(), Some(foreign));
    assert_eq!(fixture.drain_frames().await, [] as [&str; 0]);
    // The other service replaces the document of Parlor. A stop in Parlor ends the typing state in Parlor only.
    start(&fixture.nodes[0], "c1", "alice").await;
    set.exec_async(&mut store).await.unwrap();
    stop(&fixture.nodes[0], "c1", "alice").await;
    let value: Option<String> = get.query_async(&mut store).await.unwrap();
    assert_eq!(value.as_deref(), Some(foreign));
    assert_eq!(
        fixture.drain_frames().await,
        ["alice types", "alice stopped"]
    );
    // A document that ends later, and a key of a foreign type, are not replaced.
    let later = redis::cmd("SETEX").arg(&key).arg(3_600).arg("later").take();
    let mut foreign_type = redis::pipe();
    foreign_type.del(&key).ignore().sadd(&key, "member");
    let kind = redis::cmd("TYPE").arg(&key).take();
    for (nth, expected) in ["string", "set"].into_iter().enumerate() {
        match nth {
            0 => later.exec_async(&mut store).await.unwrap(),
            _ => foreign_type.exec_async(&mut store).await.unwrap(),
        }
        start(&fixture.nodes[0], "c1", "alice").await;
        assert_eq!(typers(&fixture.nodes[0], "c1").await, ["alice"]);
        stop(&fixture.nodes[0], "c1", "alice").await;
        let kind: String = kind.query_async(&mut store).await.unwrap();
        assert_eq!(kind, expected);
    }
}

pub async fn typing_keys_expire(fixture: TypingFixture) {
    let node = &fixture.nodes[0];
    let (conv, alice) = (conversation("c1"), user("alice"));
    node.start(&conv, &alice, Some("Alice")).await.unwrap();
    let last = fixture.slack().max(Duration::from_millis(1));
    fixture.advance(fixture.ttl() - last).await;
    assert_eq!(typers(node, "c1").await, ["alice"]);
    fixture.advance(last).await;
    assert_eq!(typers(node, "c1").await, [] as [&str; 0]);
    // A key still exists in its last millisecond.
    fixture.advance(Duration::from_millis(1)).await;
    assert_eq!(documented(&fixture).await, BTreeMap::new());
    assert!(internal_are_gone(&fixture).await);
}

async fn expired_typers_are_removed_from_the_index(fixture: TypingFixture) {
    let node = &fixture.nodes[0];
    let conv = conversation("c1");
    node.start(&conv, &user("alice"), Some("A")).await.unwrap();
    fixture.advance(fixture.ttl() * 2 / 3).await;
    node.start(&conv, &user("bob"), Some("B")).await.unwrap();
    fixture.advance(fixture.ttl() * 2 / 3).await;
    let mut store = fixture.store.clone();
    let index = fixture.keys.typing_index(&conv);
    let members = async |store: &mut parlor_store::Store| -> Vec<String> {
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(&index).arg(0).arg(-1);
        cmd.query_async(store).await.unwrap()
    };
    assert_eq!(members(&mut store).await, ["alice", "bob"]);
    assert_eq!(typers(node, "c1").await, ["bob"], "alice has expired");
    node.start(&conv, &user("carol"), Some("C")).await.unwrap();
    assert_eq!(members(&mut store).await, ["bob", "carol"]);
    let mut names = redis::cmd("HKEYS");
    names.arg(fixture.keys.typing_names(&conv));
    let mut names: Vec<String> = names.query_async(&mut store).await.unwrap();
    names.sort();
    assert_eq!(names, ["bob", "carol"]);
    documented(&fixture).await;
}

async fn typers_are_listed_by_id_with_their_names(fixture: TypingFixture) {
    let [one, other] = &fixture.nodes[..] else {
        panic!("two nodes")
    };
    let conv = conversation("c1");
    one.start(&conv, &user("b"), Some("Z")).await.unwrap();
    other.start(&conv, &user("c"), None).await.unwrap();
    one.start(&conv, &user("a"), Some("Y")).await.unwrap();
    start(one, "c2", "d").await;
    for node in [one, other] {
        let typers = node.typing_users(&conv).await.unwrap();
        let seen: Vec<_> = typers
            .iter()
            .map(|it| (it.user_id.as_str(), it.username.as_deref()))
            .collect();
        assert_eq!(seen, [("a", Some("Y")), ("b", Some("Z")), ("c", None)]);
    }
    assert_eq!(typers(one, "c3").await, [] as [&str; 0]);
}

#[tokio::test]
async fn typing_ttls_on_redis_match_the_documentation() {
    for (layout, most) in [(TypingLayout::Document, 3_000), (TypingLayout::Flag, 5_000)] {
        let server = Redis::start().await;
        let store = Store::open(options_with_long_timeout(&server.url()))
            .await
            .unwrap();
        let keys = Keyspace::new(settings(layout), false).unwrap();
        let node = Typing::new(ChatContext::new(store.clone(), keys.clone()));
        // The key lives for seconds only, so it has to be read within them.
        let left = eventually("the keys are read", async || {
            stop(&node, "c1", "alice").await;
            let (conv, alice) = (conversation("c1"), user("alice"));
            node.start(&conv, &alice, Some("A")).await.unwrap();
            let mut all = redis::pipe();
            all.cmd("PTTL").arg(keys.typing_user(&conv, &alice));
            all.cmd("PTTL").arg(keys.typing_index(&conv));
            all.cmd("PTTL").arg(keys.typing_names(&conv));
            let left: Vec<i64> = all.query_async(&mut store.clone()).await.unwrap();
            left.iter().all(|left| *left > 0).then_some(left)
        });
        let left = left.await;
        assert!(left.iter().all(|left| *left <= most), "{left:?}");
    }
}
