//! Data that a restart keeps.

use std::sync::Arc;
use std::time::Duration;

use parlor_embedded::{EmbeddedEngine, EngineOptions, ManualClock};
use parlor_testkit::eventually;
use tempfile::TempDir;

use super::{NO_FLUSH_INTERVAL, dump, get_text, open, options, run_commands};

const EVERY_TYPE: &str = "
    SET text hello
    SET number -12
    SET padded 007
    SET brief x PX 5000
    HSET hash a 1 b 2 c 3
    HDEL hash b
    PEXPIRE hash 100000
    RPUSH both m n o
    LPUSH both l k
    RPOP both
    LPOP both
    RPUSH trimmed a b c d e f
    LTRIM trimmed 1 -2
    RPUSH trimmed g
    RPUSH picked a x b x c
    LREM picked 1 x
    LSET picked 0 z
    SADD set a b c d
    SREM set d
    ZADD zset 1.5 a inf b -inf c -0 d 3 e
    ZREM zset e
    ZINCRBY zset 0.25 a
    SET gone 1
    DEL gone
    HSET emptied a 1
    HDEL emptied a
    SET turned text
    DEL turned
    SADD turned member
    SADD overwritten a b c
    SET overwritten text
    PEXPIRE overwritten 70000
    PERSIST overwritten
    RENAME text renamed
";

async fn reopen(engine: EmbeddedEngine, folder: &TempDir) -> EmbeddedEngine {
    engine.close().await;
    drop(engine);
    open(folder.path())
}

#[tokio::test]
async fn every_type_survives_a_clean_restart() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(&engine, EVERY_TYPE).await;
    let before = dump(&engine).await;
    assert_eq!(before.len(), 12, "{before:?}");
    let engine = reopen(engine, &folder).await;
    assert!(engine.previous_run_was_clean());
    assert_eq!(dump(&engine).await, before);

    run_commands(
        &engine,
        "RPUSH both p\nLPUSH both j\nRPUSH trimmed h\nHSET hash d 4\nZADD zset 9 a",
    )
    .await;
    let before = dump(&engine).await;
    let engine = reopen(engine, &folder).await;
    assert_eq!(dump(&engine).await, before);
}

#[tokio::test]
async fn big_collections_survive_a_restart() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    for n in 0..300 {
        run_commands(
            &engine,
            &format!("HSET h f{n} {n}\nSADD s m{n}\nZADD z {n} m{n}\nRPUSH l {n}\nLPUSH l -{n}"),
        )
        .await;
    }
    let mut connection = engine.connection();
    let long = vec![b'x'; 100_000];
    let _: () = redis::cmd("SET")
        .arg("long")
        .arg(&long)
        .query_async(&mut connection)
        .await
        .unwrap();
    let _: () = redis::cmd("HSET")
        .arg("h")
        .arg(&long)
        .arg(&long)
        .query_async(&mut connection)
        .await
        .unwrap();
    drop(connection);
    let before = dump(&engine).await;
    assert_eq!(dump(&reopen(engine, &folder).await).await, before);
}

#[tokio::test]
async fn bytes_are_kept_as_they_are() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    let mut connection = engine.connection();
    let odd: [&[u8]; 6] = [
        b"",
        b"\0",
        b"\0\0",
        b"\xff\xfe",
        b"a\nb",
        "grüße".as_bytes(),
    ];
    for (n, bytes) in odd.into_iter().enumerate() {
        let _: () = redis::cmd("SET")
            .arg(bytes)
            .arg(bytes)
            .query_async(&mut connection)
            .await
            .unwrap();
        let _: () = redis::cmd("HSET")
            .arg(n)
            .arg(bytes)
            .arg(bytes)
            .query_async(&mut connection)
            .await
            .unwrap();
        let _: () = redis::cmd("RPUSH")
            .arg("list")
            .arg(bytes)
            .query_async(&mut connection)
            .await
            .unwrap();
        let _: () = redis::cmd("SADD")
            .arg("set")
            .arg(bytes)
            .query_async(&mut connection)
            .await
            .unwrap();
        let _: () = redis::cmd("ZADD")
            .arg("zset")
            .arg(n)
            .arg(bytes)
            .query_async(&mut connection)
            .await
            .unwrap();
    }
    drop(connection);
    let before = dump(&engine).await;
    assert_eq!(before.len(), 15);
    assert_eq!(dump(&reopen(engine, &folder).await).await, before);
}

