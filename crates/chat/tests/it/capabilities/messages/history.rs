//! Reading pages and single messages.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::{HistoryVisibility, JoinConversation};
use parlor_chat::ids::ConversationId;
use parlor_chat::messages::HistoryAnchor;

use super::fixture::{World, c1, person, text, user};
use super::test_on_all_backends;

test_on_all_backends! {
    pages_are_those_of_a_model;
    a_member_who_may_not_see_the_past_does_not;
    concurrent_history_reads_share_one_database_read;
}

/// Expected page of a conversation with the messages 1 to `last`.
fn expected(last: u64, page: HistoryAnchor, limit: u64) -> (Vec<String>, bool) {
    let (seqs, more): (Vec<u64>, bool) = match page {
        HistoryAnchor::After(seq) => {
            let seqs: Vec<_> = (1..=last)
                .filter(|it| *it > seq)
                .take(limit as usize)
                .collect();
            let more = seqs.last().is_some_and(|it| *it < last);
            (seqs, more)
        }
        page => {
            let before = match page {
                HistoryAnchor::Before(seq) => seq,
                _ => u64::MAX,
            };
            let seqs = (1..=last).rev().filter(|it| *it < before);
            let mut seqs: Vec<_> = seqs.take(limit as usize).collect();
            seqs.reverse();
            let more = seqs.first().is_some_and(|it| *it > 1);
            (seqs, more)
        }
    };
    (seqs.iter().map(u64::to_string).collect(), more)
}

async fn pages_are_those_of_a_model(world: World) {
    assert_eq!(
        world.page(0, HistoryAnchor::Newest, 10).await,
        (Vec::new(), false)
    );
    let mut last = 0;
    for count in [3, 97, 1, 49] {
        for _ in 0..count {
            last += 1;
            world.send(0, "alice", &last.to_string()).await;
        }
        for cold in [false, true] {
            for limit in [1, 50, 100] {
                let seqs = [
                    0,
                    1,
                    2,
                    49,
                    50,
                    51,
                    last - 1,
                    last,
                    last + 1,
                    last + 2,
                    u64::MAX,
                ];
                let pages = seqs
                    .iter()
                    .flat_map(|it| [HistoryAnchor::Before(*it), HistoryAnchor::After(*it)]);
                for page in pages.chain([HistoryAnchor::Newest]) {
                    if cold {
                        world.delete_applied_state().await;
                    }
                    let found = world.page(1, page, limit).await;
                    assert_eq!(
                        found,
                        expected(last, page, limit),
                        "{page:?} {limit} of {last}"
                    );
                }
            }
        }
    }
    let (node, bob) = (world.nodes[1].messages(), user("bob"));
    for seq in [1, 50, 51, 150] {
        assert_eq!(
            node.find_message(&c1(), Some(&bob), seq).await.unwrap().seq,
            seq
        );
    }
    for seq in [0, 151, u64::MAX] {
        let missing = node.find_message(&c1(), Some(&bob), seq).await.unwrap_err();
        assert_eq!(missing.code(), ErrorCode::NotFound, "{seq}");
    }
}

async fn a_member_who_may_not_see_the_past_does_not(world: World) {
    world.create("c2", HistoryVisibility::SinceJoin).await;
    let c2 = ConversationId::new("c2").unwrap();
    let node = world.nodes[0].messages();
    for nth in 1..=3 {
        let new = text(&nth.to_string());
        node.send(&person("alice"), &c2, new).await.unwrap();
    }
    let join = JoinConversation {
        conversation_id: "c2".into(),
    };
    join.run(&world.nodes[0], &person("dave")).await.unwrap();
    for nth in 4..=5 {
        let new = text(&nth.to_string());
        node.send(&person("alice"), &c2, new).await.unwrap();
    }
    let (dave, alice) = (user("dave"), user("alice"));
    for page in [
        HistoryAnchor::Newest,
        HistoryAnchor::After(0),
        HistoryAnchor::Before(6),
    ] {
        let seen = node.history(&c2, Some(&dave), page, 100).await.unwrap();
        let seqs: Vec<_> = seen.messages.iter().map(|it| it.seq).collect();
        assert_eq!((seqs, seen.has_more), (vec![4, 5], false), "{page:?}");
        let all = node.history(&c2, Some(&alice), page, 100).await.unwrap();
        assert_eq!(all.messages.len(), 5);
    }
    let hidden = node.find_message(&c2, Some(&dave), 3).await.unwrap_err();
    assert_eq!(hidden.code(), ErrorCode::NotFound);
    node.delete(&person("alice"), &c2, 2).await.unwrap();
    node.delete(&person("alice"), &c2, 4).await.unwrap();
    let missed = node.read_missed(&c2, &dave, Some(5), Some(0)).await;
    let changed = missed.unwrap().messages;
    assert_eq!(changed.iter().map(|it| it.seq).collect::<Vec<_>>(), [4]);
}

async fn concurrent_history_reads_share_one_database_read(world: World) {
    for nth in 1..=5 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    world.newest(0).await;
    world.delete_applied_state().await;
    let before = world.nodes[0].messages().row_reads();
    let pages = (0..50).map(|_| world.newest(0));
    let pages = super::concurrency::all(pages).await;
    assert!(pages.iter().all(|it| it.len() == 5));
    let reads = world.nodes[0].messages().row_reads() - before;
    assert!(reads <= 3, "{reads}");
}
