//! Caches of membership and participants.

use std::time::Duration;

use futures_util::future::join_all;
use parlor_chat::conversations::{
    CreateConversation, JoinConversation, LeaveConversation, PutMember, RemoveMember,
};
use parlor_chat::database::PerBackend;
use parlor_testkit::eventually;
use serde_json::json;

use super::fixture::{
    ConversationsFixture, conversation, run_operation, service_caller, user, user_caller,
};
use super::on_every_engine;
use crate::support::Fixture;

on_every_engine! {
    membership_is_cached_and_invalidated_by_each_change;
    cached_membership_of_another_epoch_is_reread;
    a_participant_set_of_a_foreign_type_stays;
    concurrent_membership_checks_share_one_database_read;
    participants_follow_the_version_of_the_rows;
    participants_of_another_epoch_are_not_believed;
}

async fn group(fixture: &ConversationsFixture, members: &[&str]) {
    let request = json!({ "id": "c1", "kind": "group", "open": true, "members": members });
    let node = &fixture.nodes[0];
    run_operation::<CreateConversation>(node, &service_caller(), request)
        .await
        .unwrap();
}

async fn put(fixture: &ConversationsFixture, node: usize, who: &str) {
    let request = json!({ "conversationId": "c1", "userId": who });
    run_operation::<PutMember>(&fixture.nodes[node], &service_caller(), request)
        .await
        .unwrap();
}

async fn remove(fixture: &ConversationsFixture, node: usize, who: &str) {
    let request = json!({ "conversationId": "c1", "userId": who });
    run_operation::<RemoveMember>(&fixture.nodes[node], &service_caller(), request)
        .await
        .unwrap();
}

/// Asserts that every key is declared and has an allowed TTL.
async fn keys_are_declared(fixture: &ConversationsFixture) {
    let mut scan = fixture.store.scan("*", 1_000);
    while let Some(page) = scan.next().await.unwrap() {
        for name in page {
            let name = String::from_utf8(name.to_vec()).unwrap();
            let mut left = redis::cmd("PTTL");
            left.arg(&name);
            let left: i64 = left.query_async(&mut fixture.store.clone()).await.unwrap();
            let left = u64::try_from(left).ok().map(Duration::from_millis);
            let declared: Vec<_> = fixture.keys.matching_specs(name.as_bytes()).collect();
            assert_eq!(
                declared.len(),
                1,
                "{name} must match exactly one declaration"
            );
            let allowed = declared[0].spec.allows_ttl(fixture.keys.settings(), left);
            assert!(
                allowed,
                "{name} has the TTL {left:?}, which its declaration does not allow"
            );
        }
    }
}

pub async fn membership_is_cached_and_invalidated_by_each_change(fixture: ConversationsFixture) {
    // A negative answer that was cached before the conversation existed: other services may know it, so the documented
    // key is not written.
    let reads = fixture.nodes[0].conversations().cache_misses().0;
    for node in [0, 0, 1] {
        assert!(!fixture.is_member_on_node(node, "c1", "alice").await);
    }
    assert_eq!(fixture.nodes[0].conversations().cache_misses().0, reads + 1);
    assert_eq!(fixture.nodes[1].conversations().cache_misses().0, 0);
    assert_eq!(fixture.cached_membership("c1", "alice").await, None);
    group(&fixture, &["alice"]).await;
    assert_eq!(fixture.cached_membership("c1", "alice").await, None);
    assert!(fixture.is_member_on_node(1, "c1", "alice").await);
    assert_eq!(
        fixture.cached_membership("c1", "alice").await.as_deref(),
        Some("1")
    );
    assert!(!fixture.is_member_on_node(1, "c1", "bob").await);
    assert_eq!(
        fixture.cached_membership("c1", "bob").await.as_deref(),
        Some("0")
    );
    keys_are_declared(&fixture).await;
    // The answer comes from the cache.
    let reads = fixture.nodes[2].conversations().cache_misses().0;
    assert!(fixture.is_member_on_node(2, "c1", "alice").await);
    assert_eq!(fixture.nodes[2].conversations().cache_misses().0, reads);

    put(&fixture, 2, "bob").await;
    assert_eq!(fixture.cached_membership("c1", "bob").await, None);
    assert_eq!(
        fixture.cached_membership("c1", "alice").await.as_deref(),
        Some("1")
    );
    for node in 0..3 {
        assert!(fixture.is_member_on_node(node, "c1", "bob").await);
    }
    remove(&fixture, 0, "bob").await;
    assert_eq!(fixture.cached_membership("c1", "bob").await, None);
    for node in 0..3 {
        assert!(!fixture.is_member_on_node(node, "c1", "bob").await);
    }
    let c1 = json!({ "conversationId": "c1" });
    run_operation::<JoinConversation>(&fixture.nodes[1], &user_caller("bob"), c1.clone())
        .await
        .unwrap();
    assert!(fixture.is_member_on_node(0, "c1", "bob").await);
    run_operation::<LeaveConversation>(&fixture.nodes[2], &user_caller("bob"), c1)
        .await
        .unwrap();
    assert!(!fixture.is_member_on_node(0, "c1", "bob").await);
    // A call that changes nothing leaves the cached answer as it is.
    remove(&fixture, 1, "bob").await;
    assert_eq!(
        fixture.cached_membership("c1", "bob").await.as_deref(),
        Some("0")
    );
    assert!(fixture.is_member_on_node(0, "c1", "alice").await);
    fixture.advance(Duration::from_secs(31)).await;
    assert_eq!(fixture.cached_membership("c1", "alice").await, None);
    assert!(fixture.is_member_on_node(0, "c1", "alice").await);
}

