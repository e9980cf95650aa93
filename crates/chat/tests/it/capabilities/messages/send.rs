//! Sending: validation, duplicates and the rate limit.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::Operation;
use parlor_chat::ids::ConversationId;
use parlor_chat::messages::{ListMessages, NewMessage, SentMessage};
use serde_json::{Value, json};

use super::fixture::{World, c1, person, text};
use super::test_on_all_backends;

test_on_all_backends! {
    message_content_is_validated;
    a_repeated_client_id_is_the_first_message;
    a_repetition_applies_what_its_first_sender_left;
    the_message_limit_does_not_apply_to_a_repeated_client_id;
    rejected_and_repeated_messages_do_not_count_against_the_limit;
    counters_and_lists_without_rows_stay_as_another_service_wrote_them;
}

async fn send(world: &World, who: &str, new: NewMessage) -> Result<SentMessage, ErrorCode> {
    let messages = world.nodes[0].messages();
    let sent = messages.send(&person(who), &c1(), new).await;
    sent.map_err(|error| error.code())
}

fn message_with_metadata(content: &str, metadata: Value) -> NewMessage {
    NewMessage {
        metadata: Some(metadata),
        ..text(content)
    }
}

fn message_with_client_id(content: &str, client_id: &str) -> NewMessage {
    NewMessage {
        client_id: Some(client_id.into()),
        ..text(content)
    }
}

async fn message_content_is_validated(world: World) {
    let most = world.options.messages.max_content_bytes;
    let many: Vec<_> = (0..51).map(|nth| format!("u{nth}")).collect();
    for (new, code) in [
        (text(""), ErrorCode::InvalidRequest),
        (
            message_with_metadata("", Value::Null),
            ErrorCode::InvalidRequest,
        ),
        (text("a\0b"), ErrorCode::InvalidRequest),
        (text(&"x".repeat(most + 1)), ErrorCode::ContentTooLarge),
        (
            message_with_metadata("x", json!([1])),
            ErrorCode::InvalidRequest,
        ),
        (
            message_with_metadata("x", json!({"a": "x".repeat(4_096)})),
            ErrorCode::ContentTooLarge,
        ),
        (
            message_with_metadata("x", json!({"a": "\0"})),
            ErrorCode::InvalidRequest,
        ),
        (
            message_with_metadata("x", json!({"mentions": "bob"})),
            ErrorCode::InvalidRequest,
        ),
        (
            message_with_metadata("x", json!({"mentions": [1]})),
            ErrorCode::InvalidRequest,
        ),
        (
            message_with_metadata("x", json!({"mentions": ["a b"]})),
            ErrorCode::InvalidId,
        ),
        (
            message_with_metadata("x", json!({"mentions": many})),
            ErrorCode::TooMany,
        ),
        (message_with_client_id("x", ""), ErrorCode::InvalidRequest),
        (
            message_with_client_id("x", &"k".repeat(129)),
            ErrorCode::InvalidRequest,
        ),
        (
            message_with_client_id("x", "a\nb"),
            ErrorCode::InvalidRequest,
        ),
        (
            message_with_client_id("x", "a\nb"),
            ErrorCode::InvalidRequest,
        ),
        (
            message_with_client_id("x", "a\0b"),
            ErrorCode::InvalidRequest,
        ),
    ] {
        assert_eq!(
            send(&world, "alice", new.clone()).await,
            Err(code),
            "{new:?}"
        );
    }
    let mut visitor = person("alice");
    visitor.anonymous = true;
    let messages = world.nodes[0].messages();
    let refused = messages.send(&visitor, &c1(), text("x")).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ReadOnlySession);
    for new in [
        text(&"x".repeat(most)),
        message_with_metadata("", json!({"image": "a.png"})),
        message_with_metadata("hi", json!({"mentions": ["bob", "nobody", "bob"]})),
        message_with_client_id("x", &"k".repeat(128)),
    ] {
        send(&world, "alice", new).await.unwrap();
    }
}

async fn a_repeated_client_id_is_the_first_message(mut world: World) {
    let first = send(&world, "alice", message_with_client_id("one", "k"))
        .await
        .unwrap();
    let again = send(&world, "alice", message_with_client_id("two", "k"))
        .await
        .unwrap();
    assert!(!first.is_duplicate && again.is_duplicate);
    assert_eq!(first.message, again.message);
    let others = send(&world, "bob", message_with_client_id("three", "k"))
        .await
        .unwrap();
    assert_eq!((others.is_duplicate, others.message.seq), (false, 2));
    assert_eq!(world.published_seqs().await, [1, 2]);
    let attempts = (0..20).map(|_| send(&world, "carol", message_with_client_id("many", "k2")));
    let sent = super::concurrency::all(attempts).await;
    assert_eq!(
        sent.iter()
            .filter(|it| !it.as_ref().unwrap().is_duplicate)
            .count(),
        1
    );
    assert_eq!(world.published_seqs().await, [3]);
}

