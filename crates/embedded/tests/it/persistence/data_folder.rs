//! Locking of the data folder, and files that are rejected as a store.

use std::fs;

use parlor_embedded::{EmbeddedEngine, EngineOpenError};
use tempfile::TempDir;

use super::{dump, get_text, open, open_error, run_commands, try_command};

fn corruption(error: &EngineOpenError) -> &str {
    match error {
        EngineOpenError::Corrupt { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_folder_has_one_engine_at_a_time() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    assert!(matches!(
        open_error(folder.path()),
        EngineOpenError::Locked { .. }
    ));
    engine.close().await;
    open(folder.path());
}

#[tokio::test]
async fn a_folder_is_created_with_its_parents() {
    let folder = TempDir::new().unwrap();
    let deep = folder.path().join("a/b");
    let engine = open(&deep);
    assert!(engine.previous_run_was_clean());
    drop(engine);
    let blocked = deep.join("store.db/below");
    assert!(matches!(open_error(&blocked), EngineOpenError::Io { .. }));
}

#[tokio::test]
async fn a_read_only_engine_sees_the_flushed_state_and_rejects_writes() {
    let folder = TempDir::new().unwrap();
    assert!(matches!(
        EmbeddedEngine::open_read_only(folder.path()).map(drop),
        Err(EngineOpenError::Io { .. })
    ));
    let engine = open(folder.path());
    run_commands(&engine, "SET a 1\nHSET h f v").await;
    engine.flush().await.unwrap();
    run_commands(&engine, "SET a 2").await;
    let reader = EmbeddedEngine::open_read_only(folder.path()).unwrap();
    assert_eq!(get_text(&reader, "GET a").await.as_deref(), Some("1"));
    let error = try_command(&reader, "SET a 3").await.unwrap_err();
    assert_eq!(error.code(), Some("READONLY"), "{error}");
    reader.close().await;
    engine.close().await;
    let reader = EmbeddedEngine::open_read_only(folder.path()).unwrap();
    assert_eq!(get_text(&reader, "GET a").await.as_deref(), Some("2"));
    assert_eq!(dump(&reader).await.len(), 2);
    drop(reader);
    assert!(open(folder.path()).previous_run_was_clean());
}

#[tokio::test]
async fn a_file_that_is_not_a_store_is_rejected_and_not_changed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let long = "not a store ".repeat(1_000);
    for content in ["", "short", &long] {
        fs::write(&path, content).unwrap();
        assert!(!corruption(&open_error(folder.path())).is_empty());
        assert!(EmbeddedEngine::open_read_only(folder.path()).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

#[tokio::test]
async fn an_sqlite_file_of_another_program_is_rejected_and_not_changed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign
        .execute_batch("CREATE TABLE key (k); INSERT INTO key VALUES (1)")
        .unwrap();
    drop(foreign);
    let content = fs::read(&path).unwrap();
    assert!(corruption(&open_error(folder.path())).contains("another program"));
    assert!(EmbeddedEngine::open_read_only(folder.path()).is_err());
    assert_eq!(fs::read(&path).unwrap(), content);
}

#[tokio::test]
async fn a_newer_format_is_rejected() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()));
    let file = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    file.pragma_update(None, "user_version", 2).unwrap();
    drop(file);
    assert!(matches!(
        open_error(folder.path()),
        EngineOpenError::NewerFormat {
            found_version: 2,
            supported_version: 1,
            ..
        }
    ));
}

#[tokio::test]
async fn a_wal_without_its_file_is_corruption() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("store.db-wal"), "left behind").unwrap();
    assert!(corruption(&open_error(folder.path())).contains("store.db-wal"));
    fs::remove_file(folder.path().join("store.db-wal")).unwrap();
    open(folder.path());
}

#[tokio::test]
async fn an_interrupted_creation_is_repeated() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("store.db.new"), "half a file").unwrap();
    fs::write(folder.path().join("store.db.new-journal"), "half a journal").unwrap();
    let engine = open(folder.path());
    run_commands(&engine, "SET a 1").await;
    engine.flush().await.unwrap();
    assert!(!folder.path().join("store.db.new").exists());
}
