//! Effects of a message besides its row: the position of its sender, the time of the conversation, mentions.

use parlor_chat::clock::Timestamp;
use parlor_chat::ids::UserId;

use super::fixture::{World, draft};
use super::on_both;

on_both! {
    a_message_moves_its_sender_and_nobody_else;
    each_message_of_a_commit_has_a_version_of_its_own;
    times_never_go_back;
    mentions_are_of_members_and_not_of_the_sender;
}

const POSITION: &str = "
    SELECT delivered_seq, read_seq, badge_seq, own_after, position_version, joined_version FROM members
    WHERE user_id = ";

async fn a_message_moves_its_sender_and_nobody_else(world: World) {
    world.conversation("c", &["alice", "bob"]).await;
    world.send(draft("c", "bob", "one")).await;
    world
        .execute("UPDATE members SET badge_seq = 0, own_after = 1 WHERE user_id = 'bob'")
        .await;
    let sent = world.send(draft("c", "alice", "two")).await;
    assert_eq!(
        (sent.sender.joined_version, sent.sender.position_version),
        (1, 1)
    );
    let alice: (i64, i64, i64, i64, i64, i64) = world.one(&format!("{POSITION} 'alice'")).await;
    assert_eq!(alice, (2, 2, 2, 0, 1, 1));
    let bob: (i64, i64, i64, i64, i64, i64) = world.one(&format!("{POSITION} 'bob'")).await;
    assert_eq!(bob, (1, 1, 0, 1, 1, 2));
    let sent = world.send(draft("c", "bob", "three")).await;
    assert_eq!(
        (sent.sender.joined_version, sent.sender.position_version),
        (2, 2)
    );
    let bob: (i64, i64, i64, i64, i64, i64) = world.one(&format!("{POSITION} 'bob'")).await;
    assert_eq!(bob, (3, 3, 3, 0, 2, 2));
}

async fn each_message_of_a_commit_has_a_version_of_its_own(world: World) {
    world.conversation("c", &["alice", "bob"]).await;
    let senders = (0..20).map(|n| if n % 3 == 0 { "bob" } else { "alice" });
    let drafts = senders.map(|sender| draft("c", sender, "hello")).collect();
    let mut versions = [0, 0];
    for answer in world.write_in_one_commit(drafts).await {
        let sent = answer.unwrap();
        let who = usize::from(sent.message.sender_id.as_str() == "bob");
        versions[who] += 1;
        assert_eq!(sent.sender.position_version, versions[who]);
        assert_eq!(sent.sender.joined_version, who as u64 + 1);
    }
    world.check().await;
}

async fn times_never_go_back(world: World) {
    world.conversation("c", &["alice"]).await;
    let times = [5_000, 4_000, 6_000, 1, 6_001];
    let drafts = times.map(|at| {
        let mut draft = draft("c", "alice", "hello");
        draft.at = Timestamp(at);
        draft
    });
    let mut answers = vec![world.send(drafts[0].clone()).await];
    let rest = drafts[1..].to_vec();
    answers.extend(
        world
            .write_in_one_commit(rest)
            .await
            .into_iter()
            .map(Result::unwrap),
    );
    for (answer, at) in answers.iter().zip([5_000, 5_000, 6_000, 6_000, 6_001]) {
        assert_eq!(answer.message.created_at, Timestamp(at).to_iso8601());
    }
    world.check().await;
}

fn users(names: &[&str]) -> Vec<UserId> {
    names
        .iter()
        .map(|name| UserId::new(name).unwrap())
        .collect()
}

async fn mentions_are_of_members_and_not_of_the_sender(world: World) {
    world.conversation("c", &["alice", "bob", "carol"]).await;
    world.conversation("d", &["alice", "dave"]).await;
    let drafts = ["c", "d", "c"].map(|conversation| {
        let mut draft = draft(conversation, "alice", "hello");
        draft.mentions = users(&["bob", "alice", "dave", "carol"]);
        draft
    });
    world
        .write_in_one_commit(drafts.to_vec())
        .await
        .into_iter()
        .for_each(|it| drop(it.unwrap()));
    let rows: Vec<(String, String, i64)> = world
        .all("SELECT user_id, conversation_id, seq FROM mentions ORDER BY 2, 3, 1")
        .await;
    let expected = [
        ("bob", "c", 1),
        ("carol", "c", 1),
        ("bob", "c", 2),
        ("carol", "c", 2),
        ("dave", "d", 1),
    ];
    assert_eq!(
        rows,
        expected.map(|(user, conversation, seq)| (user.into(), conversation.into(), seq))
    );
}