async fn a_repetition_applies_what_its_first_sender_left(mut world: World) {
    world.commit_with_client_id("alice", "one", Some("k")).await;
    let again = send(&world, "alice", message_with_client_id("one", "k"))
        .await
        .unwrap();
    assert!(again.is_duplicate);
    let applied = async || world.watermark().await.is_some();
    parlor_testkit::eventually("the message is applied", applied).await;
    assert_eq!(world.published_seqs().await, [1]);
}

async fn the_message_limit_does_not_apply_to_a_repeated_client_id(mut world: World) {
    world.options.messages.max_messages_per_window = 3;
    world.nodes[0] = world.start("n0").await;
    send(&world, "alice", message_with_client_id("1", "k"))
        .await
        .unwrap();
    for nth in 2..=3 {
        send(&world, "alice", text(&nth.to_string())).await.unwrap();
    }
    let messages = world.nodes[0].messages();
    let refused = messages
        .send(&person("alice"), &c1(), text("4"))
        .await
        .unwrap_err();
    let parlor_chat::api::error::Error::RateLimited { retry_after_ms } = refused else {
        panic!("{refused}");
    };
    assert!((1..=60_000).contains(&retry_after_ms), "{retry_after_ms}");
    let again = send(&world, "alice", message_with_client_id("x", "k"))
        .await
        .unwrap();
    assert_eq!((again.is_duplicate, again.message.seq), (true, 1));
    assert_eq!(
        send(&world, "alice", message_with_client_id("x", "new")).await,
        Err(ErrorCode::RateLimited)
    );
    send(&world, "bob", text("of another")).await.unwrap();
    world.advance(std::time::Duration::from_secs(60)).await;
    send(&world, "alice", text("4")).await.unwrap();
}

async fn rejected_and_repeated_messages_do_not_count_against_the_limit(mut world: World) {
    world.options.messages.max_messages_per_window = 2;
    world.nodes[0] = world.start("n0").await;
    for _ in 0..5 {
        assert_eq!(
            send(&world, "mallory", text("x")).await,
            Err(ErrorCode::NotAMember)
        );
    }
    send(&world, "alice", message_with_client_id("1", "k"))
        .await
        .unwrap();
    for _ in 0..5 {
        assert!(
            send(&world, "alice", message_with_client_id("1", "k"))
                .await
                .unwrap()
                .is_duplicate
        );
    }
    let mut get = redis::cmd("GET");
    get.arg(world.keys.message_counter(&super::fixture::user("alice")));
    let used: Option<u64> = get.query_async(&mut world.store.clone()).await.unwrap();
    assert_eq!(used, Some(1));
    send(&world, "alice", text("2")).await.unwrap();
}

/// Mallory and the conversation `elsewhere` have no rows: another service counts and lists their messages.
async fn counters_and_lists_without_rows_stay_as_another_service_wrote_them(world: World) {
    let elsewhere = ConversationId::new("elsewhere").unwrap();
    let list = world.keys.recent_list(&elsewhere);
    let counter = world.keys.message_counter(&super::fixture::user("mallory"));
    let mut pipe = redis::pipe();
    pipe.rpush(&list, "theirs").ignore();
    pipe.cmd("SET")
        .arg(&counter)
        .arg(7)
        .arg("PX")
        .arg(50_000)
        .ignore();
    pipe.exec_async(&mut world.store.clone()).await.unwrap();
    assert_eq!(
        send(&world, "mallory", text("x")).await,
        Err(ErrorCode::NotAMember)
    );
    let messages = world.nodes[0].messages();
    let sent = messages.send(&person("alice"), &elsewhere, text("x")).await;
    assert_eq!(sent.unwrap_err().code(), ErrorCode::NotAMember);
    let page = ListMessages {
        conversation_id: "elsewhere".to_owned(),
        ..Default::default()
    };
    let listed = page.run(&world.nodes[0], &person("alice")).await;
    assert_eq!(listed.unwrap_err().code(), ErrorCode::NotAMember);
    let mut pipe = redis::pipe();
    pipe.cmd("GET").arg(&counter).cmd("PTTL").arg(&counter);
    pipe.cmd("LRANGE")
        .arg(&list)
        .arg(0)
        .arg(-1)
        .cmd("TTL")
        .arg(&list);
    let found: (u64, i64, Vec<String>, i64) =
        pipe.query_async(&mut world.store.clone()).await.unwrap();
    assert_eq!(
        (found.0, found.2, found.3),
        (7, vec!["theirs".to_owned()], -1)
    );
    assert!((1..=50_000).contains(&found.1), "{}", found.1);
}
