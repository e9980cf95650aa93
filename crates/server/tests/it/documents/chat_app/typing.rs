//! Checks of section 2: one document per typing user, for three seconds.
//!
//! A typing state lives for three seconds of real time. A check that has to see one therefore types again if the machine
//! was too slow.

use parlor_testkit::{SocketIoTestClient, eventually};
use serde_json::{Value, json};

use crate::documents::side_by_side::SideBySide;
use crate::http::client::call;
use crate::socketio::emit_ok;
use crate::tokens::{service, token_with_claims};

/// Creates a conversation and connects its member, who is named `john_doe`.
async fn typist(run: &SideBySide, conversation: &str, user: &str) -> SocketIoTestClient {
    run.conversation(conversation, &[user]).await;
    let token = token_with_claims(user, &json!({ "name": "john_doe" }));
    let auth = json!({ "token": token, "deviceId": "phone" });
    let client = SocketIoTestClient::connect(run.node.http_address(), &auth).await;
    client.unwrap_or_else(|error| panic!("{error:?}"))
}

async fn start(client: &mut SocketIoTestClient, conversation: &str) {
    let body = json!({ "conversationId": conversation });
    emit_ok(client, "typing:start", body).await;
}

async fn stop(client: &mut SocketIoTestClient, conversation: &str) {
    let body = json!({ "conversationId": conversation });
    emit_ok(client, "typing:stop", body).await;
}

/// The document of a typing user; `None` if there is none.
async fn read(run: &SideBySide, conversation: &str, user: &str) -> Option<Value> {
    let line = format!("GET typing:{conversation}:{user}");
    let text = run.old.run(&line).await;
    text.as_str()
        .map(|text| serde_json::from_str(text).unwrap())
}

/// Types until `look` has seen what it waits for.
async fn typing<T>(
    client: &mut SocketIoTestClient,
    conversation: &str,
    mut look: impl AsyncFnMut(&mut SocketIoTestClient) -> Option<T>,
) -> T {
    eventually("the typing state is seen", async || {
        // Without a stop, the throttle would drop the start.
        stop(client, conversation).await;
        start(client, conversation).await;
        look(client).await
    })
    .await
}

/// The document with the documented fields and TTL.
pub(super) async fn the_document_of_a_typing_user(run: &SideBySide) {
    let (conversation, user) = (unique("conv"), unique("typist"));
    let mut client = typist(run, &conversation, &user).await;
    let key = format!("typing:{conversation}:{user}");
    let (text, left) = typing(&mut client, &conversation, async |_| {
        let text = run.old.run(&format!("GET {key}")).await;
        let left = run.old.run(&format!("PTTL {key}")).await.as_i64().unwrap();
        text.as_str()
            .map(|text| (text.to_owned(), left))
            .filter(|_| left > 0)
    })
    .await;
    assert!(left <= 3_000, "{left}");
    let document: Value = serde_json::from_str(&text).unwrap();
    let at = document["timestamp"].as_u64().unwrap();
    assert!(at > 1_700_000_000_000, "in ms: {text}");
    let expected = format!(r#"{{"userId":"{user}","username":"john_doe","timestamp":{at}}}"#);
    assert_eq!(text, expected);
    client.disconnect().await.unwrap();
}

/// Checks run several times in one table, and a conversation can be created only once.
fn unique(name: &str) -> String {
    format!("{name}-{:08x}", rand::random::<u32>())
}

/// `KEYS typing:*` finds typing users only.
pub(super) async fn one_key_per_typing_user(run: &SideBySide) {
    let (conversation, user) = (unique("conv"), unique("typist"));
    let mut client = typist(run, &conversation, &user).await;
    let expected = json!([format!("typing:{conversation}:{user}")]);
    // The typing states of earlier checks end meanwhile.
    typing(&mut client, &conversation, async |_| {
        (run.old.run("KEYS typing:*").await == expected).then_some(())
    })
    .await;
    stop(&mut client, &conversation).await;
    assert_eq!(run.old.run("KEYS typing:*").await, json!([]));
    client.disconnect().await.unwrap();
}

/// A start within two seconds writes nothing.
pub(super) async fn a_second_start_is_throttled(run: &SideBySide) {
    let (conversation, user) = (unique("conv"), unique("typist"));
    let mut client = typist(run, &conversation, &user).await;
    // On a machine that was paused for two seconds the second start is written, and the state is typed again.
    typing(&mut client, &conversation, async |client| {
        let first = read(run, &conversation, &user).await?;
        start(client, &conversation).await;
        let second = read(run, &conversation, &user).await?;
        (first == second).then_some(())
    })
    .await;
    client.disconnect().await.unwrap();
}

/// A user types in two conversations, and two users in one.
pub(super) async fn the_throttle_is_per_user_and_conversation(run: &SideBySide) {
    let (one, other, user) = (unique("conv"), unique("conv"), unique("typist"));
    let mut client = typist(run, &one, &user).await;
    typist(run, &other, &user).await.disconnect().await.unwrap();
    typing(&mut client, &one, async |client| {
        stop(client, &other).await;
        start(client, &other).await;
        read(run, &one, &user)
            .await
            .and(read(run, &other, &user).await)
    })
    .await;
    let friend = unique("typist");
    let add = call("PUT", &format!("/v1/conversations/{one}/members/{friend}"));
    add.by(&service()).json(json!({})).at(&run.node).await;
    let mut second = run.connect(&friend).await;
    typing(&mut client, &one, async |_| {
        stop(&mut second, &one).await;
        start(&mut second, &one).await;
        read(run, &one, &user)
            .await
            .and(read(run, &one, &friend).await)
    })
    .await;
    second.disconnect().await.unwrap();
    client.disconnect().await.unwrap();
}

/// A stop, and a message, delete the key at once.
pub(super) async fn a_stop_deletes_the_key(run: &SideBySide) {
    let (conversation, user) = (unique("conv"), unique("typist"));
    let mut client = typist(run, &conversation, &user).await;
    for is_message in [false, true] {
        typing(&mut client, &conversation, async |_| {
            read(run, &conversation, &user).await
        })
        .await;
        if is_message {
            let body = json!({ "conversationId": conversation, "content": "done" });
            emit_ok(&mut client, "message:send", body).await;
        } else {
            stop(&mut client, &conversation).await;
        }
        assert_eq!(read(run, &conversation, &user).await, None, "{is_message}");
    }
    client.disconnect().await.unwrap();
}

/// The TTL ends the state of a client that sends no stop.
pub(super) async fn a_client_that_vanishes_stops_to_type(run: &SideBySide) {
    let (conversation, user) = (unique("conv"), unique("typist"));
    let mut client = typist(run, &conversation, &user).await;
    typing(&mut client, &conversation, async |_| {
        read(run, &conversation, &user).await
    })
    .await;
    drop(client);
    eventually("the typing state has ended", async || {
        let typing = run.old.call("typingUsers", json!([conversation])).await;
        typing == json!([])
    })
    .await;
}

/// The old service lists the users who type on both sides. Parlor lists its own: there is no index of the others.
pub(super) async fn users_of_both_sides_are_listed(run: &SideBySide) {
    let (conversation, user) = (unique("conv"), unique("a-typist"));
    let mut client = typist(run, &conversation, &user).await;
    let list = format!("/v1/conversations/{conversation}/typing");
    let (in_old, in_parlor) = typing(&mut client, &conversation, async |_| {
        let old = &run.old;
        let other = json!([conversation, "z-typist", "Zoe"]);
        old.call("stopTyping", json!([conversation, "z-typist"]))
            .await;
        old.call("startTyping", other).await;
        let in_parlor = call("GET", &list).by(&service()).at(&run.node).await.ok();
        let in_old = old.call("typingUsers", json!([conversation])).await;
        let count = in_old.as_array().unwrap().len();
        (count == 2).then_some((in_old, in_parlor))
    })
    .await;
    let names = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|it| it["username"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&in_old), ["john_doe", "Zoe"]);
    assert_eq!(names(&in_parlor["typing"]), ["john_doe"]);
    client.disconnect().await.unwrap();
}

