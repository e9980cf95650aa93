//! Contract of a store, the same on every backend.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use parlor_store::{LuaScript, StoreErrorClass, StoreKind, classify_error};
use redis::{AsyncTypedCommands, RedisResult, Value};

use crate::fixture::{Fixture, cluster_contract, contract};

contract! {
    commands_reply_as_redis_does on embedded redis valkey;
    errors_keep_the_codes_of_redis on embedded redis valkey;
    pipelines_keep_their_order_and_may_span_slots on embedded redis valkey;
    a_failed_command_of_a_pipeline_leaves_the_others_alone on embedded redis;
    transactions_are_executed_as_one on embedded redis valkey;
    a_rejected_transaction_executes_nothing on embedded redis;
    scripts_run_alone_and_in_pipelines_and_in_transactions on embedded redis valkey;
    flushed_scripts_are_loaded_again_and_nothing_runs_twice on embedded redis valkey;
    the_error_of_a_script_reaches_its_caller on embedded redis;
    a_scan_finds_every_key_of_the_pattern on embedded redis valkey;
    the_store_clock_follows_the_server_time on embedded redis valkey;
    a_test_can_move_the_time on embedded redis;
    keys_expire_when_time_is_moved on embedded redis valkey;
    the_epoch_exists_and_stays on embedded redis valkey;
    the_epoch_rises_on_request on embedded redis;
    every_primary_can_be_queried on embedded redis;
    a_command_that_changes_its_connection_is_rejected on embedded redis;
    a_store_with_room_is_writable on embedded redis;
    a_closed_store_ends_its_subscriptions on embedded redis;
}

cluster_contract! { the_contract_holds_on_a_cluster:
    commands_reply_as_redis_does;
    errors_keep_the_codes_of_redis;
    pipelines_keep_their_order_and_may_span_slots;
    a_failed_command_of_a_pipeline_leaves_the_others_alone;
    transactions_are_executed_as_one;
    a_rejected_transaction_executes_nothing;
    scripts_run_alone_and_in_pipelines_and_in_transactions;
    flushed_scripts_are_loaded_again_and_nothing_runs_twice;
    the_error_of_a_script_reaches_its_caller;
    a_scan_finds_every_key_of_the_pattern;
    the_store_clock_follows_the_server_time;
    a_test_can_move_the_time;
    the_epoch_exists_and_stays;
    the_epoch_rises_on_request;
    every_primary_can_be_queried;
    a_command_that_changes_its_connection_is_rejected;
    a_store_with_room_is_writable;
    a_closed_store_ends_its_subscriptions;
}

static ADD: LuaScript = LuaScript::new("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])");
static FAIL: LuaScript =
    LuaScript::new("fail", "return redis.error_reply('ODD the number is odd')");

