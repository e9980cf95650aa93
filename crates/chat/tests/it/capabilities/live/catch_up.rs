//! Catching up with a conversation after an absence.

use std::collections::BTreeSet;

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::HistoryVisibility;
use parlor_chat::messages::{CatchUpConversation, JoinReply};
use tokio::sync::Semaphore;

use super::fixture::World;
use super::on_every_engine;
use crate::capabilities::messages::fixture::{c1, person, user};

on_every_engine! {
    follow_then_catch_up_delivers_every_message;
    catch_up_returns_new_and_changed_messages_by_seq;
    a_plain_number_is_enough_to_find_the_changes_since;
    catch_up_reports_has_more_beyond_the_page_limit;
    catch_up_respects_history_visibility;
}

async fn catch_up(world: &World, who: &str, seq: Option<u64>, rev: Option<u64>) -> JoinReply {
    let asked = CatchUpConversation {
        conversation_id: "c1".into(),
        after_seq: seq,
        after_rev: rev,
    };
    asked.run(&world.nodes[1], &person(who)).await.unwrap()
}

fn seqs(resumed: &JoinReply) -> Vec<u64> {
    resumed.missed.iter().map(|it| it.seq).collect()
}

pub async fn follow_then_catch_up_delivers_every_message(world: World) {
    // The subscribers release the sends step by step: a slow subscriber must not miss more messages than one reply can
    // return.
    let turns = Semaphore::new(0);
    let sends = async {
        let mut sent = 0;
        while sent < 120 {
            turns.acquire().await.unwrap().forget();
            sent = world.send(0, "alice", "x").await.seq;
        }
        sent
    };
    let subscribers = async {
        let mut subscribers = Vec::new();
        for nth in 0..10_u64 {
            turns.add_permits(10);
            let (subscriber, subscription) = world.subscribe(1, &[]).await;
            let resumed = catch_up(&world, "bob", Some(nth), None).await;
            turns.add_permits(2);
            subscribers.push((subscriber, subscription, resumed));
            wait_for_two_events(&subscribers[subscribers.len() - 1].0).await;
        }
        subscribers
    };
    let (last, subscribers) = tokio::join!(sends, subscribers);
    for (nth, (subscriber, _subscription, resumed)) in (0..).zip(subscribers) {
        subscriber.wait_for_seq(last).await;
        let missed = seqs(&resumed);
        assert_eq!(missed, (nth + 1..=resumed.last_seq).collect::<Vec<_>>());
        let live = subscriber.seqs();
        // The client drops messages that are in both.
        assert!(live.windows(2).all(|two| two[0] + 1 == two[1]), "{live:?}");
        let all: BTreeSet<u64> = missed.into_iter().chain(live).collect();
        assert_eq!(all, (nth + 1..=last).collect());
    }
}

async fn wait_for_two_events(subscriber: &super::fixture::RecordingSubscriber) {
    subscriber.wait_for_events(2).await;
}

async fn catch_up_returns_new_and_changed_messages_by_seq(world: World) {
    for _ in 0..6 {
        world.send(0, "alice", "x").await;
    }
    let before = catch_up(&world, "bob", None, None).await;
    assert_eq!(
        (before.last_seq, before.unread, before.missed),
        (6, 6, vec![])
    );
    world.edit(0, "alice", 4, "edited").await.unwrap();
    world.delete(0, "alice", 2).await.unwrap();
    world.edit(0, "alice", 6, "edited").await.unwrap();
    world.send(0, "alice", "x").await;
    world.edit(0, "alice", 7, "edited").await.unwrap();
    let typing = world.nodes[0].typing();
    typing.start(&c1(), &user("carol"), None).await.unwrap();
    let after = catch_up(&world, "bob", Some(5), Some(before.rev)).await;
    assert_eq!(seqs(&after), [2, 4, 6, 7]);
    assert_eq!(
        (after.last_seq, after.unread, after.has_more),
        (7, 7, false)
    );
    assert_eq!(after.typing.len(), 1);
    let again = catch_up(&world, "bob", Some(7), Some(after.rev)).await;
    assert_eq!(again.missed, []);
    let unchanged = catch_up(&world, "bob", Some(5), None).await;
    assert_eq!(seqs(&unchanged), [6, 7]);
}

