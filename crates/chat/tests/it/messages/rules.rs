//! What may be sent, by whom, and how often.

use parlor_chat::code::Code;
use parlor_chat::messages::{NewMessage, Sent};
use serde_json::{Value, json};

use super::on_every_ground;
use super::world::{World, c1, person, text};

on_every_ground! {
    content_has_its_rules;
    a_repeated_client_id_is_the_first_message;
    a_repetition_applies_what_its_first_sender_left;
    the_rate_refuses_but_not_a_repetition;
    what_is_not_sent_takes_no_place_of_the_rate;
}

async fn send(world: &World, who: &str, new: NewMessage) -> Result<Sent, Code> {
    let messages = world.nodes[0].messages();
    let sent = messages.send(&person(who), &c1(), new).await;
    sent.map_err(|error| error.code())
}

fn with(content: &str, metadata: Value) -> NewMessage {
    NewMessage {
        metadata: Some(metadata),
        ..text(content)
    }
}

fn called(content: &str, client_id: &str) -> NewMessage {
    NewMessage {
        client_id: Some(client_id.into()),
        ..text(content)
    }
}

async fn content_has_its_rules(world: World) {
    let most = world.options.messages.max_content;
    let many: Vec<_> = (0..51).map(|nth| format!("u{nth}")).collect();
    for (new, code) in [
        (text(""), Code::InvalidRequest),
        (with("", Value::Null), Code::InvalidRequest),
        (text("a\0b"), Code::InvalidRequest),
        (text(&"x".repeat(most + 1)), Code::ContentTooLarge),
        (with("x", json!([1])), Code::InvalidRequest),
        (
            with("x", json!({"a": "x".repeat(4_096)})),
            Code::ContentTooLarge,
        ),
        (with("x", json!({"a": "\0"})), Code::InvalidRequest),
        (with("x", json!({"mentions": "bob"})), Code::InvalidRequest),
        (with("x", json!({"mentions": [1]})), Code::InvalidRequest),
        (with("x", json!({"mentions": ["a b"]})), Code::InvalidId),
        (with("x", json!({"mentions": many})), Code::TooMany),
        (called("x", ""), Code::InvalidRequest),
        (called("x", &"k".repeat(129)), Code::InvalidRequest),
        (called("x", "a\nb"), Code::InvalidRequest),
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
    assert_eq!(refused.code(), Code::ReadOnlySession);
    for new in [
        text(&"x".repeat(most)),
        with("", json!({"image": "a.png"})),
        with("hi", json!({"mentions": ["bob", "nobody", "bob"]})),
        called("x", &"k".repeat(128)),
    ] {
        send(&world, "alice", new).await.unwrap();
    }
}

async fn a_repeated_client_id_is_the_first_message(mut world: World) {
    let first = send(&world, "alice", called("one", "k")).await.unwrap();
    let again = send(&world, "alice", called("two", "k")).await.unwrap();
    assert!(!first.repeated && again.repeated);
    assert_eq!(first.message, again.message);
    let others = send(&world, "bob", called("three", "k")).await.unwrap();
    assert_eq!((others.repeated, others.message.seq), (false, 2));
    assert_eq!(world.created().await, [1, 2]);
    let attempts = (0..20).map(|_| send(&world, "carol", called("many", "k2")));
    let sent = super::order::all(attempts).await;
    assert_eq!(
        sent.iter()
            .filter(|it| !it.as_ref().unwrap().repeated)
            .count(),
        1
    );
    assert_eq!(world.created().await, [3]);
}

async fn a_repetition_applies_what_its_first_sender_left(mut world: World) {
    world.write_named("alice", "one", Some("k")).await;
    let again = send(&world, "alice", called("one", "k")).await.unwrap();
    assert!(again.repeated);
    let applied = async || world.top().await.is_some();
    parlor_testkit::eventually("it is applied", applied).await;
    assert_eq!(world.created().await, [1]);
}

async fn the_rate_refuses_but_not_a_repetition(mut world: World) {
    world.options.messages.rate = 3;
    world.nodes[0] = world.start("n0").await;
    send(&world, "alice", called("1", "k")).await.unwrap();
    for nth in 2..=3 {
        send(&world, "alice", text(&nth.to_string())).await.unwrap();
    }
    let messages = world.nodes[0].messages();
    let refused = messages
        .send(&person("alice"), &c1(), text("4"))
        .await
        .unwrap_err();
    let parlor_chat::error::Error::RateLimited { retry_after_ms } = refused else {
        panic!("{refused}");
    };
    assert!((1..=60_000).contains(&retry_after_ms), "{retry_after_ms}");
    let again = send(&world, "alice", called("x", "k")).await.unwrap();
    assert_eq!((again.repeated, again.message.seq), (true, 1));
    assert_eq!(
        send(&world, "alice", called("x", "new")).await,
        Err(Code::RateLimited)
    );
    send(&world, "bob", text("of another")).await.unwrap();
    world.advance(std::time::Duration::from_secs(60)).await;
    send(&world, "alice", text("4")).await.unwrap();
}

async fn what_is_not_sent_takes_no_place_of_the_rate(mut world: World) {
    world.options.messages.rate = 2;
    world.nodes[0] = world.start("n0").await;
    for _ in 0..5 {
        assert_eq!(
            send(&world, "mallory", text("x")).await,
            Err(Code::NotAMember)
        );
    }
    send(&world, "alice", called("1", "k")).await.unwrap();
    for _ in 0..5 {
        assert!(
            send(&world, "alice", called("1", "k"))
                .await
                .unwrap()
                .repeated
        );
    }
    let mut get = redis::cmd("GET");
    get.arg(world.keys.message_rate(&super::world::user("alice")));
    let used: Option<u64> = get.query_async(&mut world.store.clone()).await.unwrap();
    assert_eq!(used, Some(1));
    send(&world, "alice", text("2")).await.unwrap();
}
