//! Concurrent senders on several nodes.

use super::fixture::World;
use super::test_on_all_backends;

test_on_all_backends! {
    each_message_is_told_once_and_in_order;
    senders_and_changers_leave_the_list_as_the_rows_are;
}

pub async fn each_message_is_told_once_and_in_order(mut world: World) {
    let whos = ["alice", "bob", "carol"];
    let senders = (0..12).map(|nth| {
        let world = &world;
        async move {
            for round in 0..10 {
                world
                    .send(nth % 2, whos[nth % 3], &format!("{nth} {round}"))
                    .await;
            }
        }
    });
    futures(senders).await;
    assert_eq!(world.published_seqs().await, (1..=120).collect::<Vec<_>>());
    assert_eq!(world.events(120).await.len(), 120);
    assert_eq!(world.watermark().await.unwrap()[0], 120);
    let listed: Vec<_> = world.recent_list().await;
    let listed: Vec<_> = listed
        .iter()
        .map(|it| it["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(listed, (21..=120).rev().collect::<Vec<_>>());
    assert_eq!(world.newest(0).await, world.newest(1).await);
}

async fn senders_and_changers_leave_the_list_as_the_rows_are(world: World) {
    for nth in 1..=20 {
        world.send(0, "alice", &nth.to_string()).await;
    }
    let work = (0..8_usize).map(|nth| {
        let world = &world;
        async move {
            for round in 0..10_u64 {
                let seq = 1 + (nth as u64 * 7 + round * 3) % 20;
                match nth % 4 {
                    0 => drop(world.send(nth % 2, "bob", "more").await),
                    1 => world.delete_applied_state().await,
                    2 => drop(world.newest(nth % 2).await),
                    _ => drop(
                        world
                            .edit(nth % 2, "alice", seq, &format!("{nth} {round}"))
                            .await,
                    ),
                }
            }
        }
    });
    futures(work).await;
    let listed = world.newest(0).await;
    world.delete_applied_state().await;
    assert_eq!(listed, world.newest(1).await, "the list equals the rows");
}

/// Runs all futures concurrently on one task.
async fn futures(work: impl Iterator<Item = impl Future<Output = ()>>) {
    all(work).await;
}

/// Runs all futures concurrently on one task and returns their results.
pub async fn all<T>(work: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut work: Vec<_> = work.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        for (one, done) in &mut work {
            if done.is_none()
                && let std::task::Poll::Ready(given) = one.as_mut().poll(context)
            {
                *done = Some(given);
            }
        }
        match work.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    work.into_iter().filter_map(|(_, done)| done).collect()
}
