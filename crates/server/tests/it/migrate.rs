//! Tests of `parlor migrate-store`, from one machine to Redis and PostgreSQL and between other stores.

use std::path::Path;

use parlor_chat::database::{Database, DatabaseOptions, DatabaseUrl, PerBackend};
use parlor_store::{Store, StoreOptions};
use parlor_testkit::{
    Postgres, Redis, RedisCluster, ServerProcess, ServerProcessOptions, eventually,
};
use redis::AsyncCommands;
use serde_json::{Value, json};

use crate::http::client::{call, node};
use crate::support::{CommandOutput, PARLOR, embedded, get, insert_sample_keys, run_in};
use crate::tokens::{service, user};

/// Runs the command with this data folder.
async fn migrate(data: &Path, args: &[&str]) -> CommandOutput {
    let args = [&["migrate-store", "--data", data.to_str().unwrap()], args].concat();
    run_in(data.parent().unwrap(), &args, &[]).await
}

/// The arguments that copy both the store and the database.
fn migration_args<'a>(redis: &'a str, postgres: &'a str) -> [&'a str; 8] {
    let store = ["--from", "embedded:", "--to", redis];
    let database = ["--from-database", "sqlite:", "--to-database", postgres];
    [store, database].concat().try_into().unwrap()
}

/// Starts a node and waits until it is ready.
async fn ready(options: ServerProcessOptions) -> ServerProcess {
    let node = options.start().await;
    eventually("the node is ready", async || {
        get(&node.http_url(), "/readyz").await.map(|it| it.0 == 200)
    })
    .await;
    node
}

/// Fills a node: sessions, a conversation that Bob has partly read, a user who was online.
async fn fill_node(node: &ServerProcess) {
    for name in ["alice", "bob"] {
        let begin = call("POST", "/v1/sessions").by(&service());
        let begin = begin.header("Parlor-User", name);
        let begin = begin.json(json!({ "deviceId": format!("{name}-phone") }));
        begin.at(node).await.created();
    }
    let create = call("POST", "/v1/conversations").by(&user("alice"));
    let lunch = json!({ "id": "lunch", "kind": "group", "title": "Lunch", "members": ["bob"] });
    create.json(lunch).at(node).await.created();
    for number in 1..=5 {
        send_message(node, "alice", number).await;
    }
    let edit = call("PATCH", "/v1/conversations/lunch/messages/2").by(&user("alice"));
    edit.json(json!({ "content": "edited" }))
        .at(node)
        .await
        .ok();
    let read = call("POST", "/v1/conversations/lunch/read").by(&user("bob"));
    read.json(json!({ "seq": 2 })).at(node).await.ok();
    for status in ["online", "offline"] {
        let set = call("PUT", "/v1/users/alice/presence").by(&user("alice"));
        set.json(json!({ "status": status })).at(node).await.ok();
    }
}

async fn send_message(node: &ServerProcess, who: &str, number: u64) {
    let post = call("POST", "/v1/conversations/lunch/messages").by(&user(who));
    let post = post.json(json!({ "content": format!("number {number}") }));
    assert_eq!(post.at(node).await.created()["seq"], number);
}

/// Everything that users can read from the node.
async fn read_everything(node: &ServerProcess) -> Value {
    let ask = async |who: &str, path: &str| call("GET", path).by(&user(who)).at(node).await.ok();
    let session = ask("bob", "/v1/sessions/me").await;
    json!({
        "conversations": ask("bob", "/v1/conversations").await,
        "messages": ask("bob", "/v1/conversations/lunch/messages").await,
        "members": ask("bob", "/v1/conversations/lunch/members").await,
        "unread": ask("bob", "/v1/unread").await,
        "session": [&session["loginTime"], &session["deviceId"], &session["status"]],
        "presence": ask("bob", "/v1/users/alice/presence").await,
    })
}

async fn deadline(store: &mut impl redis::aio::ConnectionLike, key: &str) -> i64 {
    let request = redis::cmd("PEXPIRETIME").arg(key).take();
    request.query_async(store).await.unwrap()
}

