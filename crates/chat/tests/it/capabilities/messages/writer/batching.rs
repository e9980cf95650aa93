//! Many concurrent senders.

use std::collections::HashSet;

use super::fixture::{World, answers, draft, draft_with_client_id};
use super::on_both;

const SENDERS: usize = 200;
const CONVERSATIONS: usize = 50;
const EACH: usize = 5;

on_both! {
    many_senders_leave_no_gap_and_each_message_is_there_once;
    a_message_is_stored_as_it_is_answered;
}

/// Each sender is a member of some conversations, and each conversation has many senders.
async fn many_senders_leave_no_gap_and_each_message_is_there_once(world: World) {
    let room = |sender: usize, nth: usize| (sender * 7 + nth * 11) % CONVERSATIONS;
    for at in 0..CONVERSATIONS {
        let inside = |sender: &usize| (0..EACH).any(|nth| room(*sender, nth) == at);
        let members: Vec<_> = (0..SENDERS)
            .filter(inside)
            .map(|n| format!("u{n}"))
            .collect();
        let members: Vec<_> = members.iter().map(String::as_str).collect();
        world.conversation(&format!("c{at}"), &members).await;
    }
    let sends = (0..SENDERS).map(|sender| {
        let writer = world.writer.clone();
        tokio::spawn(async move {
            let mut written = Vec::new();
            for nth in 0..EACH {
                let conversation = format!("c{}", room(sender, nth));
                let content = format!("{sender} {nth}");
                let draft = draft(&conversation, &format!("u{sender}"), &content);
                written.push(writer.send(draft).await.unwrap().message);
            }
            written
        })
    });
    let mut all = Vec::new();
    for send in sends.collect::<Vec<_>>() {
        all.extend(send.await.unwrap());
    }
    world.check().await;
    let acknowledged: HashSet<_> = all
        .into_iter()
        .map(|it| {
            (
                it.conversation_id.to_string(),
                it.seq.cast_signed(),
                it.id,
                it.content,
            )
        })
        .collect();
    assert_eq!(acknowledged.len(), SENDERS * EACH);
    let stored: Vec<(String, i64, String, String)> = world
        .all("SELECT conversation_id, seq, id, content FROM messages")
        .await;
    assert_eq!(stored.into_iter().collect::<HashSet<_>>(), acknowledged);
}

async fn a_message_is_stored_as_it_is_answered(world: World) {
    world.conversation("c", &["alice", "bob"]).await;
    let mut draft = draft_with_client_id("c", "alice", "mine");
    draft.metadata = Some(r#"{"b":1,"a":[null,"\u0000"]}"#.into());
    draft.sender_role = parlor_chat::api::caller::Role::Admin;
    let first = world.send(draft.clone()).await;
    assert_eq!(
        (first.sender.members_version, first.sender.member_count),
        (2, 2)
    );
    assert_eq!(first.sender.joined_version, 1);
    assert_eq!(
        serde_json::to_string(&first.message).unwrap(),
        format!(
            r#"{{"id":"{}","conversationId":"c","seq":1,"senderId":"alice","content":"mine","metadata":{{"b":1,"a":[null,"\u0000"]}},"clientId":"mine","createdAt":"1970-01-01T00:00:01.000Z","rev":1}}"#,
            draft.id
        )
    );
    let role: (String,) = world.one("SELECT sender_role FROM messages").await;
    assert_eq!(role.0, "admin");
    let again = answers(vec![world.spawn(draft)]).await.remove(0).unwrap();
    assert_eq!(again.message, first.message);
}
