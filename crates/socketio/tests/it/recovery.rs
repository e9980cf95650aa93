//! A client that lost its connection and comes back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parlor_socketio::{Options, Reason, Recovery};
use serde_json::Value;

use super::raw::{Got, Host, Ws, eventually, host, recovering};

/// The offset at the end of an event.
fn offset(event: &str) -> String {
    let event: Value = serde_json::from_str(event.strip_prefix("42").unwrap()).unwrap();
    event
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

fn back(hello: &Value, offset: Option<&str>) -> String {
    let mut auth = serde_json::json!({ "token": "t", "pid": hello["pid"] });
    if let Some(offset) = offset {
        auth["offset"] = offset.into();
    }
    auth.to_string()
}

async fn lose(host: &Host, ws: Ws) {
    drop(ws);
    eventually("the socket is held", || host.server.figures().held == 1).await;
}

#[tokio::test]
async fn a_client_that_keeps_no_offset_is_sent_none_and_is_not_waited_for() {
    let host = host(recovering()).await;
    let mut ws = Ws::asking(host.address, "transport=websocket&EIO=4").await;
    let hello = ws.enter("").await;
    assert!(hello["pid"].is_null(), "{hello}");
    let (mut other, _) = Ws::connect(host.address, "").await;
    host.tell("one");
    assert_eq!(ws.text().await, r#"42["one",1]"#);
    assert!(other.text().await.starts_with(r#"42["one",1,""#));
    drop(ws);
    host.told("disconnected transport_closed").await;
    assert_eq!(host.server.figures().held, 0);
}

#[tokio::test]
async fn a_lost_client_gets_its_socket_and_what_it_missed() {
    let host = host(recovering()).await;
    let (mut ws, hello) = Ws::connect(host.address, "").await;
    host.tell("one");
    host.tell("two");
    let one = ws.text().await;
    lose(&host, ws).await;
    host.tell("three");
    let (mut ws, again) = Ws::connect(host.address, &back(&hello, Some(&offset(&one)))).await;
    assert_eq!(again, hello, "the same socket");
    assert!(ws.text().await.starts_with(r#"42["two",1,"#));
    assert!(ws.text().await.starts_with(r#"42["three",1,"#));
    host.tell("four");
    let four = ws.text().await;
    assert!(four.starts_with(r#"42["four",1,"#));
    assert_eq!(host.server.figures().recovered, 1);

    lose(&host, ws).await;
    let (mut ws, again) = Ws::connect(host.address, &back(&hello, Some(&offset(&four)))).await;
    assert_eq!(again, hello);
    ws.say(r#"421["echo"]"#).await;
    assert_eq!(ws.text().await, "431[]", "nothing was missed");
    let lost = "detached transport_closed";
    assert_eq!(
        host.app().lines(),
        [
            "connect",
            "connected",
            lost,
            "recover",
            lost,
            "recover",
            "echo"
        ]
    );
}

#[tokio::test]
async fn who_was_sent_nothing_yet_comes_back_too() {
    let host = host(recovering()).await;
    let (ws, hello) = Ws::connect(host.address, "").await;
    lose(&host, ws).await;
    host.tell("one");
    let (mut ws, again) = Ws::connect(host.address, &back(&hello, None)).await;
    assert_eq!(again, hello);
    assert!(ws.text().await.starts_with(r#"42["one",1,"#));
}

#[tokio::test]
async fn a_client_that_missed_more_than_is_kept_is_connected_anew() {
    let host = host(recovering()).await;
    let (mut ws, hello) = Ws::connect(host.address, "").await;
    host.tell("first");
    let first = offset(&ws.text().await);
    lose(&host, ws).await;
    for _ in 0..5 {
        host.tell("more");
    }
    let (mut ws, again) = Ws::connect(host.address, &back(&hello, Some(&first))).await;
    assert_ne!(again["sid"], hello["sid"]);
    assert_ne!(again["pid"], hello["pid"]);
    ws.say(r#"421["echo"]"#).await;
    assert_eq!(ws.text().await, "431[]");
    host.told("disconnected replaced").await;
    assert_eq!(host.server.count(), 1);
    assert_eq!(host.server.figures().recovered, 0);
}

#[tokio::test]
async fn an_unknown_pid_or_offset_is_connected_anew() {
    let host = host(recovering()).await;
    let (mut ws, hello) = Ws::connect(host.address, "").await;
    host.tell("one");
    let one = offset(&ws.text().await);
    lose(&host, ws).await;
    let mut foreign = hello.clone();
    let pid = hello["pid"].as_str().unwrap();
    foreign["pid"] = format!("{}AAAA", &pid[..pid.len() - 4]).into();
    for foreign in [
        foreign,
        serde_json::json!({"pid": 7}),
        serde_json::json!({"pid": "x"}),
    ] {
        let (ws, again) = Ws::connect(host.address, &back(&foreign, Some(&one))).await;
        assert_ne!(again["sid"], hello["sid"]);
        drop(ws);
    }
    assert!(
        !host
            .app()
            .lines()
            .contains(&"disconnected replaced".to_owned())
    );
    let (_ws, again) = Ws::connect(host.address, &back(&hello, Some("zzzz"))).await;
    assert_ne!(again["sid"], hello["sid"]);
    host.told("disconnected replaced").await;
}

#[tokio::test]
async fn a_clean_goodbye_is_final() {
    let host = host(recovering()).await;
    for goodbye in ["41", "1"] {
        let (mut ws, hello) = Ws::connect(host.address, "").await;
        ws.say(goodbye).await;
        eventually("it is over", || host.server.count() == 0).await;
        assert_eq!(host.server.figures().held, 0);
        let (ws, again) = Ws::connect(host.address, &back(&hello, None)).await;
        assert_ne!(again["sid"], hello["sid"]);
        let mut ws = ws;
        ws.say("41").await;
        eventually("it is over", || host.server.count() == 0).await;
    }
}

#[tokio::test]
async fn a_client_may_be_back_before_its_loss_is_seen() {
    let host = host(recovering()).await;
    let (mut first, hello) = Ws::connect(host.address, "").await;
    host.tell("one");
    let one = offset(&first.text().await);
    host.tell("two");
    let (mut second, again) = Ws::connect(host.address, &back(&hello, Some(&one))).await;
    assert_eq!(again, hello);
    assert!(second.text().await.starts_with(r#"42["two",1,"#));
    assert!(first.text().await.starts_with(r#"42["two",1,"#));
    assert_eq!(first.got().await, Got::Close(1000));
    second.say(r#"421["echo"]"#).await;
    assert_eq!(second.text().await, "431[]");
    let told = host.app().lines();
    assert_eq!(
        told,
        [
            "connect",
            "connected",
            "detached replaced",
            "recover",
            "echo"
        ]
    );
}

#[tokio::test]
async fn a_socket_is_held_for_its_time_and_ends_once() {
    let host = host(Options {
        ping_interval: Duration::from_millis(250),
        recovery: Some(Recovery {
            window: Duration::from_millis(100),
            frames: 5,
            bytes: 10_000,
        }),
        ..Options::default()
    })
    .await;
    let (ws, hello) = Ws::connect(host.address, "").await;
    lose(&host, ws).await;
    host.told("disconnected transport_closed").await;
    assert_eq!((host.server.count(), host.server.figures().held), (0, 0));
    let (_ws, again) = Ws::connect(host.address, &back(&hello, None)).await;
    assert_ne!(again["sid"], hello["sid"]);
}

#[tokio::test]
async fn a_refused_return_leaves_the_socket_held() {
    let host = host(recovering()).await;
    let (ws, hello) = Ws::connect(host.address, "").await;
    lose(&host, ws).await;
    host.app().refuses.store(true, Ordering::SeqCst);
    let mut ws = Ws::open(host.address).await;
    ws.say(&format!("40{}", back(&hello, None))).await;
    assert_eq!(ws.text().await, r#"44{"message":"no"}"#);
    eventually("it is held again", || host.server.figures().held == 1).await;
    host.app().refuses.store(false, Ordering::SeqCst);
    let (_ws, again) = Ws::connect(host.address, &back(&hello, None)).await;
    assert_eq!(again, hello);
}

#[tokio::test]
async fn the_application_can_end_a_socket_that_is_held() {
    let host = host(Options {
        ping_interval: Duration::from_millis(250),
        ..recovering()
    })
    .await;
    let (ws, hello) = Ws::connect(host.address, "").await;
    lose(&host, ws).await;
    host.server
        .for_each(|socket| socket.disconnect(Reason::ServerCut));
    host.told("disconnected server_cut").await;
    let (_ws, again) = Ws::connect(host.address, &back(&hello, None)).await;
    assert_ne!(again["sid"], hello["sid"]);
}

#[tokio::test]
async fn closing_gives_up_what_is_held() {
    let host = host(recovering()).await;
    let (ws, _) = Ws::connect(host.address, "").await;
    lose(&host, ws).await;
    host.server.close(Duration::from_secs(1)).await;
    host.told("disconnected shutdown").await;
    assert_eq!(host.server.count(), 0);
}

#[tokio::test]
async fn without_recovery_nothing_is_held_and_no_offset_is_sent() {
    let host = host(Options::default()).await;
    let (mut ws, hello) = Ws::connect(host.address, "").await;
    assert!(hello.get("pid").is_none());
    host.tell("one");
    assert_eq!(ws.text().await, r#"42["one",1]"#);
    drop(ws);
    host.told("disconnected transport_closed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_clients_do_everyone_who_came_has_gone_once() {
    // More than is told while anybody is away.
    let recovery = Recovery {
        window: Duration::from_secs(60),
        frames: 100_000,
        bytes: 10_000_000,
    };
    let host = host(Options {
        recovery: Some(recovery),
        ..Options::default()
    })
    .await;
    let clients: Vec<_> = (0..20)
        .map(|number| tokio::spawn(come_and_go(host.address, number)))
        .collect();
    while !clients.iter().all(tokio::task::JoinHandle::is_finished) {
        host.tell("news");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for client in clients {
        client.await.unwrap();
    }
    host.server.close(Duration::from_secs(5)).await;
    let count = |start: &str| {
        let lines = host.app().lines();
        lines.iter().filter(|line| line.starts_with(start)).count()
    };
    let all_are_gone = || count("disconnected") >= count("connected");
    eventually("all are gone", all_are_gone).await;
    assert_eq!(host.server.count(), 0);
    assert_eq!(count("connected"), count("disconnected"));
    assert!(count("recover") > 0);
    let figures = host.server.figures();
    assert_eq!((figures.connections, figures.held), (0, 0));
}

/// Comes, leaves in one of several ways, and comes back for what it missed.
async fn come_and_go(address: std::net::SocketAddr, number: usize) {
    let mut auth = String::new();
    for round in 0..15 {
        let (mut ws, hello) = Ws::connect(address, &auth).await;
        let last = ws.text().await;
        match (number + round) % 5 {
            0 => ws.say("41").await,
            1 => ws.say("1").await,
            2 => ws.say("nonsense").await,
            // Its next connection may come before this one is seen to be gone.
            _ => {}
        }
        auth = back(&hello, Some(&offset(&last)));
    }
}

#[tokio::test]
async fn what_was_missed_does_not_cut_the_client_that_comes_for_it() {
    const BUFFER: usize = 2_000;
    let host = host(Options {
        buffer: BUFFER,
        recovery: Some(Recovery {
            window: Duration::from_secs(60),
            frames: 1_000,
            bytes: BUFFER,
        }),
        ..Options::default()
    })
    .await;
    let (ws, hello) = Ws::connect(host.address, "").await;
    lose(&host, ws).await;
    let mut size = 0;
    loop {
        let frame = host.server.frame("n", b"1");
        size += frame.size();
        if size > BUFFER {
            break;
        }
        host.server.for_each(|socket| socket.send(&frame));
    }
    let (mut ws, again) = Ws::connect(host.address, &back(&hello, None)).await;
    assert_ne!(again["sid"], hello["sid"], "it is connected anew");
    ws.say(r#"421["echo"]"#).await;
    assert_eq!(ws.text().await, "431[]");
    assert_eq!(host.server.figures().cut, 0);
}

#[tokio::test]
async fn what_is_kept_is_bounded_for_all_sockets_together() {
    let host = host(Options {
        kept: 1_000,
        ..recovering()
    })
    .await;
    let (ws, hello) = Ws::connect(host.address, "").await;
    lose(&host, ws).await;
    let frames: Vec<_> = (0..100).map(|_| host.server.frame("n", b"1")).collect();
    assert!(host.server.figures().kept_bytes > 1_000);
    host.server.for_each(|socket| socket.send(&frames[0]));
    drop(frames);
    assert_eq!(host.server.figures().kept_bytes, 0);
    let (_ws, again) = Ws::connect(host.address, &back(&hello, None)).await;
    assert_ne!(again["sid"], hello["sid"], "what it missed was not kept");
}