pub async fn cached_membership_of_another_epoch_is_reread(fixture: ConversationsFixture) {
    group(&fixture, &["alice"]).await;
    assert!(!fixture.is_member_on_node(0, "c1", "bob").await);
    assert!(fixture.is_member_on_node(0, "c1", "alice").await);
    let (c1, bob) = (conversation("c1"), user("bob"));
    // As in a store that was restored to the time before bob was removed.
    fixture.set(&fixture.keys.membership(&c1, &bob), "1").await;
    let checked = fixture.keys.membership_epoch(&c1, &bob);
    fixture.set(&checked, "12345").await;
    for node in 0..3 {
        assert!(!fixture.is_member_on_node(node, "c1", "bob").await);
    }
    assert_eq!(
        fixture.cached_membership("c1", "bob").await.as_deref(),
        Some("0")
    );
    // An invalid value is ignored.
    fixture
        .set(&fixture.keys.membership(&c1, &bob), "perhaps")
        .await;
    assert!(!fixture.is_member_on_node(0, "c1", "bob").await);
}

pub async fn a_participant_set_of_a_foreign_type_stays(fixture: ConversationsFixture) {
    group(&fixture, &["alice", "bob"]).await;
    let (c1, bob) = (conversation("c1"), user("bob"));
    let theirs = fixture.keys.participants(&c1);
    let mut pipe = redis::pipe();
    pipe.cmd("DEL").arg(&theirs);
    pipe.cmd("RPUSH").arg(&theirs).arg("theirs");
    pipe.exec_async(&mut fixture.store.clone()).await.unwrap();
    let node = fixture.nodes[0].conversations();
    for member in [true, false] {
        if !member {
            remove(&fixture, 1, "bob").await;
        }
        assert_eq!(fixture.is_member_on_node(0, "c1", "bob").await, member);
        let version = fixture.version("c1").await;
        let users = node.participants_at(&c1, version).await.unwrap();
        assert_eq!(users.contains(&bob), member);
    }
    let mut list = redis::cmd("LRANGE");
    list.arg(&theirs).arg(0).arg(-1);
    let list: Vec<String> = list.query_async(&mut fixture.store.clone()).await.unwrap();
    assert_eq!(list, ["theirs"]);
}

/// Maximum number of row reads: a caller that comes after a row was read may start another load, because an answer must
/// not be older than its question.
const MAX_ROW_READS: u64 = 5;

pub async fn concurrent_membership_checks_share_one_database_read(fixture: ConversationsFixture) {
    group(&fixture, &["alice", "bob"]).await;
    let node = &fixture.nodes[0];
    let reads = || node.conversations().cache_misses();
    for who in ["alice", "zoe"] {
        let before = reads().0;
        let answers = join_all((0..1_000).map(|_| fixture.is_member_on_node(0, "c1", who))).await;
        assert!(answers.iter().all(|it| *it == (who == "alice")));
        let read = reads().0 - before;
        assert!((1..=MAX_ROW_READS).contains(&read), "{who}: {read}");
    }
    let version = fixture.version("c1").await;
    let c1 = conversation("c1");
    let before = reads().1;
    let request = (0..1_000).map(|_| node.conversations().participants_at(&c1, version));
    for answer in join_all(request).await {
        assert_eq!(answer.unwrap().len(), 2);
    }
    let read = reads().1 - before;
    assert!((1..=MAX_ROW_READS).contains(&read), "{read}");
}

