//! PostgreSQL fails while messages are written.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parlor_chat::api::error::Error;

use parlor_chat::messages::writer::MessageWriter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::fixture::{World, draft, draft_with_client_id};

#[tokio::test]
async fn what_was_acknowledged_outlives_kill_9_of_the_server() {
    let mut world = World::durable_postgres().await;
    for at in 0..5 {
        world
            .conversation(&format!("c{at}"), &["alice", "bob"])
            .await;
    }
    let (count, over) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let sender = |task: usize| {
        let (writer, count, over) = (world.writer.clone(), count.clone(), over.clone());
        tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let name = format!("{task} {}", acknowledged.len());
                let draft = draft_with_client_id(&format!("c{}", task % 5), "alice", &name);
                let message = loop {
                    match writer.send(draft.clone()).await {
                        Ok(written) => break written.message,
                        Err(Error::DatabaseUnavailable(_)) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                };
                acknowledged.push((
                    message.id,
                    message.conversation_id.to_string(),
                    message.seq.cast_signed(),
                ));
                count.fetch_add(1, Ordering::Relaxed);
            }
            acknowledged
        })
    };
    let senders: Vec<_> = (0..20).map(sender).collect();
    for round in 1..=2 {
        let enough = async || count.load(Ordering::Relaxed) >= round * 200;
        parlor_testkit::eventually("messages are acknowledged", enough).await;
        let server = world.server.as_mut().unwrap();
        server.kill9();
        server.restart().await;
    }
    let enough = async || count.load(Ordering::Relaxed) >= 600;
    parlor_testkit::eventually("messages are acknowledged again", enough).await;
    over.store(true, Ordering::Relaxed);

    let mut acknowledged = HashSet::new();
    for sender in senders {
        acknowledged.extend(sender.await.unwrap());
    }
    world.check().await;
    let stored: Vec<(String, String, i64)> = world
        .all("SELECT id, conversation_id, seq FROM messages")
        .await;
    // Every message has a client id and was acknowledged in the end, so there are no others.
    assert_eq!(stored.into_iter().collect::<HashSet<_>>(), acknowledged);
}

#[tokio::test]
async fn connections_that_were_cut_are_no_error() {
    let world = World::postgres().await;
    world.conversation("c", &["alice"]).await;
    world.send(draft("c", "alice", "one")).await;
    let server = world.server.as_ref().unwrap();
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'parlor'";
    assert_ne!(server.query(cut).await, "0");
    let gone = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'parlor'";
    parlor_testkit::eventually("the connections are closed", async || {
        server.query(gone).await == "0"
    })
    .await;
    assert_eq!(world.send(draft("c", "alice", "two")).await.message.seq, 2);
    world.check().await;
}

#[tokio::test]
async fn a_message_whose_commit_was_not_confirmed_is_there_once() {
    let world = World::postgres().await;
    world.conversation("c", &["alice", "bob"]).await;
    let armed = Arc::new(AtomicBool::new(false));
    let port =
        proxy_dropping_commit_reply(world.server.as_ref().unwrap().port(), armed.clone()).await;
    let writer = MessageWriter::start(world.database_via_port(port).await);
    for seq in 1..=3 {
        armed.store(true, Ordering::Relaxed);
        // The message has no client id by which it could be found.
        let sent = writer.send(draft("c", "alice", "hello")).await.unwrap();
        assert!(!armed.load(Ordering::Relaxed));
        assert_eq!((sent.message.seq, sent.is_duplicate), (seq, false));
        assert_eq!(
            (sent.sender.joined_version, sent.sender.position_version),
            (1, seq)
        );
    }
    world.check().await;
    let count: (i64,) = world.one("SELECT count(*) FROM messages").await;
    assert_eq!(count.0, 3);
}

/// Forwards all bytes to a server. If it is armed, it closes the next connection that commits, after the commit.
async fn proxy_dropping_commit_reply(server: u16, armed: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_on(client, server, armed.clone()));
        }
    });
    port
}

async fn pass_on(mut client: TcpStream, server: u16, armed: Arc<AtomicBool>) {
    let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
    let (mut request, mut reply) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Ok(length @ 1..) = read else { return };
                server.write_all(&request[..length]).await.unwrap();
                let commit = request[..length].windows(6).any(|it| it == b"COMMIT");
                if commit && armed.swap(false, Ordering::Relaxed) {
                    assert_ne!(server.read(&mut reply).await.unwrap(), 0);
                    return;
                }
            }
            read = server.read(&mut reply) => {
                let Ok(length @ 1..) = read else { return };
                client.write_all(&reply[..length]).await.unwrap();
            }
        }
    }
}
