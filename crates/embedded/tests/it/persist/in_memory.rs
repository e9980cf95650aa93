//! Lists that are kept in memory only while the engine runs.

use parlor_embedded::native::{Done, Step};
use parlor_embedded::{Engine, Options};
use redis::{Script, Value};
use tempfile::TempDir;

use super::{Dump, dump, open, options, run};

const KEEP: &str = "return 1";

fn keep(step: &mut Step<'_>) -> Done {
    for list in step.keys() {
        step.keep_in_memory(list)?;
    }
    Ok(Some(Value::Int(1)))
}

async fn keep_in_memory(engine: &Engine, list: &str) {
    let mut connection = engine.connection();
    connection.load_native(KEEP, keep).unwrap();
    let kept: redis::RedisResult<()> = Script::new(KEEP)
        .key(list)
        .invoke_async(&mut connection)
        .await;
    kept.unwrap();
}

/// What a process finds that starts after this one was killed.
async fn after_a_kill(engine: &Engine, folder: &TempDir) -> Dump {
    engine.flush().await.unwrap();
    dump(&Engine::open_read_only(folder.path()).unwrap()).await
}

#[tokio::test]
async fn a_list_in_memory_is_not_there_after_a_kill_and_all_else_is() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run(&engine, "RPUSH list a b c\nRPUSH other a\nSET text a").await;
    assert_eq!(after_a_kill(&engine, &folder).await.len(), 3);
    keep_in_memory(&engine, "list").await;
    // Also one that is neither a list nor there.
    keep_in_memory(&engine, "text").await;
    keep_in_memory(&engine, "nothing").await;
    run(&engine, "LPUSH list z\nRPOP list\nLREM list 1 b\nLSET list 0 y\nEXPIRE list 60\nRPUSH other b\nSET text b").await;
    let mut expected = dump(&engine).await;
    assert!(expected.remove(&b"list"[..]).is_some());
    assert_eq!(after_a_kill(&engine, &folder).await, expected);
}

#[tokio::test]
async fn a_list_in_memory_survives_a_clean_restart_and_is_written_as_any_other_then() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run(&engine, "RPUSH list a b c d").await;
    keep_in_memory(&engine, "list").await;
    run(
        &engine,
        "LTRIM list 1 -1\nLINSERT list BEFORE c x\nEXPIRE list 60",
    )
    .await;
    let before = dump(&engine).await;
    engine.close().await;
    drop(engine);
    let engine = open(folder.path());
    assert_eq!(dump(&engine).await, before);
    run(&engine, "RPUSH list e\nPERSIST list").await;
    assert_eq!(after_a_kill(&engine, &folder).await, dump(&engine).await);
}

#[tokio::test]
async fn what_is_made_of_a_list_in_memory_is_written_as_any_other() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run(&engine, "RPUSH list a b c\nRPUSH moved a b c").await;
    keep_in_memory(&engine, "list").await;
    keep_in_memory(&engine, "moved").await;
    run(
        &engine,
        "COPY list copy\nRENAME moved renamed\nRPUSH copy d\nLPOP renamed",
    )
    .await;
    // A list of the same name that is made anew is another one.
    run(&engine, "DEL list\nRPUSH list again").await;
    assert_eq!(after_a_kill(&engine, &folder).await, dump(&engine).await);
}

#[tokio::test]
async fn an_expired_list_in_memory_does_not_come_back() {
    let folder = TempDir::new().unwrap();
    let clock = parlor_embedded::ManualClock::default();
    let options = || Options {
        clock: std::sync::Arc::new(clock.clone()),
        ..options(folder.path())
    };
    let engine = Engine::open(options()).unwrap();
    run(&engine, "RPUSH list a\nPEXPIRE list 5").await;
    keep_in_memory(&engine, "list").await;
    clock.advance(std::time::Duration::from_millis(6));
    engine.close().await;
    drop(engine);
    assert!(dump(&Engine::open(options()).unwrap()).await.is_empty());
}
