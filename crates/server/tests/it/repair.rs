//! `parlor repair unread` as operators run it.

use parlor_chat::chat::Chat;
use parlor_chat::context::Context;
use parlor_chat::database::{Database, DatabaseUrl, Either, Options};
use parlor_chat::ids::{NodeId, UserId};
use parlor_chat::keys::{Keyspace, Settings};
use parlor_chat::options;
use parlor_store::Store;
use parlor_testkit::{Postgres, Redis};
use tempfile::TempDir;

use crate::support::{Ran, embedded, run, run_in};

/// A store and a database that belong together, with one conversation in which a message waits for bob; and the keys.
async fn filled(store: &Store, url: DatabaseUrl) -> Chat {
    let database = Database::open(Options::new(url)).await.unwrap();
    let keys = Keyspace::new(Settings::default(), false).unwrap();
    let context = Context::new(store.clone(), keys);
    let node = NodeId::new("n1").unwrap();
    let chat = Chat::new(context, database, node, &options::Options::default());
    chat.start().await.unwrap();
    for statement in [
        "INSERT INTO conversations (id, kind, created_at, last_at, last_seq, members_version, member_count)
            VALUES ('c1', 'direct', 0, 0, 2, 1, 2)",
        "INSERT INTO members (conversation_id, user_id, role, joined_at, joined_seq, joined_version, delivered_seq, read_seq, badge_seq)
            VALUES ('c1', 'alice', 'member', 0, 0, 1, 2, 2, 2), ('c1', 'bob', 'member', 0, 0, 1, 0, 0, 0)",
    ] {
        let mut tx = chat.database().begin().await.unwrap();
        match tx.connection() {
            Either::Sqlite(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
            Either::Postgres(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
        }
        tx.commit().await.unwrap();
    }
    for user in ["alice", "bob"] {
        chat.unread()
            .counts(&UserId::new(user).unwrap())
            .await
            .unwrap();
    }
    chat
}

/// Two keys that are wrong, and one of nobody.
async fn damage(store: &Store) {
    let mut pipe = redis::pipe();
    pipe.set("unread:bob:c1", 7).set("unread:bob:total", 8);
    pipe.set("unread:nobody:c1", 3);
    pipe.exec_async(&mut store.clone()).await.unwrap();
}

fn found(ran: &Ran) -> [u64; 4] {
    let json = ran.json();
    ["users", "counters", "totals", "strays"].map(|name| json[name].as_u64().unwrap())
}

#[tokio::test]
async fn a_repair_mends_redis_beside_postgres_and_reports_it() {
    let (redis, postgres) = (Redis::start().await, Postgres::start().await);
    let address = postgres.create_database().await;
    let folder = TempDir::new().unwrap();
    let options = parlor_store::Options::new(redis.url().parse().unwrap());
    let store = Store::open(options).await.unwrap();
    let url = DatabaseUrl::parse(&address, folder.path()).unwrap();
    let _chat = filled(&store, url).await;
    damage(&store).await;
    let (url, database) = (redis.url(), format!("database.url={address}"));
    let call = [
        "repair", "unread", "--store", &url, "--set", &database, "--json",
    ];
    let dry = run_in(folder.path(), &[&call[..], &["--dry-run"]].concat(), &[]).await;
    assert_eq!(dry.code, 1, "{dry:?}");
    assert_eq!(found(&dry), [2, 1, 1, 1], "{dry:?}");
    assert_eq!(dry.json()["dryRun"], true);
    let mended = run_in(folder.path(), &call, &[]).await;
    assert_eq!(mended.code, 0, "{mended:?}");
    assert_eq!(found(&mended), [2, 1, 1, 1], "{mended:?}");
    assert_eq!(mended.err, "", "no bar where nobody looks");
    let again = run_in(folder.path(), &call[..6], &[]).await;
    assert!(again.out.contains("nothing differs"), "{again:?}");
    assert_eq!(again.code, 0);
    let asked = redis::cmd("MGET")
        .arg(&["unread:bob:c1", "unread:bob:total", "unread:nobody:c1"])
        .take();
    let numbers: Vec<Option<u64>> = asked.query_async(&mut store.clone()).await.unwrap();
    assert_eq!(numbers, [Some(2), Some(2), None]);
}

#[tokio::test]
async fn a_repair_mends_an_embedded_store_that_is_free() {
    let folder = TempDir::new().unwrap();
    let store = embedded(folder.path()).await;
    let url = DatabaseUrl::parse("", folder.path()).unwrap();
    let chat = filled(&store, url).await;
    damage(&store).await;
    let data = folder.path().display().to_string();
    let call = ["repair", "unread", "--data", &data];
    let busy = run(&call).await;
    assert_eq!(busy.code, 1, "{busy:?}");
    assert!(busy.err.contains("end the server"), "{busy:?}");
    chat.database().close().await;
    store.close().await;
    drop((chat, store));
    let mended = run(&call).await;
    assert_eq!(mended.code, 0, "{mended:?}");
    for text in [
        "counter of bob in c1: found 7, expected 2",
        "total of bob: found 8, expected 2",
        "stray key of nobody in c1: found 3, expected 0",
        "all set right",
    ] {
        assert!(mended.out.contains(text), "{mended:?}");
    }
    let store = embedded(folder.path()).await;
    let get = redis::cmd("GET").arg("unread:bob:total").take();
    let total: u64 = get.query_async(&mut store.clone()).await.unwrap();
    assert_eq!(total, 2);
}

#[tokio::test]
async fn a_store_of_another_database_or_of_none_is_left_alone() {
    let redis = Redis::start().await;
    let folder = TempDir::new().unwrap();
    let options = parlor_store::Options::new(redis.url().parse().unwrap());
    let store = Store::open(options).await.unwrap();
    damage(&store).await;
    let (url, data) = (redis.url(), folder.path().display().to_string());
    let call = ["repair", "unread", "--store", &url, "--data", &data];
    let missing = run(&call).await;
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.err.contains("there is no database"), "{missing:?}");
    let path = DatabaseUrl::parse("", folder.path()).unwrap();
    drop(Database::open(Options::new(path)).await.unwrap());
    let none = run(&call).await;
    assert!(none.err.contains("run `parlor serve`"), "{none:?}");
    let claim = redis::cmd("SET").arg("parlor:database").arg("other").take();
    claim.exec_async(&mut store.clone()).await.unwrap();
    let other = run(&call).await;
    assert!(other.err.contains("another database"), "{other:?}");
    assert_eq!((none.code, other.code), (1, 1));
    let get = redis::cmd("GET").arg("unread:nobody:c1").take();
    let kept: Option<u64> = get.query_async(&mut store.clone()).await.unwrap();
    assert_eq!(kept, Some(3));
}

#[tokio::test]
async fn help_has_an_example() {
    let help = run(&["repair", "unread", "--help"]).await.ok();
    assert!(help.contains("parlor repair unread --dry-run"), "{help}");
}