async fn a_plain_number_is_enough_to_find_the_changes_since(world: World) {
    for _ in 0..3 {
        world.send(0, "alice", "x").await;
    }
    world.edit(0, "alice", 1, "before").await.unwrap();
    for _ in 0..2 {
        world.send(0, "alice", "x").await;
    }
    world.edit(0, "alice", 2, "since").await.unwrap();
    let messages = world.nodes[1].messages();
    let rev = messages.rev_at_seq(&c1(), 4).await.unwrap();
    let found = catch_up(&world, "bob", Some(4), Some(rev)).await;
    assert_eq!(seqs(&found), [2, 5]);
    // Message 4 itself was changed: no change may be missing.
    world.edit(0, "alice", 4, "since").await.unwrap();
    let rev = messages.rev_at_seq(&c1(), 4).await.unwrap();
    let found = catch_up(&world, "bob", Some(4), Some(rev)).await;
    assert_eq!(seqs(&found), [1, 2, 4, 5]);
    assert_eq!(messages.rev_at_seq(&c1(), 0).await.unwrap(), 0);
}

async fn catch_up_reports_has_more_beyond_the_page_limit(world: World) {
    let writes = (0..510).map(|_| world.commit_without_applying("alice", "x"));
    futures_util::future::join_all(writes).await;
    let found = catch_up(&world, "bob", Some(3), None).await;
    assert_eq!(seqs(&found), (4..=503).collect::<Vec<_>>());
    assert!(found.has_more);
    let rest = catch_up(&world, "bob", Some(503), None).await;
    assert_eq!(seqs(&rest), (504..=510).collect::<Vec<_>>());
    assert!(!rest.has_more);
    world
        .execute_sql(
            "UPDATE messages SET edited_at = 1, rev = rev + 510 WHERE conversation_id = 'c1'",
        )
        .await;
    world
        .execute_sql("UPDATE conversations SET rev = rev + 510 WHERE id = 'c1'")
        .await;
    let found = catch_up(&world, "bob", Some(510), Some(510)).await;
    assert_eq!(seqs(&found), (1..=500).collect::<Vec<_>>());
    assert!(found.has_more);
    // No message is returned either: its revision would be higher than that of the changes that are left.
    let changes = catch_up(&world, "bob", Some(505), Some(510)).await;
    assert_eq!(seqs(&changes), (1..=500).collect::<Vec<_>>());
    assert_eq!((changes.rev, changes.has_more), (found.rev, true));
    let rest = catch_up(&world, "bob", Some(510), Some(found.rev)).await;
    assert_eq!(seqs(&rest), (501..=510).collect::<Vec<_>>());
    assert_eq!((rest.rev, rest.has_more), (1_020, false));
}

async fn catch_up_respects_history_visibility(world: World) {
    world.create("c2", HistoryVisibility::SinceJoin).await;
    let c2 = parlor_chat::ids::ConversationId::new("c2").unwrap();
    let asked = CatchUpConversation {
        conversation_id: "c2".into(),
        after_seq: Some(0),
        after_rev: Some(0),
    };
    let refused = asked.clone().run(&world.nodes[0], &person("dave")).await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::NotAMember);
    let messages = world.nodes[0].messages();
    let alice = person("alice");
    let text = crate::capabilities::messages::fixture::text;
    messages.send(&alice, &c2, text("hidden")).await.unwrap();
    let join = parlor_chat::conversations::JoinConversation {
        conversation_id: "c2".into(),
    };
    join.run(&world.nodes[0], &person("dave")).await.unwrap();
    messages.send(&alice, &c2, text("shown")).await.unwrap();
    let edit = parlor_chat::messages::MessageEdit {
        content: Some("still hidden".into()),
        metadata: None,
    };
    messages.edit(&alice, &c2, 1, edit).await.unwrap();
    let found = asked.run(&world.nodes[0], &person("dave")).await.unwrap();
    assert_eq!(seqs(&found), [2]);
}
