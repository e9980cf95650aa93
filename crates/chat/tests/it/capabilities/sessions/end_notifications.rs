//! Connections that end with the session.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use parlor_chat::ChatOptions;
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::database::PerBackend;
use parlor_chat::ids::DeviceId;
use parlor_chat::keys::{KeySettings, Preset, SessionLayout};
use parlor_chat::sessions::{SessionEndReason, SessionEndWaiter, Sessions};
use parlor_store::BusEvent;
use parlor_testkit::eventually;

use super::fixture::{SessionsFixture, code, user};
use super::on_every_engine;
use crate::support::backend::TestBackend;

on_every_engine! {
    a_block_reaches_the_connections_of_every_node;
    a_logout_reaches_the_connections_of_every_node;
    recheck_finds_sessions_changed_by_another_service;
    a_node_that_missed_a_notification_finds_the_block_by_a_recheck;
    a_user_without_a_session_cannot_wait_for_its_end;
    a_late_logout_message_does_not_end_a_newer_session;
    a_registration_can_be_dropped_inside_its_handler;
}

async fn a_registration_can_be_dropped_inside_its_handler(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    let held = Arc::new(Mutex::new(Vec::new()));
    let reasons = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..2 {
        let (held_there, reasons_there) = (Arc::clone(&held), Arc::clone(&reasons));
        let ended = Arc::new(move |reason| {
            reasons_there.lock().push(reason);
            held_there.lock().clear();
        });
        let device = DeviceId::new("phone").unwrap();
        let admitted = fixture.nodes[0].admit_connection(alice.clone(), Some(&device), ended);
        let (_, registration) = admitted.await.unwrap();
        held.lock().push(registration.unwrap());
    }
    fixture.nodes[0].block(&user("alice"), None).await.unwrap();
    fixture.nodes[0].end(&user("alice")).await.unwrap();
    assert_eq!(*reasons.lock(), [SessionEndReason::Blocked; 2]);
}

async fn wait_for_end(fixture: &SessionsFixture, node: usize, caller: &Caller) -> SessionEndWaiter {
    fixture.nodes[node]
        .wait_for_session_end(caller, None)
        .await
        .unwrap()
}

pub async fn a_block_reaches_the_connections_of_every_node(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    let mut here = wait_for_end(&fixture, 0, &alice).await;
    let mut there = wait_for_end(&fixture, 1, &alice).await;
    let _tasks = Arc::clone(&fixture.nodes[1]).start_background_tasks();
    fixture.nodes[0].block(&user("alice"), None).await.unwrap();
    assert_eq!(here.wait().await, SessionEndReason::Blocked);
    assert_eq!(there.wait().await, SessionEndReason::Blocked);
}

pub async fn a_logout_reaches_the_connections_of_every_node(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    let bob = fixture.caller_with_session("bob").await;
    let mut there = wait_for_end(&fixture, 1, &alice).await;
    let mut other = wait_for_end(&fixture, 1, &bob).await;
    let _tasks = Arc::clone(&fixture.nodes[1]).start_background_tasks();
    fixture.nodes[0].end(&user("alice")).await.unwrap();
    assert_eq!(there.wait().await, SessionEndReason::Logout);
    fixture.nodes[0].block(&user("bob"), None).await.unwrap();
    assert_eq!(other.wait().await, SessionEndReason::Blocked);
}

async fn recheck_finds_sessions_changed_by_another_service(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    let bob = fixture.caller_with_session("bob").await;
    let mut alices = wait_for_end(&fixture, 1, &alice).await;
    let mut bobs = wait_for_end(&fixture, 1, &bob).await;
    fixture.run_as_other_service("DEL", "alice", &[]).await;
    fixture
        .run_as_other_service("HSET", "bob", &["active", "false"])
        .await;
    fixture.nodes[1].recheck_all().await.unwrap();
    assert_eq!(alices.wait().await, SessionEndReason::Logout);
    assert_eq!(bobs.wait().await, SessionEndReason::Blocked);
}

pub async fn a_node_that_missed_a_notification_finds_the_block_by_a_recheck(
    fixture: SessionsFixture,
) {
    let alice = fixture.caller_with_session("alice").await;
    // This node does not listen yet, like a node that has lost its connection to the bus.
    let mut there = wait_for_end(&fixture, 1, &alice).await;
    fixture.nodes[0].block(&user("alice"), None).await.unwrap();
    let _tasks = Arc::clone(&fixture.nodes[1]).start_background_tasks();
    assert_eq!(there.wait().await, SessionEndReason::Blocked);
}

