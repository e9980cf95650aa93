//! A message with a client id is stored once: a repetition returns the first message.

use parlor_chat::messages::writer::WrittenMessage;

use super::fixture::{World, draft, draft_with_client_id};
use super::on_both;

on_both! {
    a_repeated_name_gives_the_first_message;
    repetitions_in_one_commit_give_one_message;
    repetitions_on_many_tasks_give_one_message;
    a_client_id_is_scoped_to_sender_and_conversation;
    a_repetition_of_somebody_who_left_is_still_answered;
}

fn assert_same_message(answers: &[WrittenMessage]) {
    let first = answers.iter().filter(|it| !it.is_duplicate).count();
    assert_eq!(first, 1);
    for answer in answers {
        assert_eq!(answer.message, answers[0].message);
        assert_eq!(
            answer.sender.position_version,
            answers[0].sender.position_version
        );
    }
}

async fn a_repeated_name_gives_the_first_message(world: World) {
    world.conversation("c", &["alice"]).await;
    let first = world.send(draft_with_client_id("c", "alice", "x")).await;
    world.send(draft("c", "alice", "another")).await;
    let mut other = draft_with_client_id("c", "alice", "x");
    other.content = "changed".into();
    let again = world.send(other).await;
    assert!(again.is_duplicate && !first.is_duplicate);
    assert_eq!(again.message, first.message);
    assert_eq!(
        (again.sender.joined_version, again.sender.position_version),
        (1, 2)
    );
    assert_eq!(
        (again.sender.members_version, again.sender.member_count),
        (1, 1)
    );
    // The repetition has changed nothing.
    world.check().await;
    let row: (i64, i64) = world
        .one("SELECT badge_seq, position_version FROM members")
        .await;
    assert_eq!(row, (2, 2));
    // The repetition returns the current state of the message.
    world
        .execute("UPDATE messages SET deleted_at = 5000, metadata = '{}' WHERE seq = 1")
        .await;
    let deleted = world
        .send(draft_with_client_id("c", "alice", "x"))
        .await
        .message;
    assert_eq!((deleted.content.as_str(), deleted.metadata), ("", None));
    assert_eq!(deleted.deleted_at.unwrap(), "1970-01-01T00:00:05.000Z");
}

async fn repetitions_in_one_commit_give_one_message(world: World) {
    world.conversation("c", &["alice", "bob"]).await;
    let mut drafts = vec![draft("c", "bob", "before")];
    for n in 0..10 {
        drafts.push(draft_with_client_id("c", "alice", "x"));
        drafts.push(draft("c", "bob", &n.to_string()));
    }
    let answers: Vec<_> = world
        .write_in_one_commit(drafts)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let alice = |it: &WrittenMessage| it.message.sender_id.as_str() == "alice";
    assert_same_message(&answers.into_iter().filter(alice).collect::<Vec<_>>());
    world.check().await;
    let count: (i64,) = world.one("SELECT count(*) FROM messages").await;
    assert_eq!(count.0, 12);
}

async fn repetitions_on_many_tasks_give_one_message(world: World) {
    world.conversation("c", &["alice"]).await;
    let sends: Vec<_> = (0..50)
        .map(|_| world.spawn(draft_with_client_id("c", "alice", "x")))
        .collect();
    let answers = super::fixture::answers(sends).await;
    assert_same_message(&answers.into_iter().map(Result::unwrap).collect::<Vec<_>>());
    world.check().await;
}

async fn a_client_id_is_scoped_to_sender_and_conversation(world: World) {
    world.conversation("c", &["alice", "bob"]).await;
    world.conversation("d", &["alice", "bob"]).await;
    let mut drafts = Vec::new();
    for conversation in ["c", "d"] {
        drafts
            .extend(["alice", "bob"].map(|sender| draft_with_client_id(conversation, sender, "x")));
    }
    for answer in world.write_in_one_commit(drafts).await {
        assert!(!answer.unwrap().is_duplicate);
    }
    world.check().await;
}

async fn a_repetition_of_somebody_who_left_is_still_answered(world: World) {
    world.conversation("c", &["alice", "bob"]).await;
    let first = world.send(draft_with_client_id("c", "alice", "x")).await;
    world
        .execute("DELETE FROM members WHERE user_id = 'alice'")
        .await;
    let again = world.send(draft_with_client_id("c", "alice", "x")).await;
    assert_eq!(again.message, first.message);
    assert_eq!(
        (again.sender.joined_version, again.sender.position_version),
        (0, 0)
    );
}
