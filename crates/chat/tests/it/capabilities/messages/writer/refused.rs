//! A refused message does not fail the other messages of a batch.

use parlor_chat::api::error::Error;

use super::fixture::{World, draft, draft_with_client_id};
use super::on_both;

on_both! {
    a_non_member_in_a_batch_is_rejected_alone;
    a_message_that_the_database_refuses_is_refused_alone;
}

async fn a_non_member_in_a_batch_is_rejected_alone(world: World) {
    world.conversation("c", &["alice", "bob"]).await;
    world.conversation("d", &["carol"]).await;
    let mut drafts = Vec::new();
    for n in 0..10 {
        drafts.push(draft("c", "alice", &n.to_string()));
        drafts.push(draft("c", "carol", "not here"));
        drafts.push(draft_with_client_id("nowhere", "alice", "nor there"));
        drafts.push(draft("d", "carol", &n.to_string()));
    }
    for (at, answer) in world
        .write_in_one_commit(drafts)
        .await
        .into_iter()
        .enumerate()
    {
        match at % 4 {
            0 | 3 => assert_eq!(answer.unwrap().message.seq, at as u64 / 4 + 1),
            _ => assert!(matches!(answer, Err(Error::NotAMember(_))), "{answer:?}"),
        }
    }
    world.check().await;
}

async fn a_message_that_the_database_refuses_is_refused_alone(world: World) {
    world.conversation("c", &["alice", "bob"]).await;
    world.conversation("d", &["alice"]).await;
    world
        .execute(match world.server {
            None => {
                "CREATE TRIGGER good BEFORE INSERT ON messages WHEN NEW.content = 'bad'
                 BEGIN SELECT RAISE(ABORT, 'bad'); END"
            }
            Some(_) => "ALTER TABLE messages ADD CONSTRAINT good CHECK (content <> 'bad')",
        })
        .await;
    let mut drafts = Vec::new();
    for n in 0..50 {
        drafts.push(draft("c", "alice", &n.to_string()));
        drafts.push(draft("d", "alice", &n.to_string()));
    }
    drafts[33].content = "bad".into();
    drafts[34].content = "bad".into();
    drafts[99].content = "bad".into();
    for (at, answer) in world
        .write_in_one_commit(drafts)
        .await
        .into_iter()
        .enumerate()
    {
        match at {
            33 | 34 | 99 => assert!(
                matches!(answer, Err(Error::DatabaseRejected(_))),
                "{answer:?}"
            ),
            _ => drop(answer.unwrap()),
        }
    }
    world.check().await;
    let count: (i64,) = world.one("SELECT count(*) FROM messages").await;
    assert_eq!(count.0, 97);
}
