//! Concurrent calls: afterwards the keys agree with the rows.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::fixture::{World, conversation, user};
use super::on_both;

on_both! {
    senders_and_readers_in_a_race_leave_the_keys_as_the_rows;
}

const ROOMS: [(&str, &[&str]); 3] = [
    ("c1", &["alice", "bob"]),
    ("c2", &["alice", "bob", "carol"]),
    ("c3", &["bob", "carol"]),
];
const TASKS: u64 = 8;
const STEPS: usize = 40;

pub async fn senders_and_readers_in_a_race_leave_the_keys_as_the_rows(world: World) {
    for (conv, members) in ROOMS {
        world.group(conv, members).await;
    }
    let world = Arc::new(world);
    let tasks: Vec<_> = (0..TASKS)
        .map(|seed| tokio::spawn(work(Arc::clone(&world), seed)))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for who in ["alice", "bob", "carol"] {
        let stored = world.stored_counts(who, &["c1", "c2", "c3"]).await;
        assert_eq!(stored, world.api_counts(who).await, "{who}");
    }
}

async fn work(world: Arc<World>, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let node = &world.nodes[usize::try_from(seed % 2).unwrap()];
    for _ in 0..STEPS {
        let (conv, members) = ROOMS[rng.random_range(0..ROOMS.len())];
        let who = members[rng.random_range(0..members.len())];
        let (id, at) = (user(who), conversation(conv));
        match rng.random_range(0..10) {
            0..5 => {
                let written = world.insert_message(conv, who, &[]).await;
                super::fixture::count_message(node, &written).await;
            }
            5..7 => {
                node.read(&id, &at, None).await.unwrap();
            }
            7 => {
                let from = rng.random_range(1..20);
                node.mark_unread(&id, &at, from).await.unwrap();
            }
            8 => {
                node.get_summary(&id).await.unwrap();
            }
            _ => {
                let until = world.now().saturating_add(Duration::from_secs(3_600));
                let until = rng.random_bool(0.5).then_some(until);
                node.mute(&id, &at, until).await.unwrap();
            }
        }
    }
}
