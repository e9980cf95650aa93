//! Compares the native script with the Lua script.

use std::time::Duration;

use parlor_store::{ManualClock, Store, StoreOptions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::cmd;
use tempfile::TempDir;

use crate::messages::append::AppendReply;
use crate::messages::scripts::APPEND_MESSAGES;
use crate::script_parity::ScriptParity;

/// TTL of the typing keys.
const TYPING_TTL_MS: u64 = 3;
const KEYS: [&str; 6] = ["top", "list", "members", "version", "typing", "names"];

/// Fills the keys at random with valid values, no values or values of a foreign type.
async fn fill(stores: &ScriptParity, rng: &mut StdRng, now: u64) {
    let (epoch, rev) = (rng.random_range(1..3), rng.random_range(0..6));
    let top = match rng.random_range(0..6) {
        0 => None,
        1 => Some("garbage".to_owned()),
        _ => Some(format!("{}|{epoch}|{rev}", rng.random_range(0..4))),
    };
    if let Some(top) = top {
        stores.run_on_both(cmd("SET").arg("top").arg(top)).await;
    }
    let list = match rng.random_range(0..5) {
        0 => None,
        1 => Some(cmd("SET").arg("list").arg("x").take()),
        2 => Some(cmd("RPUSH").arg("list").arg(vec!["e"; 100]).take()),
        _ => Some(cmd("RPUSH").arg("list").arg("e").take()),
    };
    if let Some(list) = list {
        stores.run_on_both(&list).await;
    }
    if rng.random_bool(0.7) {
        stores
            .run_on_both(cmd("SADD").arg("members").arg("u"))
            .await;
    }
    if rng.random_bool(0.7) {
        let version = ["1|1", "2|1"][rng.random_range(0..2)];
        stores
            .run_on_both(cmd("SET").arg("version").arg(version))
            .await;
    }
    if rng.random_bool(0.5) {
        let ends = [now, now + 5][rng.random_range(0..2)];
        stores
            .run_on_both(
                cmd("ZADD")
                    .arg("typing")
                    .arg(ends)
                    .arg("u0")
                    .arg(ends)
                    .arg("u1"),
            )
            .await;
        stores
            .run_on_both(cmd("HSET").arg("names").arg("u0").arg("n"))
            .await;
    }
    if rng.random_bool(0.5) {
        let set = match rng.random_range(0..4) {
            0 => cmd("SADD").arg("typing0").arg("x").take(),
            1 => cmd("SET").arg("typing0").arg("1").take(),
            _ => {
                let at = now + rng.random_range(0..6) - TYPING_TTL_MS;
                let document = format!(r#"{{"userId":"u0","timestamp":{at}}}"#);
                cmd("SET").arg("typing0").arg(document).take()
            }
        };
        stores.run_on_both(&set).await;
    }
    if rng.random_bool(0.03) {
        stores.run_on_both(&cmd("DEL").arg("typing").take()).await;
        stores.run_on_both(cmd("SET").arg("typing").arg("x")).await;
    }
}

#[tokio::test]
async fn the_embedded_store_does_not_write_the_recent_list() {
    let folder = TempDir::new().unwrap();
    let open = || {
        Store::open(StoreOptions {
            data_folder: Some(folder.path().to_owned()),
            ..StoreOptions::default()
        })
    };
    let there = |store: Store| async move {
        let keys = cmd("EXISTS").arg("top").arg("list").take();
        keys.query_async::<u32>(&mut store.clone()).await.unwrap()
    };
    let store = open().await.unwrap();
    let call = APPEND_MESSAGES
        .keys(&KEYS)
        .arg(1)
        .arg(1)
        .arg(1)
        .arg(0)
        .arg("");
    let call = call.arg(60_000).arg(60_000).arg("PUBLISH");
    let call = call.arg("conversation").arg("created").arg("]}");
    let call = call.arg(3_000);
    let frame = "01234567890123456789012345{message}";
    let message = call.arg(1).arg("u").arg(frame).arg(",more}").arg("");
    message
        .arg("{event,")
        .run::<AppendReply>(&store)
        .await
        .unwrap();
    assert_eq!(there(store.clone()).await, 2);
    store.close().await;
    drop(store);
    assert_eq!(there(open().await.unwrap()).await, 1);
}

/// Ends of the event JSON.
const PARTICIPANTS: [&str; 5] = [
    "]}",
    r#""participantIds":["u0","x","u1"]}"#,
    r#""participantIds":["u1"]}"#,
    r#""participantIds":["u10","u01"]}"#,
    r#""participantIds":[],"participantCount":7}"#,
];

#[tokio::test]
async fn the_native_script_does_what_the_lua_script_does() {
    let clock = ManualClock::default();
    let mut stores = ScriptParity::open(&clock).await;
    for seed in 0..500 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let now = stores.store().clock().now_ms();
        fill(&stores, rng, now).await;
        for _ in 0..3 {
            let messages: u64 = rng.random_range(0..4);
            let mut keys: Vec<String> = KEYS.map(str::to_owned).into();
            keys.extend((0..messages).map(|at| format!("typing{}", at % 2)));
            let first = rng.random_range(1..5);
            let mut call = APPEND_MESSAGES
                .keys(&keys)
                .arg(1)
                .arg(now)
                .arg(rng.random_range(0..6))
                .arg(["", "0", "2"][rng.random_range(0..3)])
                .arg(["", "1|1"][rng.random_range(0..2)])
                .arg(1_000)
                .arg(2_000)
                .arg("PUBLISH")
                .arg("conversation")
                .arg("created")
                .arg(PARTICIPANTS[rng.random_range(0..PARTICIPANTS.len())])
                .arg(TYPING_TTL_MS);
            for at in 0..messages {
                call = call
                    .arg(first + at)
                    .arg(format!("u{}", at % 2))
                    .arg(format!("012345678901234567{{message {at}}}"))
                    .arg(",more}")
                    .arg(["", "stopped"][rng.random_range(0..2)])
                    .arg("{event,");
            }
            stores
                .assert_same(&APPEND_MESSAGES, call, &format!("seed {seed}"))
                .await;
        }
        stores.run_on_both(&cmd("FLUSHALL")).await;
        clock.advance(Duration::from_millis(3));
    }
}
