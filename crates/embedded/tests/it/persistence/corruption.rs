//! Corruption is detected, wherever it is in the file.

use std::fs;
use std::path::Path;

use parlor_embedded::{EmbeddedEngine, EngineOpenError};
use tempfile::TempDir;

use super::{Dump, dump, open, options, run_commands};

/// Creates a closed store with every type, some values on pages of their own. Returns its content.
async fn store(folder: &Path) -> Dump {
    let engine = open(folder);
    run_commands(
        &engine,
        "SET text hello\nSET number 12\nPEXPIRE number 9000000000000\nSADD set a b\nZADD z 1 a 2 b",
    )
    .await;
    run_commands(&engine, "RPUSH list a b c\nHSET hash field value").await;
    for n in 0..150 {
        run_commands(
            &engine,
            &format!("SET key:{n} value:{n}\nHSET hash f{n} v{n}"),
        )
        .await;
    }
    run_commands(&engine, &format!("SET long {}", "x".repeat(6_000))).await;
    run_commands(&engine, "DEL key:7 key:8 key:9\nHDEL hash f3 f4").await;
    engine.flush().await.unwrap();
    run_commands(&engine, "DEL key:70 key:80\nSADD set c").await;
    engine.close().await;
    let mut expected = dump(&engine).await;
    expected
        .values_mut()
        .for_each(|(.., ttl)| *ttl = ttl.signum());
    expected
}

/// Reads the store. The clock goes on and a TTL becomes smaller, so only the existence of a TTL is compared.
async fn read(folder: &Path) -> Result<Dump, EngineOpenError> {
    let mut found = dump(&EmbeddedEngine::open_read_only(folder)?).await;
    found.values_mut().for_each(|(.., ttl)| *ttl = ttl.signum());
    Ok(found)
}

fn is_reported(error: &EngineOpenError) -> bool {
    matches!(
        error,
        EngineOpenError::Corrupt { .. }
            | EngineOpenError::NewerFormat { .. }
            | EngineOpenError::Sqlite { .. }
    )
}

#[tokio::test]
async fn a_flipped_byte_is_noticed_or_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let expected = store(folder.path()).await;
    let path = folder.path().join("store.db");
    let sound = fs::read(&path).unwrap();
    assert_eq!(read(folder.path()).await.unwrap(), expected);
    let mut noticed = 0;
    let mut tried = 0;
    // All bytes of the file header and of each page header, and some bytes all over the rest.
    for at in (0..sound.len()).filter(|at| at % 4_096 < 24 || *at < 100 || at % 67 == 0) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        tried += 1;
        match read(folder.path()).await {
            Ok(found) => assert!(
                found == expected,
                "byte {at} was flipped, and the content changed without an error"
            ),
            Err(error) => {
                assert!(is_reported(&error), "byte {at}: {error}");
                noticed += 1;
            }
        }
    }
    assert!(noticed > tried / 3, "{noticed} of {tried} detected");
}

#[tokio::test]
async fn a_damaged_store_is_not_opened_for_writing_either() {
    let folder = TempDir::new().unwrap();
    let expected = store(folder.path()).await;
    let path = folder.path().join("store.db");
    let sound = fs::read(&path).unwrap();
    for at in (101..sound.len()).step_by(1_009) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0xFF;
        fs::write(&path, &bytes).unwrap();
        match EmbeddedEngine::open(options(folder.path())) {
            Ok(engine) => assert_eq!(dump(&engine).await.len(), expected.len(), "byte {at}"),
            Err(error) => {
                assert!(is_reported(&error), "byte {at}: {error}");
                assert_eq!(
                    fs::read(&path).unwrap(),
                    bytes,
                    "a corrupt file was written to"
                );
            }
        }
        for log in ["store.db-wal", "store.db-shm"] {
            let _ = fs::remove_file(folder.path().join(log));
        }
    }
}

#[tokio::test]
async fn a_truncated_file_is_noticed_unless_nothing_was_there() {
    let folder = TempDir::new().unwrap();
    let expected = store(folder.path()).await;
    let path = folder.path().join("store.db");
    let sound = fs::read(&path).unwrap();
    for length in
        (0..sound.len())
            .step_by(1_111)
            .chain([sound.len() - 1, sound.len() - 4_096, 4_096])
    {
        fs::write(&path, &sound[..length]).unwrap();
        match read(folder.path()).await {
            // The last page of a file may be empty.
            Ok(found) => assert!(
                found == expected && length + 4_096 >= sound.len(),
                "{length} bytes"
            ),
            Err(error) => assert!(
                matches!(error, EngineOpenError::Corrupt { .. }),
                "{length} bytes: {error}"
            ),
        }
    }
}

#[tokio::test]
async fn rows_that_were_tampered_with_are_named() {
    let folder = TempDir::new().unwrap();
    store(folder.path()).await;
    let path = folder.path().join("store.db");
    let sound = fs::read(&path).unwrap();
    let cases = [
        (
            "UPDATE key SET v = 'other' WHERE k = CAST('text' AS BLOB)",
            "key 'text'",
        ),
        (
            "UPDATE key SET v = CAST('other' AS BLOB) WHERE k = CAST('text' AS BLOB)",
            "key 'text'",
        ),
        (
            "UPDATE key SET v = NULL WHERE k = CAST('text' AS BLOB)",
            "key 'text'",
        ),
        (
            "UPDATE key SET kind = 2 WHERE k = CAST('set' AS BLOB)",
            "key 'set'",
        ),
        (
            "UPDATE key SET deadline = 1 WHERE k = CAST('number' AS BLOB)",
            "deadline",
        ),
        (
            "UPDATE item SET v = CAST('other' AS BLOB) WHERE k = CAST('hash' AS BLOB)",
            "key 'hash'",
        ),
        (
            "DELETE FROM item WHERE k = CAST('set' AS BLOB)",
            "its items are missing",
        ),
        (
            "DELETE FROM key WHERE k = CAST('set' AS BLOB)",
            "no row of its own",
        ),
        (
            "DELETE FROM key WHERE k = CAST('z' AS BLOB)",
            "no row of its own",
        ),
        (
            "DELETE FROM item WHERE k = CAST('list' AS BLOB) AND i = x'8000000000000001'",
            "a list item is missing",
        ),
        ("UPDATE meta SET clean = 0", "last run"),
        ("DELETE FROM meta", "last run"),
        ("DROP TABLE item", "its tables"),
    ];
    for (tampering, message) in cases {
        fs::write(&path, &sound).unwrap();
        let file = rusqlite::Connection::open(&path).unwrap();
        file.execute_batch(tampering).unwrap();
        drop(file);
        let error = read(folder.path()).await.expect_err(tampering);
        assert!(
            matches!(error, EngineOpenError::Corrupt { .. }),
            "{tampering}: {error}"
        );
        assert!(error.to_string().contains(message), "{tampering}: {error}");
    }
}