/// A stop on one side leaves the state of the other side, also of a user who types on both.
pub(super) async fn each_side_stops_its_own_users(run: &SideBySide) {
    let (conversation, user) = (unique("conv"), unique("typist"));
    let mut client = typist(run, &conversation, &user).await;
    let start_old = json!([conversation, user, "old"]);
    let stop_old = json!([conversation, user]);
    typing(&mut client, &conversation, async |client| {
        run.old.call("stopTyping", stop_old.clone()).await;
        // Without its own key, a stop of Parlor still ends the state in Parlor.
        run.old.call("startTyping", start_old.clone()).await;
        stop(client, &conversation).await;
        let document = read(run, &conversation, &user).await?;
        assert_eq!(document["username"], "old");
        Some(())
    })
    .await;
    assert_eq!(
        run.old
            .call("stopTyping", stop_old)
            .await
            .as_u64()
            .map(|it| it <= 1),
        Some(true)
    );
    assert_eq!(read(run, &conversation, &user).await, None);
    client.disconnect().await.unwrap();
}

/// Sizes of the values in the memory table, with the ids of the document.
pub(super) async fn values_have_the_documented_size(run: &SideBySide) {
    let client = run.connect("user-123").await;
    let presence = run.old.run("STRLEN presence:user-123").await;
    assert!(presence.as_u64().unwrap() <= 80, "{presence}");
    client.disconnect().await.unwrap();
    let (conversation, user) = (unique("conv"), unique("typist"));
    let mut client = typist(run, &conversation, &user).await;
    let document = typing(&mut client, &conversation, async |_| {
        read(run, &conversation, &user).await
    })
    .await;
    assert!(document.to_string().len() <= 100, "{document}");
    client.disconnect().await.unwrap();
}

/// A subscriber of the notifications learns that a typing state has ended.
pub(super) async fn the_end_of_a_key_is_notified(run: &SideBySide) {
    const EXPIRED: &str = "__keyevent@0__:expired";
    run.old.run("CONFIG SET notify-keyspace-events Ex").await;
    run.old.subscribe(EXPIRED).await;
    let (conversation, user) = (unique("conv"), unique("typist"));
    let mut client = typist(run, &conversation, &user).await;
    start(&mut client, &conversation).await;
    let key = format!("typing:{conversation}:{user}");
    run.old.next_message(EXPIRED, |name| *name == key).await;
    client.disconnect().await.unwrap();
}
