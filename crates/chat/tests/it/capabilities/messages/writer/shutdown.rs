//! Cancelled senders, and stopping a writer.

use parlor_chat::api::error::Error;
use parlor_chat::messages::writer::MessageWriter;

use super::fixture::{World, answers, draft};
use super::on_both;

on_both! {
    cancelled_sends_leave_sequence_numbers_without_gaps;
    stopping_writes_what_was_taken_and_nothing_more;
    a_dropped_writer_ends;
    closing_the_database_does_not_wait_for_an_idle_writer;
}

async fn cancelled_sends_leave_sequence_numbers_without_gaps(world: World) {
    world.conversation("c", &["alice"]).await;
    for round in 0..10 {
        let sends: Vec<_> = (0..10)
            .map(|_| world.spawn(draft("c", "alice", "hello")))
            .collect();
        // Some sends are not started, some are queued, some are committed.
        for _ in 0..round % 4 {
            tokio::task::yield_now().await;
        }
        for send in sends {
            send.abort();
        }
    }
    world.send(draft("c", "alice", "last")).await;
    world.check().await;
}

async fn stopping_writes_what_was_taken_and_nothing_more(world: World) {
    world.conversation("c", &["alice"]).await;
    world.conversation("d", &["alice"]).await;
    let drafts = (0..600).map(|n| draft(["c", "d"][n % 2], "alice", "hello"));
    let sends = world.queue_while_locked(drafts.collect()).await;
    world.writer.stop().await;
    for answer in answers(sends).await {
        answer.unwrap();
    }
    world.check().await;
    let refused = world
        .writer
        .send(draft("c", "alice", "late"))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, Error::DatabaseUnavailable(_)),
        "{refused:?}"
    );
    world.writer.stop().await;
}

async fn a_dropped_writer_ends(world: World) {
    world.conversation("c", &["alice"]).await;
    let writer = MessageWriter::start(world.database.clone());
    writer.send(draft("c", "alice", "hello")).await.unwrap();
    drop(writer);
    world.writer.stop().await;
    world.database.close().await;
}

async fn closing_the_database_does_not_wait_for_an_idle_writer(world: World) {
    world.conversation("c", &["alice"]).await;
    world.send(draft("c", "alice", "hello")).await;
    world.database.close().await;
}