async fn a_late_logout_message_does_not_end_a_newer_session(fixture: SessionsFixture) {
    let bus = fixture.store.bus();
    let channel = fixture.keys.control_channel();
    let mut heard = bus.subscribe(channel.as_str()).await.unwrap();
    let (alice, bob) = (
        fixture.caller_with_session("alice").await,
        fixture.caller_with_session("bob").await,
    );
    let mut old = wait_for_end(&fixture, 1, &alice).await;
    fixture.nodes[0].end(&user("alice")).await.unwrap();
    let Some(BusEvent::Message { payload, .. }) = heard.next().await else {
        unreachable!("the logout is published");
    };
    fixture.advance(Duration::from_secs(2)).await;
    let alice = fixture.caller_with_session("alice").await;
    let mut new = wait_for_end(&fixture, 1, &alice).await;
    let mut other = wait_for_end(&fixture, 1, &bob).await;
    let _tasks = Arc::clone(&fixture.nodes[1]).start_background_tasks();
    // A frame that arrives late, when the node listens.
    eventually("the frame is received", async || {
        let published = bus.publish(channel.as_str(), payload.to_vec()).await;
        published.unwrap();
        old.wait().now_or_never()
    })
    .await;
    fixture.nodes[0].block(&user("bob"), None).await.unwrap();
    assert_eq!(other.wait().await, SessionEndReason::Blocked);
    assert_eq!(new.wait().now_or_never(), None);
    // The same frame ends the connection of a user without a session.
    fixture.run_as_other_service("DEL", "alice", &[]).await;
    bus.publish(channel.as_str(), payload.to_vec())
        .await
        .unwrap();
    assert_eq!(new.wait().await, SessionEndReason::Logout);
}

async fn a_user_without_a_session_cannot_wait_for_its_end(fixture: SessionsFixture) {
    let alice = fixture.caller("alice");
    let refused = fixture.nodes[0].wait_for_session_end(&alice, None).await;
    assert_eq!(code(refused), Some(ErrorCode::SessionExpired));
}

#[tokio::test]
async fn a_second_device_replaces_the_first_where_only_one_is_allowed() {
    let fixture = SessionsFixture::with_single_device().await;
    let alice = fixture.caller_with_session("alice").await;
    let phone = DeviceId::new("phone").unwrap();
    let laptop = DeviceId::new("laptop").unwrap();
    let mut first = fixture.nodes[1]
        .wait_for_session_end(&alice, Some(&phone))
        .await
        .unwrap();
    let _tasks = Arc::clone(&fixture.nodes[1]).start_background_tasks();
    fixture.nodes[0]
        .begin(&alice, Some("laptop"))
        .await
        .unwrap();
    assert_eq!(first.wait().await, SessionEndReason::Replaced);
    let mut second = fixture.nodes[1]
        .wait_for_session_end(&alice, Some(&laptop))
        .await
        .unwrap();
    fixture.nodes[0]
        .begin(&alice, Some("laptop"))
        .await
        .unwrap();
    fixture.nodes[0].end(&user("alice")).await.unwrap();
    assert_eq!(second.wait().await, SessionEndReason::Logout);
}

#[tokio::test]
async fn a_block_is_applied_while_the_sessions_of_all_users_are_being_read() {
    let fixture = SessionsFixture::with_rows_only(TestBackend::redis().await).await;
    let alice = fixture.caller_with_session("alice").await;
    let mut settings = KeySettings::from_preset(Preset::Parlor);
    settings.layouts.session = SessionLayout::Off;
    let (context, timeout) = (fixture.context(settings), Duration::from_secs(600));
    let database = fixture.database_with_timeout(timeout).await;
    let node = Arc::new(Sessions::new(
        context,
        database.clone(),
        ChatOptions::default().sessions,
    ));
    let bus = fixture.store.bus();
    let channel = fixture.keys.control_channel();
    let mut frames = bus.subscribe(channel.as_str()).await.unwrap();
    let mut waiter = node.wait_for_session_end(&alice, None).await.unwrap();
    fixture.nodes[0].block(&user("alice"), None).await.unwrap();
    let Some(BusEvent::Message { payload, .. }) = frames.next().await else {
        unreachable!("the block is published");
    };
    // The re-check after the subscription waits for this lock.
    let mut lock = database.begin().await.unwrap();
    let PerBackend::Postgres(connection) = lock.connection() else {
        unreachable!("the fixture uses PostgreSQL");
    };
    sqlx::query("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
        .execute(connection)
        .await
        .unwrap();
    let _tasks = Arc::clone(&node).start_background_tasks();
    let reason = eventually("the block is applied", async || {
        let published = bus.publish(channel.as_str(), payload.to_vec()).await;
        published.unwrap();
        waiter.wait().now_or_never()
    });
    assert_eq!(reason.await, SessionEndReason::Blocked);
}