#[tokio::test]
async fn flushall_survives_a_restart() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(&engine, EVERY_TYPE).await;
    engine.flush().await.unwrap();
    run_commands(&engine, "SET early 1\nFLUSHALL\nHSET hash z 1\nSET late 1").await;
    let before = dump(&engine).await;
    assert_eq!(before.len(), 2);
    assert_eq!(dump(&reopen(engine, &folder).await).await, before);
}

#[tokio::test]
async fn scripts_and_transactions_survive_a_restart() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    let script = redis::Script::new(
        "redis.call('SET', KEYS[1], ARGV[1]); redis.call('HSET', KEYS[2], 'f', ARGV[1])",
    );
    let _: () = script
        .key("a")
        .key("h")
        .arg(7)
        .invoke_async(&mut engine.connection())
        .await
        .unwrap();
    let mut pipe = redis::pipe();
    pipe.atomic().set("b", 8).ignore().lpush("l", 8).ignore();
    let _: () = pipe.query_async(&mut engine.connection()).await.unwrap();
    let before = dump(&engine).await;
    assert_eq!(before.len(), 4);
    assert_eq!(dump(&reopen(engine, &folder).await).await, before);
}

#[tokio::test]
async fn dropping_the_engine_flushes_it() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    let other = engine.clone();
    run_commands(&engine, "SET a 1").await;
    drop(engine);
    run_commands(&other, "SET b 2").await;
    drop(other);
    let engine = open(folder.path());
    assert!(engine.previous_run_was_clean());
    assert_eq!(
        (
            get_text(&engine, "GET a").await,
            get_text(&engine, "GET b").await
        ),
        (Some("1".into()), Some("2".into()))
    );
}

#[tokio::test]
async fn the_engine_flushes_once_per_interval() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(EngineOptions {
        flush_interval: Duration::from_millis(20),
        ..options(folder.path())
    })
    .unwrap();
    let flushed = engine.flush_count();
    run_commands(&engine, "SET a 1").await;
    eventually("a flush", async || {
        *flushed.borrow() > 0 && engine.unflushed_bytes() == 0
    })
    .await;
    let reader = EmbeddedEngine::open_read_only(folder.path()).unwrap();
    assert_eq!(get_text(&reader, "GET a").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_closed_engine_reads_but_does_not_write() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(&engine, "SET a 1").await;
    engine.close().await;
    engine.close().await;
    let error = super::try_command(&engine, "SET a 2").await.unwrap_err();
    assert!(error.to_string().contains("the store is closed"), "{error}");
    assert_eq!(get_text(&engine, "GET a").await.as_deref(), Some("1"));
    engine.flush().await.unwrap();
    let again = open(folder.path());
    assert_eq!(get_text(&again, "GET a").await.as_deref(), Some("1"));
    assert_ne!(again.run_id(), engine.run_id());
    assert_eq!(again.run_id().len(), 40);
}

#[tokio::test]
async fn expired_keys_are_deleted_from_memory_and_disk() {
    let folder = TempDir::new().unwrap();
    let clock = ManualClock::default();
    let options = || EngineOptions {
        clock: Arc::new(clock.clone()),
        flush_interval: NO_FLUSH_INTERVAL,
        ..options(folder.path())
    };
    let engine = EmbeddedEngine::open(options()).unwrap();
    for n in 0..1_000 {
        run_commands(
            &engine,
            &format!("SET k{n} v PX 1000\nHSET h{n} f v\nPEXPIRE h{n} 2000"),
        )
        .await;
    }
    run_commands(&engine, "SET stays 1").await;
    clock.advance(Duration::from_millis(1_001));
    eventually("the expiry of strings", async || {
        engine.key_count() == 1_001
    })
    .await;
    engine.close().await;

    clock.advance(Duration::from_secs(1));
    let engine = EmbeddedEngine::open(options()).unwrap();
    assert_eq!(engine.key_count(), 1);
    engine.close().await;

    // A key that has expired at a start is deleted from disk too: it does not reappear with an earlier clock.
    clock.set(0);
    let engine = EmbeddedEngine::open(options()).unwrap();
    assert_eq!(engine.key_count(), 1);
}

