//! Opening databases of both backends.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

use std::time::Duration;

use parlor_chat::database::{
    Database, DatabaseErrorKind, DatabaseOpenError, DatabaseOptions, DatabaseUrl, PerBackend,
    WriteTransaction, classify_error,
};
use parlor_testkit::Postgres;
use tempfile::TempDir;

/// Addresses of an empty SQLite and an empty PostgreSQL database, with the folder and the server that contain them.
async fn both_backends() -> (TempDir, Postgres, [DatabaseUrl; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let server = Postgres::start().await;
    let address = server.create_database().await;
    let urls = ["", &address].map(|text| DatabaseUrl::parse(text, folder.path()).unwrap());
    (folder, server, urls)
}

async fn open(url: &DatabaseUrl) -> Result<Database, DatabaseOpenError> {
    let options = DatabaseOptions {
        timeout: Duration::from_secs(30),
        ..DatabaseOptions::new(url.clone())
    };
    Database::open(options).await
}

/// Runs a statement in a transaction, which is not committed.
async fn begin(database: &Database, statement: &'static str) -> WriteTransaction {
    let mut tx = database.begin().await.unwrap();
    let rows = match tx.connection() {
        PerBackend::Sqlite(c) => sqlx::query(statement)
            .execute(c)
            .await
            .unwrap()
            .rows_affected(),
        PerBackend::Postgres(c) => sqlx::query(statement)
            .execute(c)
            .await
            .unwrap()
            .rows_affected(),
    };
    assert_eq!(rows, 1);
    tx
}

async fn execute(database: &Database, statement: &'static str) {
    let tx = begin(database, statement).await;
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_database_keeps_the_id_it_was_given() {
    let (_folder, _server, urls) = both_backends().await;
    let mut ids = Vec::new();
    for url in &urls {
        let first = open(url).await.unwrap();
        let (again, once_more) = tokio::join!(open(url), open(url));
        assert_eq!(again.unwrap().id(), first.id());
        assert_eq!(once_more.unwrap().id(), first.id());
        ids.push(first.id().to_owned());
    }
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn many_nodes_may_open_a_new_database_at_once() {
    let (_folder, _server, urls) = both_backends().await;
    for url in &urls {
        let opening: Vec<_> = (0..5)
            .map(|_| {
                tokio::spawn({
                    let url = url.clone();
                    async move { open(&url).await.unwrap().id().to_owned() }
                })
            })
            .collect();
        let mut ids = Vec::new();
        for one in opening {
            ids.push(one.await.unwrap());
        }
        ids.dedup();
        assert_eq!(ids.len(), 1, "{url}");
    }
}

#[tokio::test]
async fn a_database_that_a_newer_program_changed_is_refused() {
    let (_folder, _server, urls) = both_backends().await;
    for url in &urls {
        let database = open(url).await.unwrap();
        let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
            SELECT 999, 'from the future', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1";
        execute(&database, newer).await;
        let refused = open(url).await.unwrap_err();
        assert!(
            matches!(
                refused,
                DatabaseOpenError::MigratedByNewerVersion { found: 999, .. }
            ),
            "{refused}"
        );
        assert!(
            refused.to_string().contains("run the newer version"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn dropping_a_transaction_rolls_it_back() {
    let (_folder, _server, urls) = both_backends().await;
    for url in &urls {
        let database = open(url).await.unwrap();
        let statement = "INSERT INTO users (id) VALUES ('alice')";
        drop(begin(&database, statement).await);
        // The dropped transaction has released the write lock and the id.
        execute(&database, statement).await;
    }
}

#[tokio::test]
async fn a_wait_for_the_write_lock_of_sqlite_ends_with_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let options = DatabaseOptions {
        timeout: Duration::from_millis(100),
        ..DatabaseOptions::new(DatabaseUrl::Sqlite(folder.path().join("a.db")))
    };
    let database = Database::open(options).await.unwrap();
    let writing = database.begin().await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_secs(60), database.begin());
    let error = waiting.await.unwrap().err().unwrap();
    assert_eq!(classify_error(&error), DatabaseErrorKind::Unavailable);
    assert!(error.to_string().contains("write lock"), "{error}");
    drop(writing);
    drop(database.begin().await.unwrap());
}

#[tokio::test]
async fn an_unreachable_database_is_reported_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let address = "postgres://somebody:hunter2@127.0.0.1:1/chat";
    let url = DatabaseUrl::parse(address, folder.path()).unwrap();
    let error = open(&url).await.unwrap_err();
    assert!(
        matches!(error, DatabaseOpenError::Unavailable { .. }),
        "{error:?}"
    );
    assert!(!format!("{error} {error:?} {url:?}").contains("hunter2"));
}

#[test]
fn addresses_are_read_and_others_are_refused() {
    let data = std::path::Path::new("data");
    for (text, shown) in [
        ("", "sqlite:data/parlor.db"),
        ("sqlite:", "sqlite:data/parlor.db"),
        ("sqlite:other.db", "sqlite:other.db"),
        ("sqlite:///var/lib/parlor.db", "sqlite:/var/lib/parlor.db"),
        (
            "postgres://me:secret@db.example.com/chat",
            "postgres://db.example.com:5432/chat",
        ),
        (
            "postgresql://me@db.example.com:5433/chat",
            "postgres://db.example.com:5433/chat",
        ),
    ] {
        assert_eq!(
            DatabaseUrl::parse(text, data).unwrap().to_string(),
            shown,
            "{text}"
        );
    }
    for text in ["mysql://x", "sqlite::memory:", "postgres://host:port/x"] {
        assert!(DatabaseUrl::parse(text, data).is_err(), "{text}");
    }
}
