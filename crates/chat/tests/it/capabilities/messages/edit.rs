//! Editing and deleting messages.

use std::time::Duration;

use parlor_chat::api::caller::Role;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::messages::MessageEdit;
use serde_json::json;

use super::fixture::{PublishedFrame, World, c1, person, user};
use super::test_on_all_backends;

test_on_all_backends! {
    an_edit_is_shown_in_the_list_and_to_the_nodes;
    a_deleted_message_stays_without_its_content;
    only_senders_and_admins_can_edit_or_delete_messages;
    a_change_of_a_message_that_was_not_applied_yet_comes_after_it;
    a_change_outdates_rows_that_were_read_before;
    what_changed_after_a_revision_is_found;
}

pub async fn an_edit_is_shown_in_the_list_and_to_the_nodes(mut world: World) {
    for nth in 1..=3 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    world.frames().await;
    let edited = world.edit(1, "alice", 2, "two").await.unwrap();
    assert_eq!((edited.content.as_str(), edited.rev), ("two", 4));
    assert_eq!(edited.edited_at, Some(world.now().to_iso8601()));
    let message = serde_json::to_value(&edited).unwrap();
    assert_eq!(
        world.frames().await,
        [PublishedFrame::Changed(2, 4, message.clone())]
    );
    let listed = world.recent_list().await;
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[1]["content"], "two");
    assert_eq!(listed[1]["timestamp"], message["createdAt"]);
    assert_eq!(world.newest(0).await, ["1", "two", "3"]);
    world.delete_applied_state().await;
    assert_eq!(world.newest(0).await, ["1", "two", "3"]);

    // Only the metadata changes; the text stays.
    let edit = MessageEdit {
        content: None,
        metadata: Some(json!({"seen": true})),
    };
    let messages = world.nodes[0].messages();
    let edited = messages
        .edit(&person("alice"), &c1(), 2, edit)
        .await
        .unwrap();
    assert_eq!(edited.content, "two");
    assert_eq!(edited.metadata, Some(json!({"seen": true})));
    let edited = world.edit(0, "alice", 2, "").await.unwrap();
    assert_eq!(
        edited.metadata,
        Some(json!({"seen": true})),
        "metadata without text is valid"
    );
    assert_eq!(
        world.edit(0, "alice", 3, "").await,
        Err(ErrorCode::InvalidRequest)
    );
}

async fn a_deleted_message_stays_without_its_content(mut world: World) {
    for nth in 1..=2 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    world.frames().await;
    let deleted = world.delete(1, "alice", 1).await.unwrap();
    assert_eq!((deleted.content.as_str(), deleted.seq), ("", 1));
    assert_eq!(deleted.deleted_at, Some(world.now().to_iso8601()));
    world.advance(Duration::from_secs(1)).await;
    assert_eq!(
        world.delete(0, "alice", 1).await.unwrap(),
        deleted,
        "repeating a delete has no effect"
    );
    assert_eq!(
        world.edit(0, "alice", 1, "x").await,
        Err(ErrorCode::MessageDeleted)
    );
    assert_eq!(world.newest(0).await, ["", "2"]);
    let changed = world.frames().await.len();
    assert!((1..=2).contains(&changed), "{changed}");
    assert_eq!(
        world.send(0, "alice", "3").await.rev,
        4,
        "the repeated delete used no revision"
    );
}