#[tokio::test]
async fn migration_to_redis_and_postgresql_preserves_all_data() {
    let mut old = ready(node()).await;
    fill_node(&old).await;
    let before = read_everything(&old).await;
    assert_eq!(before["unread"]["total"], 3);
    assert!(before["presence"]["lastSeen"].is_string() || before["presence"]["lastSeen"].is_u64());
    let (redis, postgres) = (Redis::start().await, Postgres::start().await);
    let (data, url) = (old.data_folder(), postgres.create_database().await);
    let redis_url = redis.url();
    let args = migration_args(&redis_url, &url);

    let used = migrate(&data, &args).await;
    assert!(
        used.exit_code == 1 && used.stderr.contains("in use"),
        "{used:?}"
    );
    assert!(old.terminate_and_wait().await.success());
    let look = migrate(&data, &[&args[..], &["--dry-run", "--json"]].concat()).await;
    assert_eq!(look.exit_code, 0, "{look:?}");
    assert_eq!(look.json()["database"]["parts"]["messages"]["copied"], 5);
    let mut keys = redis.connection().await;
    let size: u64 = redis::cmd("DBSIZE").query_async(&mut keys).await.unwrap();
    let tables = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(
        (size, postgres.query_in(&url, tables).await.trim()),
        (0, "0")
    );

    let source = Store::open(StoreOptions {
        data_folder: Some(data.clone()),
        read_only: true,
        ..StoreOptions::default()
    });
    let session = deadline(&mut source.await.unwrap(), "user:bob").await;
    let moved = migrate(&data, &args).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert!(moved.stdout.contains("moved and verified"), "{moved:?}");
    assert_eq!(deadline(&mut keys, "user:bob").await, session);

    let stores = node().env("PARLOR_STORE__URL", &redis_url);
    let new = ready(stores.env("PARLOR_DATABASE__URL", &url)).await;
    assert_eq!(read_everything(&new).await, before);
    send_message(&new, "bob", 6).await;
    let again = migrate(&data, &args).await;
    assert!(
        again.exit_code == 1 && again.stderr.contains("in use by the node"),
        "{again:?}"
    );
}

/// Creates a source with many keys and rows.
async fn insert_many_keys(data: &Path) {
    let url = DatabaseUrl::Sqlite(data.join("parlor.db"));
    let database = Database::open(DatabaseOptions::new(url.clone()))
        .await
        .unwrap();
    database.close().await;
    let DatabaseUrl::Sqlite(path) = url else {
        unreachable!("a file")
    };
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    // The rows of a deleted conversation, which are not copied, have no conversation.
    let options = options.foreign_keys(false);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::raw_sql(
        "INSERT INTO conversations (id, kind, created_at, last_at, last_seq) VALUES ('c', 'group', 1, 1, 3000);
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
         INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, created_at, edited_at, rev)
         SELECT 'c', i, 'm' || i, 'alice', 'user', 'ümläut ' || i, i, CASE WHEN i % 2 = 0 THEN i END, i FROM n;
         INSERT INTO deleted_conversations (id, deleted_at) VALUES ('gone', 1);
         INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, created_at, rev)
         VALUES ('gone', 1, 'gone1', 'alice', 'user', '', 1, 1);
         INSERT INTO mentions (user_id, conversation_id, seq) VALUES ('bob', 'gone', 1)",
    )
    .execute(&pool)
    .await
    .unwrap();
    pool.close().await;
    let mut store = embedded(data).await;
    for number in 0..3_000 {
        let key = format!("lastseen:u{number}");
        store.set::<_, _, ()>(key, number).await.unwrap();
    }
    insert_large_value(&mut store).await;
    store.close().await;
}

/// Writes a value of each type that does not fit into one chunk.
async fn insert_large_value(store: &mut Store) {
    for start in (0..1_200).step_by(300) {
        let mut pipe = redis::pipe();
        for number in start..start + 300 {
            pipe.hset("parlor:unread:alice", format!("c{number}"), number);
            pipe.sadd("parlor:node:n1:users", format!("u{number}"));
            pipe.rpush("messages:big:recent", number);
            pipe.zadd(
                "uploads:pending",
                format!("f{number}"),
                f64::from(number) * 0.1,
            );
        }
        pipe.query_async::<()>(store).await.unwrap();
    }
    let text = "0123456789".repeat(150_000);
    store.set::<_, _, ()>("lastseen:long", text).await.unwrap();
    store
        .expire::<_, ()>("messages:big:recent", 3_600)
        .await
        .unwrap();
}

/// Starts a migration with a rate limit, and kills it when this function counts at least 100 copied keys or rows.
async fn kill_migration(data: &Path, args: &[&str], there: impl AsyncFn() -> u64) -> u64 {
    let mut command = ServerProcess::options(PARLOR).arg("migrate-store");
    for arg in [&["--rate", "100", "--data", data.to_str().unwrap()], args].concat() {
        command = command.arg(arg);
    }
    let mut process = command.spawn();
    let copied = eventually("some keys or rows are copied", async || {
        Some(there().await).filter(|copied| *copied >= 100)
    })
    .await;
    process.kill9();
    copied
}

