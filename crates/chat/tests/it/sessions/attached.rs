//! Connections that last no longer than the session.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use parlor_chat::access::Caller;
use parlor_chat::code::Code;
use parlor_chat::ids::DeviceId;
use parlor_chat::sessions::{Attached, Reason};
use parlor_store::Event;
use parlor_testkit::eventually;

use super::on_every_engine;
use super::world::{World, code, user};

on_every_engine! {
    a_block_reaches_the_connections_of_every_node;
    a_logout_reaches_the_connections_of_every_node;
    what_another_service_did_is_found_by_asking;
    a_node_that_heard_nothing_finds_out_by_asking;
    nobody_is_attached_without_a_session;
    late_news_of_a_logout_spare_who_signed_in_since;
    who_is_called_may_let_go_at_once;
}

async fn who_is_called_may_let_go_at_once(world: World) {
    let alice = world.signed_in("alice").await;
    let held = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..2 {
        let (held_there, told_there) = (Arc::clone(&held), Arc::clone(&told));
        let ended = Arc::new(move |reason| {
            told_there.lock().push(reason);
            held_there.lock().clear();
        });
        let attachment = world.nodes[0].attach_with(&alice, None, ended).await;
        held.lock().push(attachment.unwrap());
    }
    world.nodes[0].block(&user("alice"), None).await.unwrap();
    world.nodes[0].end(&user("alice")).await.unwrap();
    assert_eq!(*told.lock(), [Reason::Blocked; 2]);
}

async fn attached(world: &World, node: usize, caller: &Caller) -> Attached {
    world.nodes[node].attach(caller, None).await.unwrap()
}

pub async fn a_block_reaches_the_connections_of_every_node(world: World) {
    let alice = world.signed_in("alice").await;
    let mut here = attached(&world, 0, &alice).await;
    let mut there = attached(&world, 1, &alice).await;
    let _ticking = Arc::clone(&world.nodes[1]).tick();
    world.nodes[0].block(&user("alice"), None).await.unwrap();
    assert_eq!(here.ended().await, Reason::Blocked);
    assert_eq!(there.ended().await, Reason::Blocked);
}

pub async fn a_logout_reaches_the_connections_of_every_node(world: World) {
    let alice = world.signed_in("alice").await;
    let bob = world.signed_in("bob").await;
    let mut there = attached(&world, 1, &alice).await;
    let mut other = attached(&world, 1, &bob).await;
    let _ticking = Arc::clone(&world.nodes[1]).tick();
    world.nodes[0].end(&user("alice")).await.unwrap();
    assert_eq!(there.ended().await, Reason::Logout);
    world.nodes[0].block(&user("bob"), None).await.unwrap();
    assert_eq!(other.ended().await, Reason::Blocked);
}

async fn what_another_service_did_is_found_by_asking(world: World) {
    let alice = world.signed_in("alice").await;
    let bob = world.signed_in("bob").await;
    let mut alices = attached(&world, 1, &alice).await;
    let mut bobs = attached(&world, 1, &bob).await;
    world.foreign("DEL", "alice", &[]).await;
    world.foreign("HSET", "bob", &["active", "false"]).await;
    world.nodes[1].recheck().await.unwrap();
    assert_eq!(alices.ended().await, Reason::Logout);
    assert_eq!(bobs.ended().await, Reason::Blocked);
}

pub async fn a_node_that_heard_nothing_finds_out_by_asking(world: World) {
    let alice = world.signed_in("alice").await;
    // It does not listen yet, as one whose connection was cut.
    let mut there = attached(&world, 1, &alice).await;
    world.nodes[0].block(&user("alice"), None).await.unwrap();
    let _ticking = Arc::clone(&world.nodes[1]).tick();
    assert_eq!(there.ended().await, Reason::Blocked);
}

async fn late_news_of_a_logout_spare_who_signed_in_since(world: World) {
    let bus = world.store.bus();
    let channel = world.keys.control_bus();
    let mut heard = bus.subscribe(channel.as_str()).await.unwrap();
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let mut old = attached(&world, 1, &alice).await;
    world.nodes[0].end(&user("alice")).await.unwrap();
    let Some(Event::Message { payload, .. }) = heard.next().await else {
        unreachable!("the logout is told");
    };
    world.advance(Duration::from_secs(2)).await;
    let alice = world.signed_in("alice").await;
    let mut new = attached(&world, 1, &alice).await;
    let mut other = attached(&world, 1, &bob).await;
    let _ticking = Arc::clone(&world.nodes[1]).tick();
    // What a slow network brings now, once the node listens.
    eventually("it is heard", async || {
        let told = bus.publish(channel.as_str(), payload.to_vec()).await;
        told.unwrap();
        old.ended().now_or_never()
    })
    .await;
    world.nodes[0].block(&user("bob"), None).await.unwrap();
    assert_eq!(other.ended().await, Reason::Blocked);
    assert_eq!(new.ended().now_or_never(), None);
    // Whoever has no session is put out by the same news.
    world.foreign("DEL", "alice", &[]).await;
    bus.publish(channel.as_str(), payload.to_vec())
        .await
        .unwrap();
    assert_eq!(new.ended().await, Reason::Logout);
}

async fn nobody_is_attached_without_a_session(world: World) {
    let alice = world.token("alice");
    let refused = world.nodes[0].attach(&alice, None).await;
    assert_eq!(code(refused), Some(Code::SessionExpired));
}

#[tokio::test]
async fn a_second_device_replaces_the_first_where_only_one_is_allowed() {
    let world = World::single_device().await;
    let alice = world.signed_in("alice").await;
    let phone = DeviceId::new("phone").unwrap();
    let laptop = DeviceId::new("laptop").unwrap();
    let mut first = world.nodes[1].attach(&alice, Some(&phone)).await.unwrap();
    let _ticking = Arc::clone(&world.nodes[1]).tick();
    world.nodes[0].begin(&alice, Some("laptop")).await.unwrap();
    assert_eq!(first.ended().await, Reason::Replaced);
    let mut second = world.nodes[1].attach(&alice, Some(&laptop)).await.unwrap();
    world.nodes[0].begin(&alice, Some("laptop")).await.unwrap();
    world.nodes[0].end(&user("alice")).await.unwrap();
    assert_eq!(second.ended().await, Reason::Logout);
}
