//! Caches of membership and participants.

use std::time::Duration;

use parlor_chat::conversations::{
    CreateConversation, JoinConversation, LeaveConversation, PutMember, RemoveMember,
};
use parlor_chat::database::Either;
use parlor_testkit::eventually;
use serde_json::json;

use super::fixture::{World, all, ask, conversation, person, service, user};
use super::on_every_engine;

on_every_engine! {
    membership_is_cached_and_invalidated_by_each_change;
    cached_membership_of_another_epoch_is_reread;
    concurrent_membership_checks_share_one_database_read;
    participants_follow_the_version_of_the_rows;
    participants_of_another_epoch_are_not_believed;
}

async fn group(world: &World, members: &[&str]) {
    let asked = json!({ "id": "c1", "kind": "group", "open": true, "members": members });
    let node = &world.nodes[0];
    ask::<CreateConversation>(node, &service(), asked)
        .await
        .unwrap();
}

async fn put(world: &World, node: usize, who: &str) {
    let asked = json!({ "conversationId": "c1", "userId": who });
    ask::<PutMember>(&world.nodes[node], &service(), asked)
        .await
        .unwrap();
}

async fn remove(world: &World, node: usize, who: &str) {
    let asked = json!({ "conversationId": "c1", "userId": who });
    ask::<RemoveMember>(&world.nodes[node], &service(), asked)
        .await
        .unwrap();
}

/// Asserts that every key is declared and has an allowed TTL.
async fn keys_are_declared(world: &World) {
    let mut scan = world.store.scan("*", 1_000);
    while let Some(page) = scan.next().await.unwrap() {
        for name in page {
            let name = String::from_utf8(name.to_vec()).unwrap();
            let mut left = redis::cmd("PTTL");
            left.arg(&name);
            let left: i64 = left.query_async(&mut world.store.clone()).await.unwrap();
            let left = u64::try_from(left).ok().map(Duration::from_millis);
            let declared: Vec<_> = world.keys.matching_specs(name.as_bytes()).collect();
            assert_eq!(
                declared.len(),
                1,
                "{name} must match exactly one declaration"
            );
            let allowed = declared[0].spec.allows_ttl(world.keys.settings(), left);
            assert!(
                allowed,
                "{name} has the TTL {left:?}, which its declaration does not allow"
            );
        }
    }
}

pub async fn membership_is_cached_and_invalidated_by_each_change(world: World) {
    // A negative answer that was cached before the conversation existed.
    assert!(!world.is_member_on_node(0, "c1", "alice").await);
    assert_eq!(
        world.cached_membership("c1", "alice").await.as_deref(),
        Some("0")
    );
    group(&world, &["alice"]).await;
    assert_eq!(world.cached_membership("c1", "alice").await, None);
    assert!(world.is_member_on_node(1, "c1", "alice").await);
    assert_eq!(
        world.cached_membership("c1", "alice").await.as_deref(),
        Some("1")
    );
    assert!(!world.is_member_on_node(1, "c1", "bob").await);
    assert_eq!(
        world.cached_membership("c1", "bob").await.as_deref(),
        Some("0")
    );
    keys_are_declared(&world).await;
    // The answer comes from the cache.
    let reads = world.nodes[2].conversations().cache_misses().0;
    assert!(world.is_member_on_node(2, "c1", "alice").await);
    assert_eq!(world.nodes[2].conversations().cache_misses().0, reads);

    put(&world, 2, "bob").await;
    assert_eq!(world.cached_membership("c1", "bob").await, None);
    assert_eq!(
        world.cached_membership("c1", "alice").await.as_deref(),
        Some("1")
    );
    for node in 0..3 {
        assert!(world.is_member_on_node(node, "c1", "bob").await);
    }
    remove(&world, 0, "bob").await;
    assert_eq!(world.cached_membership("c1", "bob").await, None);
    for node in 0..3 {
        assert!(!world.is_member_on_node(node, "c1", "bob").await);
    }
    let c1 = json!({ "conversationId": "c1" });
    ask::<JoinConversation>(&world.nodes[1], &person("bob"), c1.clone())
        .await
        .unwrap();
    assert!(world.is_member_on_node(0, "c1", "bob").await);
    ask::<LeaveConversation>(&world.nodes[2], &person("bob"), c1)
        .await
        .unwrap();
    assert!(!world.is_member_on_node(0, "c1", "bob").await);
    // A call that changes nothing invalidates the cached answer too.
    remove(&world, 1, "bob").await;
    assert_eq!(world.cached_membership("c1", "bob").await, None);
    assert!(world.is_member_on_node(0, "c1", "alice").await);
    world.advance(Duration::from_secs(31)).await;
    assert_eq!(world.cached_membership("c1", "alice").await, None);
    assert!(world.is_member_on_node(0, "c1", "alice").await);
}