async fn a_command_that_changes_its_connection_is_rejected(f: &Fixture) {
    let mut store = f.store.clone();
    let key = f.key("watched");
    for name in ["WATCH", "SUBSCRIBE", "PSUBSCRIBE"] {
        let mut cmd = redis::cmd(name);
        cmd.arg(&key);
        let alone = cmd.exec_async(&mut store).await.unwrap_err();
        let mut pipe = redis::pipe();
        let in_pipeline = pipe.add_command(cmd).exec_async(&mut store).await;
        for error in [alone, in_pipeline.unwrap_err()] {
            let class = classify_error(&error);
            assert_eq!(class, StoreErrorClass::Rejected, "{name}: {error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    // The connection still belongs to all callers.
    store.set(&key, "1").await.unwrap();
    let mut pipe = redis::pipe();
    let read: (String,) = pipe
        .atomic()
        .get(&key)
        .query_async(&mut store)
        .await
        .unwrap();
    assert_eq!(read.0, "1");
}

async fn a_store_with_room_is_writable(f: &Fixture) {
    f.store.check_writable().await.unwrap();
    let keys = f.store.scan("*:probe", 100).next().await;
    assert!(keys.unwrap().is_none_or(|keys| keys.is_empty()));
}

async fn commands_reply_as_redis_does(f: &Fixture) {
    let mut store = f.store.clone();
    let key = f.key("text");
    store.set_ex(&key, "hello", 100).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap().as_deref(), Some("hello"));
    assert_eq!(store.get(f.key("nothing")).await.unwrap(), None);
    assert_eq!(store.incr(f.key("count"), 5).await.unwrap(), 5);
    store
        .hset_multiple(f.key("hash"), &[("a", 1), ("b", 2)])
        .await
        .unwrap();
    let hash: HashMap<String, String> = store.hgetall(f.key("hash")).await.unwrap();
    assert_eq!(
        hash,
        HashMap::from([("a".into(), "1".into()), ("b".into(), "2".into())])
    );
    store.rpush(f.key("list"), &["x", "y"]).await.unwrap();
    assert_eq!(
        store.lrange(f.key("list"), 0, -1).await.unwrap(),
        ["x", "y"]
    );
    store.zadd(f.key("scores"), "m", 1.5).await.unwrap();
    assert_eq!(store.zscore(f.key("scores"), "m").await.unwrap(), Some(1.5));
    assert_eq!(
        store.del(&[f.key("text"), f.key("nothing")]).await.unwrap(),
        1
    );
}

async fn errors_keep_the_codes_of_redis(f: &Fixture) {
    let mut store = f.store.clone();
    store.set(f.key("text"), "x").await.unwrap();
    let error = store.lpush(f.key("text"), "y").await.unwrap_err();
    assert_eq!(error.code(), Some("WRONGTYPE"), "{error}");
    assert_eq!(classify_error(&error), StoreErrorClass::Rejected);
    let error = redis::cmd("INCR")
        .arg(f.key("text"))
        .exec_async(&mut store)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some("ERR"), "{error}");
}

async fn pipelines_keep_their_order_and_may_span_slots(f: &Fixture) {
    let mut pipe = redis::pipe();
    for number in 0..300 {
        pipe.set(f.key_in_own_slot(number), number).ignore();
        pipe.incr(f.key_in_own_slot(number), 1_000);
        pipe.get(f.key_in_own_slot(number));
    }
    let replies: Vec<i64> = pipe.query_async(&mut f.store.clone()).await.unwrap();
    let expected: Vec<i64> = (1_000..1_300).flat_map(|number| [number, number]).collect();
    assert_eq!(replies, expected);
}

async fn a_failed_command_of_a_pipeline_leaves_the_others_alone(f: &Fixture) {
    let mut pipe = redis::pipe();
    pipe.set(f.key("a"), 1)
        .lpush(f.key("a"), "no")
        .incr(f.key("a"), 1)
        .ignore_errors();
    let replies: Vec<RedisResult<Value>> = pipe.query_async(&mut f.store.clone()).await.unwrap();
    assert_eq!(
        replies.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, false, true]
    );
    assert_eq!(
        f.store.clone().get(f.key("a")).await.unwrap().as_deref(),
        Some("2")
    );
}

async fn transactions_are_executed_as_one(f: &Fixture) {
    let mut pipe = redis::pipe();
    pipe.atomic()
        .set(f.key("a"), 1)
        .ignore()
        .incr(f.key("a"), 1)
        .get(f.key("a"));
    let replies: (i64, i64) = pipe.query_async(&mut f.store.clone()).await.unwrap();
    assert_eq!(replies, (2, 2));
}

async fn a_rejected_transaction_executes_nothing(f: &Fixture) {
    let mut pipe = redis::pipe();
    pipe.atomic()
        .set(f.key("a"), 1)
        .cmd("GET")
        .arg(f.key("a"))
        .arg("one too many");
    let reply: RedisResult<Value> = pipe.query_async(&mut f.store.clone()).await;
    let error = reply.unwrap_err();
    assert_eq!(error.code(), Some("EXECABORT"), "{error}");
    assert_eq!(f.store.clone().get(f.key("a")).await.unwrap(), None);
}

async fn scripts_run_alone_and_in_pipelines_and_in_transactions(f: &Fixture) {
    let key = f.key("sum");
    assert_eq!(ADD.keys(&key).arg(1).run::<i64>(&f.store).await.unwrap(), 1);
    let mut pipe = redis::pipe();
    pipe.add_command(ADD.keys(&key).arg(2).cmd())
        .add_command(ADD.keys(&key).arg(3).cmd())
        .get(&key);
    assert_eq!(
        pipe.query_async::<Vec<i64>>(&mut f.store.clone())
            .await
            .unwrap(),
        [3, 6, 6]
    );
    pipe.atomic();
    assert_eq!(
        pipe.query_async::<Vec<i64>>(&mut f.store.clone())
            .await
            .unwrap(),
        [8, 11, 11]
    );
}

