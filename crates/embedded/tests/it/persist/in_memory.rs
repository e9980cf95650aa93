//! Memory-only lists.

use parlor_embedded::Engine;
use parlor_embedded::native::{NativeScriptCall, NativeScriptResult};
use redis::{Script, Value};
use tempfile::TempDir;

use super::{Dump, dump, open, run_commands};

const MEMORY_ONLY_SCRIPT: &str = "return 1";

fn memory_only_native(step: &mut NativeScriptCall<'_>) -> NativeScriptResult {
    for list in step.keys() {
        step.set_memory_only(list)?;
    }
    Ok(Some(Value::Int(1)))
}

pub(super) async fn keep_in_memory(engine: &Engine, list: &str) {
    let mut connection = engine.connection();
    connection
        .load_native_script(MEMORY_ONLY_SCRIPT, memory_only_native)
        .unwrap();
    let kept: redis::RedisResult<()> = Script::new(MEMORY_ONLY_SCRIPT)
        .key(list)
        .invoke_async(&mut connection)
        .await;
    kept.unwrap();
}

/// The state that a process would load if this one were killed now.
async fn dump_flushed(engine: &Engine, folder: &TempDir) -> Dump {
    engine.flush().await.unwrap();
    dump(&Engine::open_read_only(folder.path()).unwrap()).await
}

#[tokio::test]
async fn a_list_in_memory_is_not_there_after_a_kill_and_all_else_is() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(&engine, "RPUSH list a b c\nRPUSH other a\nSET text a").await;
    assert_eq!(dump_flushed(&engine, &folder).await.len(), 3);
    keep_in_memory(&engine, "list").await;
    // A key of another type and a missing key are ignored.
    keep_in_memory(&engine, "text").await;
    keep_in_memory(&engine, "nothing").await;
    for change in [
        "LPUSH list z\nRPUSH list y",
        "RPOP list\nLREM list 1 b",
        "LSET list 0 y\nLINSERT list AFTER y x",
        "LTRIM list 0 1",
        "EXPIRE list 60\nPERSIST list",
        "RPUSH other b\nSET text b\nLMOVE list other LEFT RIGHT",
    ] {
        run_commands(&engine, change).await;
        let mut expected = dump(&engine).await;
        assert!(expected.remove(&b"list"[..]).is_some(), "{change}");
        assert_eq!(dump_flushed(&engine, &folder).await, expected, "{change}");
    }
}

#[tokio::test]
async fn a_list_in_memory_ends_with_the_engine() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(&engine, "RPUSH list a b c\nRPUSH other a").await;
    keep_in_memory(&engine, "list").await;
    run_commands(&engine, "RPUSH list d").await;
    engine.close().await;
    drop(engine);
    let engine = open(folder.path());
    assert!(engine.previous_run_was_clean());
    let names: Vec<_> = dump(&engine).await.into_keys().collect();
    assert_eq!(names, [b"other"]);
}

#[tokio::test]
async fn what_takes_the_place_of_a_list_in_memory_is_written_as_any_other() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    for change in [
        "DEL list\nRPUSH list again",
        "LTRIM list 1 0\nRPUSH list again",
        "SET list text",
        "FLUSHALL\nRPUSH list again",
        "COPY list copy\nRPUSH copy d\nDEL list",
        "RENAME list renamed\nLPOP renamed",
        "RPUSH more z\nRENAME more list\nRPUSH list y",
    ] {
        run_commands(&engine, "FLUSHALL\nRPUSH list a b c").await;
        keep_in_memory(&engine, "list").await;
        run_commands(&engine, change).await;
        let found = dump_flushed(&engine, &folder).await;
        assert_eq!(found, dump(&engine).await, "{change}");
        assert!(!found.is_empty(), "{change}");
    }
}
