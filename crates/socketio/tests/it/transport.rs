//! What an application may rely on: order, back-pressure, one goodbye for every welcome.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parlor_socketio::{Frame, Options, Reason, Socket};

use super::client;
use super::raw::{Got, Host, Ws, eventually, host, poll, recovering, request};

#[tokio::test]
async fn packets_wait_for_the_work_before_them_and_keep_their_order() {
    let host = host(Options::default()).await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    ws.say(r#"421["slow"]"#).await;
    ws.say(r#"422["echo",{"a":1},[2]]"#).await;
    ws.say(r#"423["slow"]"#).await;
    ws.say(r#"424["echo"]"#).await;
    host.told("slow").await;
    assert!(!host.app().lines().contains(&"echo".to_owned()));
    host.app().gate.add_permits(1);
    assert_eq!(ws.text().await, r#"431["slow"]"#);
    assert_eq!(ws.text().await, r#"432[{"a":1},[2]]"#);
    host.app().gate.add_permits(1);
    assert_eq!(ws.text().await, r#"433["slow"]"#);
    assert_eq!(ws.text().await, r#"434[]"#);
    assert_eq!(
        host.app().lines(),
        ["connect", "connected", "slow", "echo", "slow", "echo"]
    );
}

#[tokio::test]
async fn a_client_that_is_ahead_of_the_application_is_not_read_and_loses_nothing() {
    let host = host(Options {
        inbox: 3,
        ..Options::default()
    })
    .await;
    let (ws, _) = Ws::connect(host.address, "").await;
    let Ws { stream, .. } = ws;
    let (mut reading, mut writing) = stream.into_split();
    let writer = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let filling = "x".repeat(4_000);
        for id in 0..2_000 {
            let name = if id == 0 { "slow" } else { "echo" };
            let text = format!(r#"42{id}["{name}","{filling}"]"#);
            let mut frame = vec![0x81, 0x80 | 126];
            frame.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            frame.extend([0; 4]);
            frame.extend(text.as_bytes());
            writing.write_all(&frame).await.unwrap();
        }
        writing
    });
    host.told("slow").await;
    // All tasks share this thread: more turns than the writer needs for all it has.
    for _ in 0..20_000 {
        tokio::task::yield_now().await;
    }
    assert!(
        !writer.is_finished(),
        "8 MB do not fit into what is waiting"
    );
    host.app().gate.add_permits(1);
    let mut all = Vec::new();
    while !all.ends_with(b"x\"]") || !all.windows(7).rev().take(5_000).any(|it| it == b"431999[") {
        use tokio::io::AsyncReadExt as _;
        let mut piece = [0; 65_536];
        let count = reading.read(&mut piece).await.unwrap();
        assert_ne!(count, 0);
        all.extend_from_slice(&piece[..count]);
    }
    let text = String::from_utf8_lossy(&all).into_owned();
    let ids: Vec<u32> = text
        .split("[\"")
        .filter_map(|before| {
            let digits = before.rsplit(|it: char| !it.is_ascii_digit()).next()?;
            digits.strip_prefix("43")?.parse().ok()
        })
        .collect();
    assert!(ids.is_sorted() && ids.len() == 2_000, "{ids:?}");
}

#[tokio::test]
async fn who_leaves_while_being_let_in_is_welcomed_and_seen_off_once() {
    let host = host(Options::default()).await;
    host.app().holds_connect.store(true, Ordering::SeqCst);
    let mut ws = Ws::open(host.address).await;
    ws.say("40").await;
    host.told("connect").await;
    drop(ws);
    eventually("the session ends", || {
        host.server.figures().connections == 0
    })
    .await;
    host.app().gate.add_permits(1);
    host.told("disconnected transport_closed").await;
    assert_eq!(
        host.app().lines(),
        ["connect", "connected", "disconnected transport_closed"]
    );
    assert_eq!(host.server.count(), 0);
}

#[tokio::test]
async fn a_connect_that_takes_too_long_ends_the_connection() {
    let host = host(Options {
        connect_timeout: Duration::from_millis(50),
        ..Options::default()
    })
    .await;
    host.app().holds_connect.store(true, Ordering::SeqCst);
    let mut ws = Ws::open(host.address).await;
    ws.say("40").await;
    assert_eq!(ws.got().await, Got::Close(1000));
    assert_eq!(ws.got().await, Got::End);
    assert_eq!(host.app().lines(), ["connect"]);
}

#[tokio::test]
async fn work_that_panics_costs_its_own_connection_only() {
    let host = host(Options::default()).await;
    let (mut other, _) = Ws::connect(host.address, "").await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    ws.say(r#"42["break"]"#).await;
    assert_eq!(ws.got().await, Got::End);
    host.told("disconnected server_cut").await;
    other.say(r#"427["echo",1]"#).await;
    assert_eq!(other.text().await, "437[1]");
}

#[tokio::test]
async fn who_is_disconnected_gets_what_was_sent_before() {
    let host = host(Options::default()).await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    ws.say(r#"42["leave"]"#).await;
    ws.say(r#"42["echo"]"#).await;
    assert_eq!(ws.text().await, r#"42["last",1]"#);
    assert_eq!(ws.text().await, "41");
    assert_eq!(ws.got().await, Got::Close(1000));
    assert_eq!(ws.got().await, Got::End);
    host.told("disconnected server_cut").await;
    assert!(!host.app().lines().contains(&"echo".to_owned()));
}

#[tokio::test]
async fn a_polling_client_is_disconnected_with_what_was_sent_before() {
    let host = host(Options::default()).await;
    let sid = poll(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    request(host.address, "POST", &sid, "42[\"leave\"]").await;
    let (status, body) = request(host.address, "GET", &sid, "").await;
    assert_eq!(status, 200);
    let packets: Vec<&str> = body.split('\u{1e}').collect();
    assert_eq!(&packets[1..], ["42[\"last\",1]", "41", "1"]);
    let (status, _) = request(host.address, "GET", &sid, "").await;
    assert_eq!(status, 400);
    host.told("disconnected server_cut").await;
}

#[tokio::test]
async fn an_answer_to_polling_holds_what_fits() {
    let host = host(Options {
        max_payload: 1_000,
        ..Options::default()
    })
    .await;
    let sid = poll(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let filling = format!("\"{}\"", "x".repeat(400));
    for number in 0..5 {
        let frame = Frame::event(&format!("n{number}"), filling.as_bytes());
        host.server.for_each(|socket| socket.send(&frame));
    }
    let mut packets = Vec::new();
    while packets.len() < 6 {
        let (_, body) = request(host.address, "GET", &sid, "").await;
        assert!(body.len() <= 1_000, "{}", body.len());
        packets.extend(body.split('\u{1e}').map(str::to_owned));
    }
    for (number, packet) in packets[1..].iter().enumerate() {
        assert!(packet.starts_with(&format!("42[\"n{number}\"")), "{packet}");
    }
}

#[tokio::test]
async fn closing_sends_what_waits_and_tells_everyone() {
    let host = host(Options::default()).await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    let sid = poll(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    host.told("connected").await;
    eventually("both are in", || host.server.count() == 2).await;
    host.server.stop();
    let (status, body) = request(host.address, "GET", "", "").await;
    assert_eq!(status, 503);
    assert!(body.contains("stopping"), "{body}");
    host.tell("bye");
    let server = std::sync::Arc::clone(&host.server);
    let closing = tokio::spawn(async move { server.close(Duration::from_secs(20)).await });
    assert_eq!(ws.text().await, r#"42["bye",1]"#);
    assert_eq!(ws.got().await, Got::Close(1001));
    assert_eq!(ws.got().await, Got::End);
    drop(ws);
    let (_, body) = request(host.address, "GET", &sid, "").await;
    assert!(body.ends_with("\u{1e}42[\"bye\",1]\u{1e}1"), "{body}");
    closing.await.unwrap();
    assert_eq!(host.server.figures().connections, 0);
    let ends = host.app().lines();
    let ends = ends.iter().filter(|line| *line == "disconnected shutdown");
    assert_eq!(ends.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_welcome_comes_before_any_loss() {
    for (options, end) in [
        (Options::default(), "disconnected transport_closed"),
        (recovering(), "detached transport_closed"),
    ] {
        let host = host(options).await;
        host.app().holds_connect.store(true, Ordering::SeqCst);
        host.app().blocks_connected.store(true, Ordering::SeqCst);
        let mut ws = Ws::open(host.address).await;
        ws.say("40").await;
        host.told("connect").await;
        host.app().gate.add_permits(1);
        assert!(ws.text().await.starts_with("40{"));
        drop(ws);
        eventually("the session ends", || {
            host.server.figures().connections == 0
        })
        .await;
        host.app().blocks_connected.store(false, Ordering::SeqCst);
        host.told(end).await;
        assert_eq!(host.app().lines(), ["connect", "connected", end]);
    }
}

#[tokio::test]
async fn a_body_and_a_websocket_that_both_wait_for_room_both_go_on() {
    let host = host(Options {
        inbox: 3,
        ..Options::default()
    })
    .await;
    let sid = poll(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let echoes: String = (0..9).map(|id| format!("\u{1e}42{id}[\"echo\"]")).collect();
    let body = format!("42[\"slow\"]{echoes}");
    let (address, query) = (host.address, sid.clone());
    let posting = tokio::spawn(async move { request(address, "POST", &query, &body).await });
    host.told("slow").await;
    let target = format!("/socket.io/?EIO=4&transport=websocket{sid}");
    let mut ws = client::Ws::try_open(host.address, &target).await.unwrap();
    ws.say("2probe").await;
    assert_eq!(ws.text().await, "3probe", "whatever polling waits for");
    ws.say("5").await;
    assert!(ws.text().await.starts_with("40{"), "it has taken over");
    ws.say(r#"429["echo"]"#).await;
    host.app().gate.add_permits(1);
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(ws.text().await);
    }
    // Which of the two goes on first is not said.
    answers.sort_unstable();
    let expected: Vec<_> = (0..10).map(|id| format!("43{id}[]")).collect();
    assert_eq!(answers, expected);
    assert_eq!(posting.await.unwrap(), (200, "ok".to_owned()));
}

#[tokio::test]
async fn a_goodbye_that_waits_for_work_is_a_goodbye() {
    let host = host(recovering()).await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    ws.say(r#"42["slow"]"#).await;
    ws.say("41").await;
    drop(ws);
    host.told("disconnected client_left").await;
    assert_eq!(host.server.figures().held, 0);
}

#[tokio::test]
async fn what_a_client_said_before_it_went_is_handled_first() {
    for (goodbye, end) in [
        (None, "disconnected transport_closed"),
        (Some("41"), "disconnected client_left"),
        (Some("1"), "disconnected client_left"),
    ] {
        let host = host(Options::default()).await;
        let (mut ws, _) = Ws::connect(host.address, "").await;
        for said in ["slow", "echo", "note"] {
            ws.say(&format!("42[\"{said}\"]")).await;
        }
        if let Some(goodbye) = goodbye {
            ws.say(goodbye).await;
        }
        drop(ws);
        gone(&host).await;
        assert_eq!(host.app().lines(), ["connect", "connected", "slow"]);
        host.app().gate.add_permits(1);
        host.told(end).await;
        let all = ["connect", "connected", "slow", "echo", "note", end];
        assert_eq!(host.app().lines(), all);
    }
}

/// A client that says these events, of which the first waits, and goes.
async fn says_and_goes(host: &Host, said: &[&str]) -> serde_json::Value {
    let (mut ws, hello) = Ws::connect(host.address, "").await;
    for said in said {
        ws.say(&format!("42[\"{said}\"]")).await;
    }
    drop(ws);
    gone(host).await;
    hello
}

async fn gone(host: &Host) {
    let is_gone = || host.server.figures().connections == 0;
    eventually("the session ends", is_gone).await;
}

#[tokio::test]
async fn a_polling_client_is_heard_to_the_end_as_well() {
    let host = host(Options::default()).await;
    let sid = poll(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let body = "42[\"slow\"]\u{1e}42[\"echo\"]\u{1e}1";
    request(host.address, "POST", &sid, body).await;
    gone(&host).await;
    host.app().gate.add_permits(1);
    let end = "disconnected client_left";
    host.told(end).await;
    let all = ["connect", "connected", "slow", "echo", end];
    assert_eq!(host.app().lines(), all);
}

#[tokio::test]
async fn a_client_that_fell_silent_is_heard_to_the_end_as_well() {
    let host = host(Options::default()).await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    for said in ["slow", "echo"] {
        ws.say(&format!("42[\"{said}\"]")).await;
    }
    host.told("slow").await;
    tokio::time::pause();
    gone(&host).await;
    tokio::time::resume();
    assert_eq!(host.app().lines(), ["connect", "connected", "slow"]);
    host.app().gate.add_permits(1);
    let end = "disconnected ping_timeout";
    host.told(end).await;
    let all = ["connect", "connected", "slow", "echo", end];
    assert_eq!(host.app().lines(), all);
}

#[tokio::test]
async fn a_client_is_held_when_it_was_heard_to_the_end() {
    let host = host(recovering()).await;
    says_and_goes(&host, &["slow", "echo"]).await;
    assert_eq!(host.server.figures().held, 0);
    host.app().gate.add_permits(1);
    host.told("detached transport_closed").await;
    let all = [
        "connect",
        "connected",
        "slow",
        "echo",
        "detached transport_closed",
    ];
    assert_eq!(host.app().lines(), all);
    eventually("it is held", || host.server.figures().held == 1).await;
}

#[tokio::test]
async fn a_client_that_was_sent_away_is_not_heard_any_more() {
    for options in [Options::default(), recovering()] {
        for goes in [false, true] {
            let host = host(options.clone()).await;
            let (mut ws, _) = Ws::connect(host.address, "").await;
            for said in ["slow", "leave", "echo"] {
                ws.say(&format!("42[\"{said}\"]")).await;
            }
            host.told("slow").await;
            if goes {
                drop(ws);
                gone(&host).await;
            }
            host.app().gate.add_permits(1);
            let end = "disconnected server_cut";
            host.told(end).await;
            let all = ["connect", "connected", "slow", "leave", end];
            assert_eq!(host.app().lines(), all);
        }
    }
}

#[tokio::test]
async fn work_that_breaks_off_does_not_keep_a_client_that_is_gone() {
    let host = host(Options::default()).await;
    says_and_goes(&host, &["slow", "break", "echo"]).await;
    host.app().gate.add_permits(1);
    let end = "disconnected transport_closed";
    host.told(end).await;
    let all = ["connect", "connected", "slow", "break", end];
    assert_eq!(host.app().lines(), all);
}

#[tokio::test]
async fn work_that_takes_long_does_not_keep_a_client_that_is_gone() {
    let host = host(Options::default()).await;
    says_and_goes(&host, &["slow", "echo"]).await;
    tokio::time::pause();
    let end = "disconnected transport_closed";
    host.told(end).await;
    host.app().gate.add_permits(1);
    assert_eq!(host.app().lines(), ["connect", "connected", "slow", end]);
}

#[tokio::test]
async fn who_comes_back_while_it_is_still_heard_has_its_socket() {
    let host = host(recovering()).await;
    let hello = says_and_goes(&host, &["slow", "echo"]).await;
    let back = format!("{{\"pid\":{}}}", hello["pid"]);
    let (mut ws, again) = Ws::connect(host.address, &back).await;
    assert_eq!(again["sid"], hello["sid"]);
    host.app().gate.add_permits(1);
    ws.say(r#"42["note"]"#).await;
    host.told("note").await;
    let all = [
        "connect",
        "connected",
        "slow",
        "detached replaced",
        "recover",
        "note",
    ];
    assert_eq!(
        host.app().lines(),
        all,
        "what waited was of a connection that is no more"
    );
}

#[tokio::test]
async fn a_server_that_ends_does_not_wait_for_clients_that_are_gone() {
    let host = host(Options::default()).await;
    says_and_goes(&host, &["slow", "echo"]).await;
    host.server.stop();
    host.server.close(Duration::from_secs(5)).await;
    let all = ["connect", "connected", "slow", "disconnected shutdown"];
    assert_eq!(host.app().lines(), all);
    host.app().gate.add_permits(1);
    assert_eq!(host.server.count(), 0);
}

#[tokio::test]
async fn who_was_sent_away_while_it_was_heard_is_connected_anew() {
    let host = host(recovering()).await;
    let hello = says_and_goes(&host, &["slow", "echo"]).await;
    let send_away = |socket: &Arc<Socket<()>>| socket.disconnect(Reason::ServerCut);
    host.server.for_each(send_away);
    let back = format!("{{\"pid\":{}}}", hello["pid"]);
    let (_ws, again) = Ws::connect(host.address, &back).await;
    assert_ne!(again["sid"], hello["sid"]);
    assert_eq!(host.server.count(), 1);
}