async fn flushed_scripts_are_loaded_again_and_nothing_runs_twice(f: &Fixture) {
    let mut store = f.store.clone();
    let (sum, plain) = (f.key("sum"), f.key("plain"));
    let flush = async || {
        redis::cmd("SCRIPT")
            .arg("FLUSH")
            .exec_async(&mut f.store.clone())
            .await
            .unwrap();
    };
    flush().await;
    assert_eq!(ADD.keys(&sum).arg(1).run::<i64>(&f.store).await.unwrap(), 1);
    flush().await;
    let mut pipe = redis::pipe();
    pipe.incr(&plain, 1)
        .add_command(ADD.keys(&sum).arg(1).cmd())
        .incr(&plain, 1);
    pipe.add_command(ADD.keys(f.key_in_own_slot("sum")).arg(7).cmd());
    assert_eq!(
        pipe.query_async::<Vec<i64>>(&mut store).await.unwrap(),
        [1, 2, 2, 7]
    );
    flush().await;
    let mut pipe = redis::pipe();
    pipe.atomic()
        .incr(&plain, 1)
        .add_command(ADD.keys(&sum).arg(1).cmd());
    assert_eq!(
        pipe.query_async::<Vec<i64>>(&mut store).await.unwrap(),
        [3, 3]
    );
}

async fn the_error_of_a_script_reaches_its_caller(f: &Fixture) {
    let error = FAIL
        .keys(f.key("x"))
        .run::<Value>(&f.store)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some("ODD"), "{error}");
    assert_eq!(classify_error(&error), StoreErrorClass::Rejected);
}

async fn a_scan_finds_every_key_of_the_pattern(f: &Fixture) {
    let mut pipe = redis::pipe();
    for number in 0..500 {
        pipe.set(f.key_in_own_slot(number), number).ignore();
    }
    pipe.exec_async(&mut f.store.clone()).await.unwrap();
    let mut scan = f.store.scan(&f.key_in_own_slot("*"), 50);
    let (mut found, mut steps) = (BTreeSet::new(), 0);
    while let Some(keys) = scan.next().await.unwrap() {
        steps += 1;
        found.extend(
            keys.into_iter()
                .map(|key| String::from_utf8(key.to_vec()).unwrap()),
        );
    }
    assert_eq!(
        found,
        (0..500).map(|number| f.key_in_own_slot(number)).collect()
    );
    assert!(steps > 5, "bounded steps, not {steps}");
}

async fn the_store_clock_follows_the_server_time(f: &Fixture) {
    let time = async || {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME")
            .query_async(&mut f.store.clone())
            .await
            .unwrap();
        seconds * 1_000 + micros / 1_000
    };
    let before = time().await;
    let now = f.store.clock().now_ms();
    let after = time().await;
    assert!(
        before <= now + 1_000 && now <= after + 1_000,
        "{before} {now} {after}"
    );
}

async fn a_test_can_move_the_time(f: &Fixture) {
    let before = f.store.clock().now_ms();
    f.store.clock().advance(Duration::from_secs(3_600));
    assert!(f.store.clock().now_ms() >= before + 3_600_000);
}

async fn keys_expire_when_time_is_moved(f: &Fixture) {
    let mut store = f.store.clone();
    store.set_ex(f.key("short"), "v", 60).await.unwrap();
    store.set_ex(f.key("long"), "v", 600).await.unwrap();
    f.advance(Duration::from_secs(61)).await;
    assert_eq!(store.get(f.key("short")).await.unwrap(), None);
    assert_eq!(
        store.get(f.key("long")).await.unwrap().as_deref(),
        Some("v")
    );
}

async fn the_epoch_rises_on_request(f: &Fixture) {
    let before = *f.store.epoch().borrow();
    let raised = f.store.raise_epoch().await.unwrap();
    assert!(raised > before);
    assert_eq!(*f.store.epoch().borrow(), raised);
    let stored = f.store.clone().hget("parlor:epoch", "epoch").await.unwrap();
    assert_eq!(stored, Some(raised.to_string()));
}

async fn the_epoch_exists_and_stays(f: &Fixture) {
    let epoch = *f.store.epoch().borrow();
    assert!(
        epoch > 1_600_000_000_000,
        "an epoch is at least the time it was raised, not {epoch}"
    );
    let stored = f.store.clone().hget("parlor:epoch", "epoch").await.unwrap();
    assert_eq!(stored, Some(epoch.to_string()));
}

async fn every_primary_can_be_queried(f: &Fixture) {
    let expected = if f.store.kind() == StoreKind::Cluster {
        3
    } else {
        1
    };
    let mut info = redis::cmd("INFO");
    let answers = f.store.query_each_primary(info.arg("server")).await;
    let mut runs = BTreeSet::new();
    for (server, answer) in answers {
        let info: String = redis::from_redis_value(answer.unwrap()).unwrap();
        let run = info.lines().find(|line| line.starts_with("run_id:"));
        assert!(
            runs.insert(run.unwrap().to_owned()),
            "{server} answered twice"
        );
    }
    assert_eq!(runs.len(), expected);
}

async fn a_closed_store_ends_its_subscriptions(f: &Fixture) {
    let mut subscription = f.store.bus().subscribe(f.key("channel")).await.unwrap();
    f.store.close().await;
    assert_eq!(subscription.next().await, None);
}