async fn participants(fixture: &ConversationsFixture, node: usize) -> Vec<String> {
    let version = fixture.version("c1").await;
    let c1 = conversation("c1");
    let found = fixture.nodes[node]
        .conversations()
        .participants_at(&c1, version);
    found
        .await
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect()
}

async fn stored_participants(fixture: &ConversationsFixture) -> Vec<String> {
    let mut members = redis::cmd("SMEMBERS");
    members.arg(fixture.keys.participants(&conversation("c1")));
    let members = members.query_async(&mut fixture.store.clone()).await;
    let mut members: Vec<String> = members.unwrap();
    members.sort_unstable();
    members
}

pub async fn participants_follow_the_version_of_the_rows(fixture: ConversationsFixture) {
    group(&fixture, &["alice", "bob"]).await;
    for node in 0..3 {
        assert_eq!(participants(&fixture, node).await, ["alice", "bob"]);
    }
    assert_eq!(stored_participants(&fixture).await, ["alice", "bob"]);
    keys_are_declared(&fixture).await;
    let reads: Vec<_> = fixture
        .nodes
        .iter()
        .map(|it| it.conversations().cache_misses().1)
        .collect();
    assert_eq!(reads, [1, 0, 0], "the other nodes read the set");
    put(&fixture, 1, "carol").await;
    assert!(stored_participants(&fixture).await.is_empty());
    for node in 0..3 {
        assert_eq!(
            participants(&fixture, node).await,
            ["alice", "bob", "carol"]
        );
    }
    remove(&fixture, 2, "bob").await;
    assert!(stored_participants(&fixture).await.is_empty());
    for node in 0..3 {
        assert_eq!(participants(&fixture, node).await, ["alice", "carol"]);
    }
    // A change without invalidation, as of a node that died after its commit: the version shows it.
    let database = fixture.database().await;
    super::fixture::execute(&database, "DELETE FROM members WHERE user_id = 'carol'").await;
    let raise = "UPDATE conversations SET members_version = members_version + 1, member_count = 1";
    super::fixture::execute(&database, raise).await;
    for node in 0..3 {
        assert_eq!(participants(&fixture, node).await, ["alice"]);
    }
    assert_eq!(stored_participants(&fixture).await, ["alice"]);
    // A request for an old version returns the current members.
    let c1 = conversation("c1");
    let found = fixture.nodes[0]
        .conversations()
        .participants_at(&c1, 1)
        .await;
    assert_eq!(found.unwrap().len(), 1);
}

pub async fn participants_of_another_epoch_are_not_believed(fixture: ConversationsFixture) {
    group(&fixture, &["alice"]).await;
    let c1 = conversation("c1");
    let mut add = redis::cmd("SADD");
    add.arg(fixture.keys.participants(&c1)).arg("mallory");
    add.exec_async(&mut fixture.store.clone()).await.unwrap();
    let version = fixture.version("c1").await;
    let stale = format!("{version}|12345");
    fixture
        .set(&fixture.keys.participants_version(&c1), &stale)
        .await;
    assert_eq!(participants(&fixture, 0).await, ["alice"]);
    assert_eq!(stored_participants(&fixture).await, ["alice"]);
}

#[tokio::test]
async fn a_slow_read_does_not_overwrite_the_cache_after_a_change() {
    let fixture = ConversationsFixture::redis(()).await;
    group(&fixture, &["alice"]).await;
    let node = &fixture.nodes[0];
    let reads = || node.conversations().cache_misses();
    let before = reads();
    // From here on readers of the table wait.
    let database = fixture.database().await;
    let mut tx = database.begin().await.unwrap();
    let PerBackend::Postgres(c) = tx.connection() else {
        panic!("the Redis fixture uses PostgreSQL");
    };
    let lock = sqlx::query("LOCK TABLE members IN ACCESS EXCLUSIVE MODE");
    lock.execute(c).await.unwrap();
    let c1 = conversation("c1");
    let asking = async { fixture.is_member_on_node(0, "c1", "alice").await };
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
        raise.arg(fixture.keys.membership_generation(&c1));
        raise.exec_async(&mut fixture.store.clone()).await.unwrap();
        drop(tx);
    };
    let (answer, count, ()) = tokio::join!(asking, gathering, changing);
    assert!(answer);
    assert_eq!(count, 1);
    assert_eq!(
        fixture.cached_membership("c1", "alice").await,
        None,
        "the answer is not cached"
    );
    assert!(
        stored_participants(&fixture).await.is_empty(),
        "the participants are not cached"
    );
    assert!(fixture.is_member_on_node(0, "c1", "alice").await);
    assert_eq!(
        fixture.cached_membership("c1", "alice").await.as_deref(),
        Some("1")
    );
}