/// The counts of one capability or table in a report.
fn numbers(part: &Value) -> [u64; 4] {
    ["found", "copied", "already", "verified"].map(|name| part[name].as_u64().unwrap())
}

#[tokio::test]
async fn an_interrupted_migration_resumes_and_blocks_the_server_until_complete() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    insert_many_keys(&data).await;
    let (redis, postgres) = (Redis::start().await, Postgres::start().await);
    let (redis_url, url) = (redis.url(), postgres.create_database().await);
    let args = migration_args(&redis_url, &url);
    let refused = async || {
        let stores = node().env("PARLOR_STORE__URL", &redis_url);
        let mut node = stores.env("PARLOR_DATABASE__URL", &url).spawn();
        node.wait_for_line("an incomplete copy").await;
        assert!(!node.wait_for_exit().await.success());
    };

    let rows = kill_migration(&data, &args, async || {
        // The table does not exist until the migration creates it.
        let exists = "SELECT COUNT(*) FROM pg_tables WHERE tablename = 'messages'";
        match postgres.query_in(&url, exists).await.trim() {
            "0" => 0,
            _ => {
                let count = "SELECT COUNT(*) FROM messages";
                let rows = postgres.query_in(&url, count).await;
                rows.trim().parse().unwrap()
            }
        }
    })
    .await;
    refused().await;

    let only = &args[4..];
    let rest = migrate(&data, &[only, &["--json"]].concat()).await;
    assert_eq!(rest.exit_code, 0, "{rest:?}");
    let report = rest.json();
    let [found, copied, already, verified] = numbers(&report["database"]["parts"]["messages"]);
    assert_eq!((found, verified), (3_000, 3_000), "{report}");
    assert!((rows..3_000).contains(&already), "{rows}, {report}");
    assert_eq!(copied + already, 3_000, "{report}");

    let mut keys = redis.connection().await;
    let keys_there = kill_migration(&data, &args, async || {
        let mut keys = keys.clone();
        redis::cmd("DBSIZE").query_async(&mut keys).await.unwrap()
    })
    .await;
    refused().await;
    let rest = migrate(&data, &[&args[..], &["--json"]].concat()).await;
    assert_eq!(rest.exit_code, 0, "{rest:?}");
    let report = rest.json();
    assert_eq!(report["database"]["completeBefore"], true);
    let [found, copied, already, verified] = numbers(&report["store"]["parts"]["presence"]);
    assert_eq!((found, verified), (3_002, 3_002), "{report}");
    // A few of the copied keys belong to other capabilities.
    assert!(
        (keys_there - 10..3_002).contains(&already),
        "{keys_there}, {report}"
    );
    assert_eq!(copied + already, 3_002, "{report}");

    let list: Vec<u32> = keys.lrange("messages:big:recent", 0, -1).await.unwrap();
    assert_eq!(list, (0..1_200).collect::<Vec<_>>());
    let score: f64 = keys.zscore("uploads:pending", "f3").await.unwrap();
    assert_eq!(score, 3.0 * 0.1);
    let ttl: i64 = keys.ttl("messages:big:recent").await.unwrap();
    assert!((1..=3_600).contains(&ttl), "{ttl}");
}

#[tokio::test]
async fn migrate_verify_names_differing_keys_and_rows() {
    let mut old = ready(node()).await;
    fill_node(&old).await;
    old.terminate_and_wait().await;
    let (redis, postgres) = (Redis::start().await, Postgres::start().await);
    let (redis_url, url) = (redis.url(), postgres.create_database().await);
    let data = old.data_folder();
    let args = migration_args(&redis_url, &url);
    migrate(&data, &args).await.ok();
    let verify = [&args[..], &["--verify"]].concat();
    migrate(&data, &verify).await.ok();

    // Migrating back works the same way.
    let file = format!("sqlite:{}", old.folder().join("back.db").display());
    let back = ["--from-database", &url, "--to-database", &file];
    migrate(&data, &back).await.ok();
    let compare = ["--from-database", &file, "--to-database", &url, "--verify"];
    migrate(&data, &compare).await.ok();

    let mut keys = redis.connection().await;
    keys.hset::<_, _, _, ()>("user:bob", "device_id", "another")
        .await
        .unwrap();
    keys.persist::<_, ()>("user:alice").await.unwrap();
    keys.del::<_, ()>("lastseen:alice").await.unwrap();
    keys.set::<_, _, ()>("lastseen:nobody", "x").await.unwrap();
    let changes =
        "UPDATE messages SET content = 'x' WHERE seq = 3; DELETE FROM messages WHERE seq = 5";
    postgres.query_in(&url, changes).await;
    let different = migrate(&data, &verify).await;
    assert_eq!(different.exit_code, 1, "{different:?}");
    for line in [
        "difference: messages lunch 3 is different",
        "difference: messages lunch 5 is missing",
        "difference: user:bob has another value",
        "difference: user:alice has another expiry time",
        "difference: lastseen:alice is missing",
        "difference: lastseen:nobody is not in the source",
        "6 keys or rows differ",
    ] {
        assert!(different.stdout.contains(line), "{line}\n{different:?}");
    }
}

