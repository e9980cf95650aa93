//! Tests of `parlor repair unread`.

use parlor_chat::Chat;
use parlor_chat::ChatOptions;
use parlor_chat::context::ChatContext;
use parlor_chat::database::{Database, DatabaseOptions, DatabaseUrl, PerBackend};
use parlor_chat::ids::{NodeId, UserId};
use parlor_chat::keys::{KeySettings, Keyspace};
use parlor_store::Store;
use parlor_testkit::{Postgres, Redis};
use tempfile::TempDir;

use crate::support::{CommandOutput, embedded, run, run_in};

/// Fills a store and a database that belong together: one conversation with two unread messages for Bob.
async fn prepare_store(store: &Store, url: DatabaseUrl) -> Chat {
    let database = Database::open(DatabaseOptions::new(url)).await.unwrap();
    let keys = Keyspace::new(KeySettings::default(), false).unwrap();
    let context = ChatContext::new(store.clone(), keys);
    let node = NodeId::new("n1").unwrap();
    let chat = Chat::new(context, database, node, &ChatOptions::default());
    chat.start().await.unwrap();
    for statement in [
        "INSERT INTO conversations (id, kind, created_at, last_at, last_seq, members_version, member_count)
            VALUES ('c1', 'direct', 0, 0, 2, 1, 2), ('c2', 'group', 0, 0, 0, 1, 1)",
        "INSERT INTO members (conversation_id, user_id, role, joined_at, joined_seq, joined_version, delivered_seq, read_seq, badge_seq)
            VALUES ('c1', 'alice', 'member', 0, 0, 1, 2, 2, 2), ('c1', 'bob', 'member', 0, 0, 1, 0, 0, 0),
                ('c2', 'alice', 'owner', 0, 0, 1, 0, 0, 0)",
    ] {
        let mut tx = chat.database().begin().await.unwrap();
        match tx.connection() {
            PerBackend::Sqlite(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
            PerBackend::Postgres(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
        }
        tx.commit().await.unwrap();
    }
    for user in ["alice", "bob"] {
        chat.unread()
            .get_summary(&UserId::new(user).unwrap())
            .await
            .unwrap();
    }
    chat
}

/// Corrupts two keys of Bob, adds a key of a conversation of which he is not a member, and the counter of a user whom
/// only another service knows.
async fn damage_counters(store: &Store) {
    let mut pipe = redis::pipe();
    pipe.set("unread:bob:c1", 7).set("unread:bob:total", 8);
    pipe.set("unread:bob:c2", 3).set("unread:nobody:c1", 3);
    pipe.exec_async(&mut store.clone()).await.unwrap();
}

fn found_differences(ran: &CommandOutput) -> [u64; 4] {
    let json = ran.json();
    ["users", "counters", "totals", "strays"].map(|name| json[name].as_u64().unwrap())
}

#[tokio::test]
async fn repair_corrects_the_counters_in_redis_and_reports_them() {
    let (redis, postgres) = (Redis::start().await, Postgres::start().await);
    let address = postgres.create_database().await;
    let folder = TempDir::new().unwrap();
    let options = parlor_store::StoreOptions::new(redis.url().parse().unwrap());
    let store = Store::open(options).await.unwrap();
    let url = DatabaseUrl::parse(&address, folder.path()).unwrap();
    let _chat = prepare_store(&store, url).await;
    damage_counters(&store).await;
    let (url, database) = (redis.url(), format!("database.url={address}"));
    let call = [
        "repair", "unread", "--store", &url, "--set", &database, "--json",
    ];
    let dry = run_in(folder.path(), &[&call[..], &["--dry-run"]].concat(), &[]).await;
    assert_eq!(dry.exit_code, 1, "{dry:?}");
    assert_eq!(found_differences(&dry), [2, 1, 1, 1], "{dry:?}");
    assert_eq!(dry.json()["dryRun"], true);
    let mended = run_in(folder.path(), &call, &[]).await;
    assert_eq!(mended.exit_code, 0, "{mended:?}");
    assert_eq!(found_differences(&mended), [2, 1, 1, 1], "{mended:?}");
    assert_eq!(mended.stderr, "", "no progress bar without a terminal");
    let again = run_in(folder.path(), &call[..6], &[]).await;
    assert!(again.stdout.contains("no differences"), "{again:?}");
    assert_eq!(again.exit_code, 0);
    let request = redis::cmd("MGET")
        .arg(&[
            "unread:bob:c1",
            "unread:bob:total",
            "unread:bob:c2",
            "unread:nobody:c1",
        ])
        .take();
    let numbers: Vec<Option<u64>> = request.query_async(&mut store.clone()).await.unwrap();
    assert_eq!(numbers, [Some(2), Some(2), None, Some(3)]);
}

#[tokio::test]
async fn repair_needs_exclusive_access_to_an_embedded_store() {
    let folder = TempDir::new().unwrap();
    let store = embedded(folder.path()).await;
    let url = DatabaseUrl::parse("", folder.path()).unwrap();
    let chat = prepare_store(&store, url).await;
    damage_counters(&store).await;
    let data = folder.path().display().to_string();
    let call = ["repair", "unread", "--data", &data];
    let busy = run(&call).await;
    assert_eq!(busy.exit_code, 1, "{busy:?}");
    assert!(busy.stderr.contains("stop the server"), "{busy:?}");
    chat.database().close().await;
    store.close().await;
    drop((chat, store));
    let mended = run(&call).await;
    assert_eq!(mended.exit_code, 0, "{mended:?}");
    for text in [
        "counter of bob in c1: found 7, expected 2",
        "total of bob: found 8, expected 2",
        "stray key of bob in c2: found 3, expected 0",
        "all differences were corrected",
    ] {
        assert!(mended.stdout.contains(text), "{mended:?}");
    }
    let store = embedded(folder.path()).await;
    let get = redis::cmd("GET").arg("unread:bob:total").take();
    let total: u64 = get.query_async(&mut store.clone()).await.unwrap();
    assert_eq!(total, 2);
}

#[tokio::test]
async fn repair_rejects_a_store_of_another_database() {
    let redis = Redis::start().await;
    let folder = TempDir::new().unwrap();
    let options = parlor_store::StoreOptions::new(redis.url().parse().unwrap());
    let store = Store::open(options).await.unwrap();
    damage_counters(&store).await;
    let (url, data) = (redis.url(), folder.path().display().to_string());
    let call = ["repair", "unread", "--store", &url, "--data", &data];
    let missing = run(&call).await;
    assert_eq!(missing.exit_code, 1, "{missing:?}");
    assert!(
        missing.stderr.contains("there is no database"),
        "{missing:?}"
    );
    let path = DatabaseUrl::parse("", folder.path()).unwrap();
    drop(Database::open(DatabaseOptions::new(path)).await.unwrap());
    let none = run(&call).await;
    assert!(none.stderr.contains("run `parlor serve`"), "{none:?}");
    let claim = redis::cmd("SET").arg("parlor:database").arg("other").take();
    claim.exec_async(&mut store.clone()).await.unwrap();
    let other = run(&call).await;
    assert!(other.stderr.contains("another database"), "{other:?}");
    assert_eq!((none.exit_code, other.exit_code), (1, 1));
    let get = redis::cmd("GET").arg("unread:nobody:c1").take();
    let kept: Option<u64> = get.query_async(&mut store.clone()).await.unwrap();
    assert_eq!(kept, Some(3));
}

#[tokio::test]
async fn help_has_an_example() {
    let help = run(&["repair", "unread", "--help"]).await.ok();
    assert!(help.contains("parlor repair unread --dry-run"), "{help}");
}
