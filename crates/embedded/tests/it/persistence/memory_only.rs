//! Memory-only lists.

use parlor_embedded::EmbeddedEngine;
use parlor_embedded::native::{NativeScriptCall, NativeScriptResult};
use redis::{Script, Value};
use tempfile::TempDir;

use super::{Dump, dump, open, run_commands};

const MEMORY_ONLY_SCRIPT: &str = "return 1";

fn memory_only_native(call: &mut NativeScriptCall<'_>) -> NativeScriptResult {
    for list in call.keys() {
        call.set_memory_only(list)?;
    }
    Ok(Some(Value::Int(1)))
}

pub(super) async fn make_memory_only(engine: &EmbeddedEngine, list: &str) {
    let mut connection = engine.connection();
    connection
        .load_native_script(MEMORY_ONLY_SCRIPT, memory_only_native)
        .unwrap();
    let reply: redis::RedisResult<()> = Script::new(MEMORY_ONLY_SCRIPT)
        .key(list)
        .invoke_async(&mut connection)
        .await;
    reply.unwrap();
}

/// The state that a process would load if this one were killed now.
async fn dump_flushed(engine: &EmbeddedEngine, folder: &TempDir) -> Dump {
    engine.flush().await.unwrap();
    dump(&EmbeddedEngine::open_read_only(folder.path()).unwrap()).await
}

#[tokio::test]
async fn after_a_kill_only_memory_only_lists_are_lost() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(&engine, "RPUSH list a b c\nRPUSH other a\nSET text a").await;
    assert_eq!(dump_flushed(&engine, &folder).await.len(), 3);
    make_memory_only(&engine, "list").await;
    // A key of another type and a missing key are ignored.
    make_memory_only(&engine, "text").await;
    make_memory_only(&engine, "nothing").await;
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
async fn a_memory_only_list_ends_with_the_engine() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(&engine, "RPUSH list a b c\nRPUSH other a").await;
    make_memory_only(&engine, "list").await;
    run_commands(&engine, "RPUSH list d").await;
    engine.close().await;
    drop(engine);
    let engine = open(folder.path());
    assert!(engine.previous_run_was_clean());
    let names: Vec<_> = dump(&engine).await.into_keys().collect();
    assert_eq!(names, [b"other"]);
}

#[tokio::test]
async fn what_replaces_a_memory_only_list_is_persisted() {
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
        make_memory_only(&engine, "list").await;
        run_commands(&engine, change).await;
        let found = dump_flushed(&engine, &folder).await;
        assert_eq!(found, dump(&engine).await, "{change}");
        assert!(!found.is_empty(), "{change}");
    }
}