#[tokio::test]
async fn a_memory_only_engine_expires_keys() {
    let clock = ManualClock::default();
    let engine = EmbeddedEngine::open(EngineOptions {
        clock: Arc::new(clock.clone()),
        ..EngineOptions::default()
    })
    .unwrap();
    run_commands(&engine, "SET a 1 PX 10\nSET b 1").await;
    clock.advance(Duration::from_millis(11));
    eventually("the expiry", async || engine.key_count() == 1).await;
    engine.flush().await.unwrap();
    assert!(engine.previous_run_was_clean() && !engine.is_persistent());
}

#[tokio::test]
async fn volatile_updates_are_visible_but_lost_on_restart_while_inserts_and_deletes_persist() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(
        &engine,
        "SET text old PX 60000\nHSET hash kept old gone 1\nPEXPIRE hash 60000\nZADD zset 1 a\nSADD turned m",
    )
    .await;
    let mut volatile = engine.connection().with_volatile_updates();
    let script = "redis.call('HSET', KEYS[1], 'kept', 'new', 'added', '1') redis.call('HDEL', KEYS[1], 'gone') \
        redis.call('PEXPIRE', KEYS[1], 90000) return redis.call('HGET', KEYS[1], 'kept')";
    let mut pipe = redis::pipe();
    pipe.cmd("SET").arg("text").arg("new").arg("PX").arg(90_000);
    pipe.cmd("EVAL").arg(script).arg(1).arg("hash");
    pipe.cmd("ZADD").arg("zset").arg(2).arg("a").arg(3).arg("b");
    pipe.cmd("SET").arg("turned").arg("text");
    pipe.cmd("SET").arg("made").arg("1");
    let replies: Vec<redis::Value> = pipe.query_async(&mut volatile).await.unwrap();
    assert_eq!(replies[1], redis::Value::BulkString(b"new".to_vec()));
    assert_eq!(get_text(&engine, "GET text").await.unwrap(), "new");

    let engine = reopen(engine, &folder).await;
    assert_eq!(get_text(&engine, "GET text").await.unwrap(), "old");
    assert_eq!(get_text(&engine, "HGET hash kept").await.unwrap(), "old");
    assert_eq!(get_text(&engine, "HGET hash added").await.unwrap(), "1");
    assert_eq!(get_text(&engine, "HLEN hash").await.unwrap(), "2");
    assert_eq!(get_text(&engine, "ZSCORE zset a").await.unwrap(), "1");
    assert_eq!(get_text(&engine, "ZSCORE zset b").await.unwrap(), "3");
    assert_eq!(get_text(&engine, "GET turned").await.unwrap(), "text");
    assert_eq!(get_text(&engine, "GET made").await.unwrap(), "1");
    let ttl: u64 = get_text(&engine, "PTTL hash")
        .await
        .unwrap()
        .parse()
        .unwrap();
    assert!(ttl <= 60_000, "{ttl}");
}

#[tokio::test]
async fn a_normal_command_after_a_volatile_one_is_persisted() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(&engine, "SET text first").await;
    let mut volatile = engine.connection().with_volatile_updates();
    let mut set = redis::cmd("SET");
    set.arg("text").arg("volatile");
    set.exec_async(&mut volatile).await.unwrap();
    run_commands(&engine, "SET text last").await;
    let engine = reopen(engine, &folder).await;
    assert_eq!(get_text(&engine, "GET text").await.unwrap(), "last");
}

/// The second `ZADD` changes nothing in memory, but the file has the older score.
#[tokio::test]
async fn setting_an_unchanged_score_persists_it() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(&engine, "ZADD zset 1 a").await;
    let mut again = redis::cmd("ZADD");
    again.arg("zset").arg(2).arg("a");
    let mut volatile = engine.connection().with_volatile_updates();
    again.exec_async(&mut volatile).await.unwrap();
    run_commands(&engine, "ZADD zset 2 a").await;
    let engine = reopen(engine, &folder).await;
    assert_eq!(get_text(&engine, "ZSCORE zset a").await.unwrap(), "2");
}