pub async fn cached_membership_of_another_epoch_is_reread(world: World) {
    group(&world, &["alice"]).await;
    assert!(!world.is_member_on_node(0, "c1", "bob").await);
    assert!(world.is_member_on_node(0, "c1", "alice").await);
    let (c1, bob) = (conversation("c1"), user("bob"));
    // As in a store that was restored to the time before bob was removed.
    world.set(&world.keys.membership(&c1, &bob), "1").await;
    let checked = world.keys.membership_epoch(&c1, &bob);
    world.set(&checked, "12345").await;
    for node in 0..3 {
        assert!(!world.is_member_on_node(node, "c1", "bob").await);
    }
    assert_eq!(
        world.cached_membership("c1", "bob").await.as_deref(),
        Some("0")
    );
    // An invalid value is ignored.
    world
        .set(&world.keys.membership(&c1, &bob), "perhaps")
        .await;
    assert!(!world.is_member_on_node(0, "c1", "bob").await);
}

/// Maximum number of row reads: a caller that comes after a row was read may start another load, because an answer must
/// not be older than its question.
const MAX_ROW_READS: u64 = 5;

pub async fn concurrent_membership_checks_share_one_database_read(world: World) {
    group(&world, &["alice", "bob"]).await;
    let node = &world.nodes[0];
    let reads = || node.conversations().cache_misses();
    for who in ["alice", "zoe"] {
        let before = reads().0;
        let answers = all((0..1_000).map(|_| world.is_member_on_node(0, "c1", who))).await;
        assert!(answers.iter().all(|it| *it == (who == "alice")));
        let read = reads().0 - before;
        assert!((1..=MAX_ROW_READS).contains(&read), "{who}: {read}");
    }
    let version = world.version("c1").await;
    let c1 = conversation("c1");
    let before = reads().1;
    let asked = (0..1_000).map(|_| node.conversations().participants_at(&c1, version));
    for answer in all(asked).await {
        assert_eq!(answer.unwrap().len(), 2);
    }
    let read = reads().1 - before;
    assert!((1..=MAX_ROW_READS).contains(&read), "{read}");
}

async fn participants(world: &World, node: usize) -> Vec<String> {
    let version = world.version("c1").await;
    let c1 = conversation("c1");
    let found = world.nodes[node]
        .conversations()
        .participants_at(&c1, version);
    found
        .await
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect()
}

async fn stored_participants(world: &World) -> Vec<String> {
    let mut members = redis::cmd("SMEMBERS");
    members.arg(world.keys.participants(&conversation("c1")));
    let members = members.query_async(&mut world.store.clone()).await;
    let mut members: Vec<String> = members.unwrap();
    members.sort_unstable();
    members
}