#[tokio::test]
async fn migration_to_a_cluster_adds_hash_tags_and_skips_foreign_keys() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut store = embedded(&data).await;
    insert_sample_keys(&mut store).await;
    insert_large_value(&mut store).await;
    store.close().await;
    let (cluster, redis) = (RedisCluster::start().await, Redis::start().await);
    let (cluster_url, redis_url) = (cluster.url(), redis.url());

    let moved = migrate(&data, &["--from", "embedded:", "--to", &cluster_url]).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert!(
        moved.stdout.contains("--all copies them): 1\n"),
        "{moved:?}"
    );
    let url = cluster_url.parse().unwrap();
    let mut keys = Store::open(StoreOptions::new(url)).await.unwrap();
    let unread: u64 = keys.get("unread:{alice}:c1").await.unwrap();
    let typing: Option<String> = keys.get("typing:{c1}:alice").await.unwrap();
    let foreign: Option<String> = keys.get("somebody:else").await.unwrap();
    assert_eq!((unread, typing, foreign), (2, None, None));

    let args = ["--from", &cluster_url, "--to", &redis_url, "--json"];
    assert_eq!(migrate(&data, &args).await.exit_code, 0);
    let args = ["--from", "embedded:", "--to", &redis_url, "--verify"];
    let compared = migrate(&data, &args).await;
    assert_eq!(compared.exit_code, 0, "{compared:?}");
    let prefixed = [
        "--from",
        "embedded:",
        "--to",
        &redis_url,
        "--to-prefix",
        "new:",
        "--all",
    ];
    let moved = migrate(&data, &prefixed).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    let mut keys = redis.connection().await;
    let held: (u64, String) = keys
        .mget(&["new:unread:alice:c1", "somebody:else"])
        .await
        .unwrap();
    assert_eq!(held, (2, "x".into()));
}

#[tokio::test]
async fn unsafe_migrations_are_rejected() {
    let (redis, postgres) = (Redis::start().await, Postgres::start().await);
    let url = postgres.create_database().await;
    let redis_url = redis.url();
    let source = ready(node().env("PARLOR_STORE__URL", &redis_url)).await;
    let data = source.data_folder();
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("data");
    let mut store = embedded(&other).await;
    insert_sample_keys(&mut store).await;
    let own = store.set::<_, _, ()>("parlor:database", "one").await;
    own.unwrap();
    store.close().await;

    let refused = async |data: &Path, args: &[&str], why: &str| {
        let ran = migrate(data, args).await;
        assert!(
            ran.exit_code == 1 && ran.stderr.contains(why),
            "{why}\n{ran:?}"
        );
    };
    let to_other = format!("{redis_url}/1");
    let used = ["--from", &redis_url, "--to", &to_other];
    refused(&data, &used, "in use by the node").await;
    let used = ["--from-database", "sqlite:", "--to-database", &url];
    refused(&data, &used, "is in use").await;
    let there = ["--from", "embedded:", "--to", &redis_url];
    refused(&other, &there, "in use by the node").await;
    let forced = ["--from", "embedded:", "--to", &redis_url, "--force"];
    refused(&other, &forced, "belongs to another database").await;
    let same = redis_url.replace("127.0.0.1", "localhost");
    refused(
        &data,
        &["--from", &redis_url, "--to", &same],
        "the same store",
    )
    .await;
    let none = ["--from-database", "sqlite:", "--to-database", &url];
    refused(&other, &none, "there is no database of Parlor").await;
    let verify = ["--from", "embedded:", "--to", &to_other, "--verify"];
    refused(&other, &verify, "there is no copy").await;

    let another = DatabaseUrl::parse(&url, &data).unwrap();
    let another = Database::open(DatabaseOptions::new(another)).await.unwrap();
    assert!(matches!(another.reader(), PerBackend::Postgres(_)));
    another.close().await;
    let taken = [
        "--from-database",
        "sqlite:",
        "--to-database",
        &url,
        "--force",
    ];
    refused(&data, &taken, "belongs to another installation").await;

    let usage = migrate(&data, &["--from", "embedded:"]).await;
    assert!(
        usage.exit_code == 2 && usage.stderr.contains("--to"),
        "{usage:?}"
    );
}
