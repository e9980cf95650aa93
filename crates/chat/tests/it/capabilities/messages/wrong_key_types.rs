//! Keys of a foreign type, and state that contradicts the database.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::{HistoryVisibility, JoinConversation};
use parlor_chat::database::PerBackend;
use parlor_chat::ids::ConversationId;
use parlor_chat::messages::{GetMessage, ListMessages};

use super::fixture::{World, c1, person, text, user};
use super::test_on_all_backends;

test_on_all_backends! {
    a_key_of_a_foreign_type_in_place_of_the_recent_list_stays;
    a_counter_of_a_foreign_type_is_replaced_by_the_memory_of_the_node;
    a_foreign_value_about_membership_keeps_nobody_from_sending;
    one_conversation_that_cannot_be_told_keeps_no_other_waiting;
    a_member_known_only_to_the_cache_gets_no_history;
}

async fn a_key_of_a_foreign_type_in_place_of_the_recent_list_stays(mut world: World) {
    let list = world.keys.recent_list(&c1());
    let mut set = redis::cmd("SET");
    set.arg(&list).arg("theirs");
    let stays = async |world: &World| {
        let mut pipe = redis::pipe();
        pipe.cmd("GET").arg(&list).cmd("PTTL").arg(&list);
        let found: (String, i64) = pipe.query_async(&mut world.store.clone()).await.unwrap();
        assert_eq!(found, ("theirs".to_owned(), -1));
    };
    world.run(&set).await;
    world.send(0, "alice", "one").await;
    world.frames().await;
    world.send(0, "bob", "two").await;
    assert_eq!(world.published_seqs().await, [2]);
    stays(&world).await;
    assert_eq!(world.newest(1).await, ["one", "two"]);
    world.edit(0, "alice", 1, "edited").await.unwrap();
    assert_eq!(world.newest(1).await, ["edited", "two"]);
    world.delete_applied_state().await;
    world.run(&set).await;
    world.send(1, "bob", "three").await;
    assert_eq!(world.newest(1).await, ["edited", "two", "three"]);
    stays(&world).await;
    // The list is installed again after its owner has removed the key.
    let mut del = redis::cmd("DEL");
    world.run(del.arg(&list)).await;
    assert_eq!(world.newest(0).await, ["edited", "two", "three"]);
    assert_eq!(world.recent_list().await.len(), 3);
}

async fn a_counter_of_a_foreign_type_is_replaced_by_the_memory_of_the_node(mut world: World) {
    world.options.messages.max_messages_per_window = 2;
    let node = world.start("n9").await;
    let counter = world.keys.message_counter(&user("alice"));
    let mut push = redis::cmd("RPUSH");
    world.run(push.arg(&counter).arg("theirs")).await;
    let send = async |who: &str| {
        let sent = node.messages().send(&person(who), &c1(), text("x")).await;
        sent.map(drop).map_err(|error| error.code())
    };
    assert_eq!(send("alice").await, Ok(()));
    assert_eq!(send("alice").await, Ok(()));
    assert_eq!(send("alice").await, Err(ErrorCode::RateLimited));
    assert_eq!(send("bob").await, Ok(()));
    let mut list = redis::cmd("LRANGE");
    list.arg(&counter).arg(0).arg(-1);
    let list: Vec<String> = list.query_async(&mut world.store.clone()).await.unwrap();
    assert_eq!(list, ["theirs"]);
}

async fn a_foreign_value_about_membership_keeps_nobody_from_sending(world: World) {
    let mut push = redis::cmd("RPUSH");
    push.arg(world.keys.membership(&c1(), &user("alice")))
        .arg("x");
    world.run(&push).await;
    assert_eq!(world.send(0, "alice", "one").await.seq, 1);
}

async fn one_conversation_that_cannot_be_told_keeps_no_other_waiting(world: World) {
    let names: Vec<_> = (2..10).map(|nth| format!("c{nth}")).collect();
    let ids: Vec<_> = names
        .iter()
        .map(|it| ConversationId::new(it).unwrap())
        .collect();
    for name in &names {
        world.create(name, HistoryVisibility::All).await;
    }
    let messages = world.nodes[0].messages();
    for id in ids.iter().chain([&c1()]) {
        // A watermark of a foreign type: no message can be applied.
        let mut push = redis::cmd("RPUSH");
        push.arg(world.keys.apply_watermark(id)).arg("x");
        world.run(&push).await;
        messages
            .send(&person("alice"), id, text("one"))
            .await
            .unwrap();
    }
    for id in &ids {
        let mut del = redis::cmd("DEL");
        del.arg(world.keys.apply_watermark(id));
        world.run(&del).await;
    }
    parlor_testkit::eventually("all other conversations are applied", async || {
        drop(world.nodes[0].outbox().drain().await);
        let mut exists = redis::pipe();
        for id in &ids {
            exists.cmd("EXISTS").arg(world.keys.apply_watermark(id));
        }
        let existing: Vec<u64> = exists.query_async(&mut world.store.clone()).await.unwrap();
        existing.iter().sum::<u64>() == 8
    })
    .await;
}

/// Like a crash between the commit of a removal and the invalidation of the caches.
async fn a_member_known_only_to_the_cache_gets_no_history(world: World) {
    world.create("c2", HistoryVisibility::SinceJoin).await;
    let c2 = ConversationId::new("c2").unwrap();
    let (node, dave) = (&world.nodes[0], person("dave"));
    let alice = person("alice");
    let sent = node.messages().send(&alice, &c2, text("past")).await;
    sent.unwrap();
    let join = JoinConversation {
        conversation_id: "c2".into(),
    };
    join.run(node, &dave).await.unwrap();
    let list = ListMessages {
        conversation_id: "c2".into(),
        ..ListMessages::default()
    };
    let seen = list.clone().run(node, &dave).await.unwrap();
    assert_eq!(seen.messages, []);

    let statement = "DELETE FROM members WHERE user_id = 'dave'";
    let mut tx = node.database().begin().await.unwrap();
    match tx.connection() {
        PerBackend::Sqlite(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
        PerBackend::Postgres(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
    }
    tx.commit().await.unwrap();
    let refused = list.run(node, &dave).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::NotAMember);
    let get = GetMessage {
        conversation_id: "c2".into(),
        seq: 1,
    };
    let refused = get.clone().run(node, &dave).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::NotAMember);
    // A service may read every conversation, even on behalf of a user who is not a member.
    let mut service = person("dave");
    service.role = parlor_chat::api::caller::Role::Service;
    assert_eq!(get.run(node, &service).await.unwrap().content, "past");
}