pub async fn participants_follow_the_version_of_the_rows(world: World) {
    group(&world, &["alice", "bob"]).await;
    for node in 0..3 {
        assert_eq!(participants(&world, node).await, ["alice", "bob"]);
    }
    assert_eq!(stored_participants(&world).await, ["alice", "bob"]);
    keys_are_declared(&world).await;
    let reads: Vec<_> = world
        .nodes
        .iter()
        .map(|it| it.conversations().cache_misses().1)
        .collect();
    assert_eq!(reads, [1, 0, 0], "the other nodes read the set");
    put(&world, 1, "carol").await;
    assert!(stored_participants(&world).await.is_empty());
    for node in 0..3 {
        assert_eq!(participants(&world, node).await, ["alice", "bob", "carol"]);
    }
    remove(&world, 2, "bob").await;
    assert!(stored_participants(&world).await.is_empty());
    for node in 0..3 {
        assert_eq!(participants(&world, node).await, ["alice", "carol"]);
    }
    // A change without invalidation, as of a node that died after its commit: the version shows it.
    let database = world.database().await;
    super::fixture::execute(&database, "DELETE FROM members WHERE user_id = 'carol'").await;
    let raise = "UPDATE conversations SET members_version = members_version + 1, member_count = 1";
    super::fixture::execute(&database, raise).await;
    for node in 0..3 {
        assert_eq!(participants(&world, node).await, ["alice"]);
    }
    assert_eq!(stored_participants(&world).await, ["alice"]);
    // A request for an old version returns the current members.
    let c1 = conversation("c1");
    let found = world.nodes[0].conversations().participants_at(&c1, 1).await;
    assert_eq!(found.unwrap().len(), 1);
}

pub async fn participants_of_another_epoch_are_not_believed(world: World) {
    group(&world, &["alice"]).await;
    let c1 = conversation("c1");
    let mut add = redis::cmd("SADD");
    add.arg(world.keys.participants(&c1)).arg("mallory");
    add.exec_async(&mut world.store.clone()).await.unwrap();
    let version = world.version("c1").await;
    let stale = format!("{version}|12345");
    world
        .set(&world.keys.participants_version(&c1), &stale)
        .await;
    assert_eq!(participants(&world, 0).await, ["alice"]);
    assert_eq!(stored_participants(&world).await, ["alice"]);
}

#[tokio::test]
async fn a_slow_read_does_not_overwrite_the_cache_after_a_change() {
    let world = World::redis().await;
    group(&world, &["alice"]).await;
    let node = &world.nodes[0];
    let reads = || node.conversations().cache_misses();
    let before = reads();
    // From here on readers of the table wait.
    let database = world.database().await;
    let mut tx = database.begin().await.unwrap();
    let Either::Postgres(c) = tx.connection() else {
        panic!("the Redis fixture uses PostgreSQL");
    };
    let lock = sqlx::query("LOCK TABLE members IN ACCESS EXCLUSIVE MODE");
    lock.execute(c).await.unwrap();
    let c1 = conversation("c1");
    let asking = async { world.is_member_on_node(0, "c1", "alice").await };
    let gathering = async {
        node.conversations()
            .participants_at(&c1, 1)
            .await
            .unwrap()
            .len()
    };
    let changing = async {
        eventually(
            "both have read the generation and started to read the rows",
            async || {
                let now = reads();
                (now.0 > before.0 && now.1 > before.1).then_some(())
            },
        )
        .await;
        let mut raise = redis::cmd("INCR");
        raise.arg(world.keys.membership_generation(&c1));
        raise.exec_async(&mut world.store.clone()).await.unwrap();
        drop(tx);
    };
    let (answer, count, ()) = tokio::join!(asking, gathering, changing);
    assert!(answer);
    assert_eq!(count, 1);
    assert_eq!(
        world.cached_membership("c1", "alice").await,
        None,
        "the answer is not cached"
    );
    assert!(
        stored_participants(&world).await.is_empty(),
        "the participants are not cached"
    );
    assert!(world.is_member_on_node(0, "c1", "alice").await);
    assert_eq!(
        world.cached_membership("c1", "alice").await.as_deref(),
        Some("1")
    );
}
