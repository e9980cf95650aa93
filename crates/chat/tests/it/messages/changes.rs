//! Editing and deleting.

use std::time::Duration;

use parlor_chat::access::Role;
use parlor_chat::code::Code;
use parlor_chat::messages::Edit;
use serde_json::json;

use super::on_every_ground;
use super::world::{Told, World, c1, person, user};

on_every_ground! {
    an_edit_is_shown_in_the_list_and_to_the_nodes;
    a_deleted_message_stays_without_its_content;
    who_may_change_what;
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
    assert_eq!(edited.edited_at, Some(world.now().iso()));
    let message = serde_json::to_value(&edited).unwrap();
    assert_eq!(world.frames().await, [Told::Changed(2, 4, message.clone())]);
    let listed = world.list().await;
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[1]["content"], "two");
    assert_eq!(listed[1]["timestamp"], message["createdAt"]);
    assert_eq!(world.newest(0).await, ["1", "two", "3"]);
    world.forget().await;
    assert_eq!(world.newest(0).await, ["1", "two", "3"]);

    // Metadata alone; the text stays.
    let edit = Edit {
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
        "which is enough"
    );
    assert_eq!(
        world.edit(0, "alice", 3, "").await,
        Err(Code::InvalidRequest)
    );
}

async fn a_deleted_message_stays_without_its_content(mut world: World) {
    for nth in 1..=2 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    world.frames().await;
    let deleted = world.delete(1, "alice", 1).await.unwrap();
    assert_eq!((deleted.content.as_str(), deleted.seq), ("", 1));
    assert_eq!(deleted.deleted_at, Some(world.now().iso()));
    world.advance(Duration::from_secs(1)).await;
    assert_eq!(
        world.delete(0, "alice", 1).await.unwrap(),
        deleted,
        "harmless"
    );
    assert_eq!(
        world.edit(0, "alice", 1, "x").await,
        Err(Code::MessageDeleted)
    );
    assert_eq!(world.newest(0).await, ["", "2"]);
    let changed = world.frames().await.len();
    assert!((1..=2).contains(&changed), "{changed}");
    assert_eq!(
        world.send(0, "alice", "3").await.rev,
        4,
        "the repetition took none"
    );
}

async fn who_may_change_what(world: World) {
    world.send(0, "bob", "1").await;
    assert_eq!(world.edit(0, "carol", 1, "x").await, Err(Code::Forbidden));
    assert_eq!(world.delete(0, "carol", 1).await, Err(Code::Forbidden));
    assert_eq!(
        world.edit(0, "mallory", 1, "x").await,
        Err(Code::NotAMember)
    );
    assert_eq!(
        world.edit(0, "mallory", 7, "x").await,
        Err(Code::NotAMember)
    );
    assert_eq!(world.edit(0, "bob", 7, "x").await, Err(Code::NotFound));
    let window = world.options.messages.edit_window;
    world.advance(window - Duration::from_millis(1)).await;
    assert!(world.edit(0, "bob", 1, "in time").await.is_ok());
    world.advance(Duration::from_millis(1)).await;
    assert_eq!(
        world.edit(0, "bob", 1, "x").await,
        Err(Code::EditWindowOver)
    );
    assert_eq!(world.delete(0, "bob", 1).await, Err(Code::EditWindowOver));
    assert!(world.edit(0, "alice", 1, "the owner").await.is_ok());
    let messages = world.nodes[0].messages();
    for role in [Role::Admin, Role::Service] {
        let mut caller = person("root");
        caller.role = role;
        let edit = Edit {
            content: Some(role.name().into()),
            metadata: None,
        };
        let edited = messages.edit(&caller, &c1(), 1, edit).await.unwrap();
        assert_eq!(edited.content, role.name());
        let gone = messages.delete(&caller, &c1(), 9).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound);
    }
}

async fn a_change_of_a_message_that_was_not_applied_yet_comes_after_it(mut world: World) {
    world.send(0, "alice", "1").await;
    world.write_only("bob", "2").await;
    world.frames().await;
    world.edit(1, "bob", 2, "two").await.unwrap();
    let told = world.frames().await;
    assert!(
        matches!(told[..], [Told::Created(2, _), Told::Changed(2, ..)]),
        "{told:?}"
    );
    assert_eq!(world.newest(0).await, ["1", "two"]);
    world.forget().await;
    world.edit(1, "bob", 2, "zwei").await.unwrap();
    assert_eq!(world.newest(0).await, ["1", "zwei"]);
}

/// A sender whose step comes after the edit of its own message, and one who refills from rows that were read before.
async fn a_change_outdates_rows_that_were_read_before(world: World) {
    world.send(0, "alice", "1").await;
    world.edit(0, "alice", 1, "one").await.unwrap();
    let top = world.top().await.unwrap();
    assert_eq!(top[2], 2, "the revision of the last change");
    world.send(0, "alice", "2").await;
    assert_eq!(world.top().await.unwrap()[2], 2);
    assert_eq!(world.list().await.len(), 2);
    // A later change is known already: what was read before it is not pushed.
    let mut later = redis::cmd("SET");
    later
        .arg(world.keys.top(&c1()))
        .arg(format!("2|{}|9", top[1]));
    world.run(later.arg("EX").arg(3_660)).await;
    world.send(0, "alice", "3").await;
    assert_eq!(world.newest(0).await, ["one", "2", "3"]);
    assert!(world.list().await.is_empty(), "no rows are as new as that");
}

async fn what_changed_after_a_revision_is_found(world: World) {
    for nth in 1..=4 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    world.edit(0, "alice", 3, "three").await.unwrap();
    world.delete(0, "alice", 1).await.unwrap();
    let bob = user("bob");
    for (rev, expected) in [(0, &[3, 1][..]), (4, &[3, 1]), (5, &[1]), (6, &[])] {
        let messages = world.nodes[1].messages();
        let changes = messages.changes(&c1(), Some(&bob), rev, 100).await.unwrap();
        let seqs: Vec<_> = changes.iter().map(|it| it.seq).collect();
        assert_eq!(seqs, expected, "after {rev}");
    }
    let messages = world.nodes[1].messages();
    let first = messages.changes(&c1(), None, 0, 1).await.unwrap();
    assert_eq!(first[0].content, "three");
}