async fn only_senders_and_admins_can_edit_or_delete_messages(world: World) {
    world.send(0, "bob", "1").await;
    assert_eq!(
        world.edit(0, "carol", 1, "x").await,
        Err(ErrorCode::Forbidden)
    );
    assert_eq!(world.delete(0, "carol", 1).await, Err(ErrorCode::Forbidden));
    assert_eq!(
        world.edit(0, "mallory", 1, "x").await,
        Err(ErrorCode::NotAMember)
    );
    assert_eq!(
        world.edit(0, "mallory", 7, "x").await,
        Err(ErrorCode::NotAMember)
    );
    assert_eq!(world.edit(0, "bob", 7, "x").await, Err(ErrorCode::NotFound));
    let window = world.options.messages.edit_window;
    world.advance(window - Duration::from_millis(1)).await;
    assert!(world.edit(0, "bob", 1, "in time").await.is_ok());
    world.advance(Duration::from_millis(1)).await;
    assert_eq!(
        world.edit(0, "bob", 1, "x").await,
        Err(ErrorCode::EditWindowOver)
    );
    assert_eq!(
        world.delete(0, "bob", 1).await,
        Err(ErrorCode::EditWindowOver)
    );
    assert!(world.edit(0, "alice", 1, "the owner").await.is_ok());
    let messages = world.nodes[0].messages();
    for role in [Role::Admin, Role::Service] {
        let mut caller = person("root");
        caller.role = role;
        let edit = MessageEdit {
            content: Some(role.name().into()),
            metadata: None,
        };
        let edited = messages.edit(&caller, &c1(), 1, edit).await.unwrap();
        assert_eq!(edited.content, role.name());
        let gone = messages.delete(&caller, &c1(), 9).await.unwrap_err();
        assert_eq!(gone.code(), ErrorCode::NotFound);
    }
}

async fn a_change_of_a_message_that_was_not_applied_yet_comes_after_it(mut world: World) {
    world.send(0, "alice", "1").await;
    world.commit_without_applying("bob", "2").await;
    world.frames().await;
    world.edit(1, "bob", 2, "two").await.unwrap();
    let frames = world.frames().await;
    assert!(
        matches!(
            frames[..],
            [
                PublishedFrame::Created(2, _),
                PublishedFrame::Changed(2, ..)
            ]
        ),
        "{frames:?}"
    );
    assert_eq!(world.newest(0).await, ["1", "two"]);
    world.delete_applied_state().await;
    world.edit(1, "bob", 2, "zwei").await.unwrap();
    assert_eq!(world.newest(0).await, ["1", "zwei"]);
}

/// A message that is applied after the edit of an earlier one, and a refill from rows that were read before a change.
async fn a_change_outdates_rows_that_were_read_before(world: World) {
    world.send(0, "alice", "1").await;
    world.edit(0, "alice", 1, "one").await.unwrap();
    let top = world.watermark().await.unwrap();
    assert_eq!(top[2], 2, "revision of the last change");
    world.send(0, "alice", "2").await;
    assert_eq!(world.watermark().await.unwrap()[2], 2);
    assert_eq!(world.recent_list().await.len(), 2);
    // The watermark has a later revision: a message that was read before it is not pushed to the list.
    let mut later = redis::cmd("SET");
    later
        .arg(world.keys.apply_watermark(&c1()))
        .arg(format!("2|{}|9", top[1]));
    world.run(later.arg("EX").arg(3_660)).await;
    world.send(0, "alice", "3").await;
    assert_eq!(world.newest(0).await, ["one", "2", "3"]);
    assert!(
        world.recent_list().await.is_empty(),
        "the rows are older than the watermark"
    );
}

async fn what_changed_after_a_revision_is_found(world: World) {
    for nth in 1..=4 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    world.edit(0, "alice", 3, "three").await.unwrap();
    world.delete(0, "alice", 1).await.unwrap();
    let bob = user("bob");
    for (rev, expected) in [(0, &[1, 3][..]), (4, &[1, 3]), (5, &[1]), (6, &[])] {
        let messages = world.nodes[1].messages();
        let missed = messages.read_missed(&c1(), &bob, Some(4), Some(rev)).await;
        let changes = missed.unwrap().messages;
        let seqs: Vec<_> = changes.iter().map(|it| it.seq).collect();
        assert_eq!(seqs, expected, "after {rev}");
        if let Some(third) = changes.iter().find(|it| it.seq == 3) {
            assert_eq!(third.content, "three");
        }
    }
}
