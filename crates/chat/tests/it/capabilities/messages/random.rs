//! Random histories, compared with a model: no page has a gap, and every page contains all acknowledged messages.

use parlor_chat::messages::HistoryAnchor;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::fixture::World;
use super::test_on_all_backends;

test_on_all_backends! {
    random_histories_never_produce_a_page_with_a_gap;
}

/// Contents of the committed messages, and how many of them are acknowledged.
#[derive(Default)]
struct Model {
    contents: Vec<String>,
    acknowledged: usize,
}

async fn random_histories_never_produce_a_page_with_a_gap(world: World) {
    let seed = rand::random::<u64>();
    let mut random = StdRng::seed_from_u64(seed);
    let mut model = Model::default();
    let mut log = Vec::new();
    for step in 0..250 {
        log.push(random_step(&world, &mut random, &mut model, step).await);
        for node in 0..2 {
            let limit = random.random_range(1..=100);
            check(
                &world,
                &model,
                node,
                limit,
                &format!("seed {seed}: {log:?}"),
            )
            .await;
        }
    }
}

async fn random_step(world: &World, random: &mut StdRng, model: &mut Model, step: usize) -> String {
    let node = random.random_range(0..2);
    let count = model.contents.len();
    match random.random_range(0..20) {
        0..=7 => {
            let content = format!("s{step}");
            let sent = world.send(node, "alice", &content).await;
            model.contents.push(content);
            assert_eq!(sent.seq, model.contents.len() as u64);
            model.acknowledged = model.contents.len();
            "send".into()
        }
        8..=9 => {
            let content = format!("w{step}");
            world.commit_without_applying("bob", &content).await;
            model.contents.push(content);
            "write".into()
        }
        10..=12 if count > 0 => {
            let seq = count - random.random_range(0..count.min(120));
            let content = format!("e{step}");
            let edited = world.edit(node, "alice", seq as u64, &content).await;
            if edited.is_ok() {
                model.contents[seq - 1] = content;
                model.acknowledged = model.acknowledged.max(seq);
            }
            format!("edit {seq}")
        }
        13 if count > 0 => {
            let seq = count - random.random_range(0..count.min(120));
            world.delete(node, "alice", seq as u64).await.unwrap();
            model.contents[seq - 1] = String::new();
            model.acknowledged = model.acknowledged.max(seq);
            format!("delete {seq}")
        }
        14 => {
            let mut del = redis::cmd("DEL");
            world
                .run(del.arg(world.keys.recent_list(&super::fixture::c1())))
                .await;
            "no list".into()
        }
        15 => {
            world.delete_applied_state().await;
            "emptied".into()
        }
        16 => {
            let listed = world.recent_list().await.len();
            if listed > 1 {
                let newest = count.min(model.acknowledged);
                world
                    .restore_old_snapshot(1, newest - random.random_range(0..listed.min(newest)))
                    .await;
            }
            "older".into()
        }
        17 => {
            world.advance(std::time::Duration::from_secs(40)).await;
            "later".into()
        }
        18 => {
            let messages = world.nodes[node].messages();
            messages
                .apply_unapplied(&super::fixture::c1())
                .await
                .unwrap();
            model.acknowledged = count;
            "caught up".into()
        }
        _ => "nothing".into(),
    }
}

/// The page consists of committed messages and contains all acknowledged ones.
async fn check(world: &World, model: &Model, node: usize, limit: u64, said: &str) {
    let (page, more) = world.page(node, HistoryAnchor::Newest, limit).await;
    let seen = (model.acknowledged..=model.contents.len()).find(|last| {
        let first = last.saturating_sub(limit as usize);
        model.contents[first..*last] == page[..] && more == (first > 0)
    });
    assert!(seen.is_some(), "{page:?} of {:?}\n{said}", model.contents);
}
