//! The recorder finds what it promises to find.

use parlor_testkit::Redis;
use redis::aio::MultiplexedConnection;

use super::{ChangeKind, MonitorRecorder, TakeoverRule, test_connection};

async fn run(connection: &mut MultiplexedConnection, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    command
        .arg(&words[1..])
        .exec_async(connection)
        .await
        .unwrap();
}

/// Writes of the old service before each forbidden command.
const FOREIGN: &[&[&str]] = &[
    &["SET", "text", "1"],
    &["SET", "short", "1", "EX", "5"],
    &["SET", "typing", "1", "EX", "5"],
    &["SET", "counter", "5"],
    &["HSET", "hash", "field", "1", "other", "1"],
    &["SADD", "set", "member"],
    &["ZADD", "zset", "7", "member"],
    &["RPUSH", "list", "a", "b"],
    &["SET", "zero", "0"],
];

/// Commands of Parlor, each alone a violation.
const FORBIDDEN: &[&[&str]] = &[
    &["DEL", "text"],
    &["UNLINK", "hash"],
    &["GETDEL", "text"],
    &["SET", "text", "2"],
    &["GETSET", "text", "2"],
    &["SET", "text", "1", "EX", "9"],
    &["EXPIRE", "text", "100"],
    &["PEXPIRE", "short", "1000"],
    &["PEXPIRE", "short", "0"],
    &["HDEL", "hash", "field"],
    &["HSET", "hash", "field", "2"],
    &["EXPIRE", "hash", "100"],
    &["SREM", "set", "member"],
    &["ZREM", "zset", "member"],
    &["ZADD", "zset", "8", "member"],
    &["ZREMRANGEBYSCORE", "zset", "-inf", "(8"],
    &["LTRIM", "list", "0", "0"],
    &["LSET", "list", "1", "c"],
    // The rename of a key is unknown to the recorder, and nothing unknown may pass.
    &["RENAME", "text", "mine"],
];

/// Commands of Parlor that leave everything intact.
const ALLOWED: &[&[&str]] = &[
    &["SET", "text", "2", "NX"],
    &["SET", "typing", "1", "PX", "60000"],
    &["EXPIRE", "short", "100"],
    &["EXPIRE", "text", "100", "GT"],
    &["INCRBY", "counter", "3"],
    &["HSET", "hash", "mine", "1", "field", "1"],
    &["HDEL", "hash", "mine"],
    &["SADD", "set", "mine"],
    &["SREM", "set", "mine"],
    &["ZADD", "zset", "1", "mine"],
    &["ZREMRANGEBYSCORE", "zset", "-inf", "6"],
    &["LPUSH", "list", "mine"],
    &["LTRIM", "list", "0", "2"],
    &["DEL", "zero", "missing"],
    &["SET", "mine", "1"],
    &["DEL", "mine"],
    &["GET", "text"],
];

#[tokio::test]
async fn each_forbidden_command_is_found_alone_and_inside_a_script() {
    let redis = Redis::start().await;
    let mut other = test_connection(&redis).await;
    let mut parlor = redis.connection().await;
    for command in FORBIDDEN {
        for in_script in [false, true] {
            run(&mut other, &["FLUSHALL"]).await;
            let recorder = MonitorRecorder::start(&redis).await;
            let mut other = test_connection(&redis).await;
            for write in FOREIGN {
                run(&mut other, write).await;
            }
            if in_script {
                let script = "return redis.call(unpack(ARGV))";
                let call = [&["EVAL", script, "0"], *command].concat();
                run(&mut parlor, &call).await;
            } else {
                run(&mut parlor, command).await;
            }
            let found = recorder.violations(&[]).await;
            assert_eq!(found.len(), 1, "{command:?}: {found:?}");
        }
    }
}

#[tokio::test]
async fn commands_that_keep_the_data_of_others_are_no_violation() {
    let redis = Redis::start().await;
    let recorder = MonitorRecorder::start(&redis).await;
    let mut other = test_connection(&redis).await;
    let mut parlor = redis.connection().await;
    for write in FOREIGN {
        run(&mut other, write).await;
    }
    for command in ALLOWED {
        run(&mut parlor, command).await;
    }
    // The other side may change everything, in scripts as well.
    let script = "return redis.call('DEL', unpack(redis.call('KEYS', '*')))";
    run(&mut other, &["EVAL", script, "0"]).await;
    assert_eq!(recorder.violations(&[]).await, [""; 0]);
}

#[tokio::test]
async fn a_takeover_rule_allows_only_its_key_kind_and_condition() {
    let redis = Redis::start().await;
    let recorder = MonitorRecorder::start(&redis).await;
    let mut other = test_connection(&redis).await;
    let mut parlor = redis.connection().await;
    for user in ["a", "b"] {
        run(&mut other, &["SET", &format!("seen:{user}"), "5"]).await;
    }
    run(&mut other, &["SET", "seen:a:x", "5"]).await;
    run(&mut parlor, &["SET", "seen:a", "6"]).await;
    run(&mut parlor, &["SET", "seen:b", "4"]).await;
    run(&mut parlor, &["SET", "seen:a:x", "6"]).await;
    let rule = TakeoverRule {
        key: "seen:*",
        kind: ChangeKind::Overwrite,
        reason: "the later time is kept",
        allows: |change, _| change.new > change.old,
    };
    let found = recorder.violations(&[rule]).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("\"seen:b\"") && found[1].contains("\"seen:a:x\""));
}
