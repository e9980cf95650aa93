//! Tests of `parlor keys` with Redis and the embedded store.

use parlor_store::{Store, StoreOptions};
use parlor_testkit::{Redis, RedisCluster, ServerProcess, eventually};
use tempfile::TempDir;

use crate::support::{CommandOutput, PARLOR, embedded, insert_sample_keys, run_in};

/// A store with sample keys, and its URL for the command line.
struct SampleStore {
    folder: TempDir,
    store: String,
    _redis: Option<Redis>,
}

impl SampleStore {
    async fn both() -> [SampleStore; 2] {
        let redis = Redis::start().await;
        insert_sample_keys(&mut redis.connection().await).await;
        let on_redis = SampleStore {
            folder: tempfile::tempdir().unwrap(),
            store: redis.url(),
            _redis: Some(redis),
        };

        let folder = tempfile::tempdir().unwrap();
        let mut store = embedded(&folder.path().join("data")).await;
        insert_sample_keys(&mut store).await;
        store.close().await;
        let on_embedded = SampleStore {
            folder,
            store: "embedded:".into(),
            _redis: None,
        };
        [on_redis, on_embedded]
    }

    async fn run(&self, args: &[&str]) -> CommandOutput {
        let args = [&["keys"], args, &["--store", &self.store]].concat();
        run_in(self.folder.path(), &args, &[]).await
    }
}

#[tokio::test]
async fn list_shows_type_ttl_length_and_meaning() {
    for store in SampleStore::both().await {
        let out = store.run(&["list"]).await.ok();
        for (key, kind, length) in [
            ("presence:user:alice", "hash", "1"),
            ("typing:c1:alice", "string", "18"),
            ("conversation:c1:participants", "set", "1"),
            ("messages:c1:recent", "list", "2"),
            ("chat:conversations:active", "zset", "1"),
        ] {
            let line = out
                .lines()
                .find(|line| line.starts_with(key))
                .unwrap_or_else(|| panic!("{key}\n{out}"));
            let words: Vec<&str> = line.split_whitespace().collect();
            assert!(words.contains(&kind) && words.contains(&length), "{line}");
        }
        let foreign = out
            .lines()
            .find(|line| line.starts_with("somebody:else"))
            .unwrap();
        assert!(
            foreign.contains("unknown key") && foreign.contains("none"),
            "{foreign}"
        );
    }
}

#[tokio::test]
async fn list_takes_a_pattern_and_a_limit() {
    for store in SampleStore::both().await {
        let json = store.run(&["list", "unread:*", "--json"]).await.json();
        let keys: Vec<&str> = json["keys"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|key| key["key"].as_str())
            .collect();
        assert_eq!(keys, ["unread:alice:c1", "unread:bob:c1"]);
        assert_eq!(json["complete"], true);

        let ran = store.run(&["list", "--limit", "2", "--json"]).await;
        assert_eq!(ran.json()["keys"].as_array().unwrap().len(), 2);
        assert_eq!(ran.json()["complete"], false);
        assert!(ran.stderr.contains("--limit 0 shows all"), "{ran:?}");
    }
}

#[tokio::test]
async fn count_groups_by_declaration() {
    for store in SampleStore::both().await {
        let json = store.run(&["count", "--json"]).await.json();
        let groups = json["groups"].as_array().unwrap();
        let unread = groups
            .iter()
            .find(|group| group["pattern"] == "unread:{user}:{conv}")
            .unwrap();
        assert_eq!(unread["count"], 2);
        assert_eq!(json["notDeclared"], 1);
        assert!(store.run(&["count"]).await.ok().contains("unknown key"));
    }
}

#[tokio::test]
async fn show_prints_the_value_by_its_type() {
    for store in SampleStore::both().await {
        for (key, value) in [
            (
                "presence:user:alice",
                serde_json::json!({ "d1": "{\"serverId\":\"n1\"}" }),
            ),
            ("unread:alice:c1", "2".into()),
            ("messages:c1:recent", serde_json::json!(["m2", "m1"])),
            ("conversation:c1:participants", serde_json::json!(["alice"])),
            (
                "chat:conversations:active",
                serde_json::json!([{ "member": "c1", "score": 17000.0 }]),
            ),
        ] {
            let json = store.run(&["show", key, "--json"]).await.json();
            assert_eq!((&json["key"], &json["value"]), (&key.into(), &value));
        }
        let out = store.run(&["show", "presence:user:alice"]).await.ok();
        assert!(
            out.contains("type    hash") && out.contains("FIELD"),
            "{out}"
        );
        let missing = store.run(&["show", "nobody"]).await;
        assert!(
            missing.exit_code == 1 && missing.stderr.contains("there is no key nobody"),
            "{missing:?}"
        );
    }
}

#[tokio::test]
async fn ttl_compares_with_what_is_declared() {
    for store in SampleStore::both().await {
        let out = store.run(&["ttl"]).await.ok();
        for (key, verdict) in [
            ("presence:user:alice", "as declared"),
            ("typing:c1:alice", "longer than declared"),
            ("unread:alice:c1", "as declared"),
            ("somebody:else", "unknown key"),
        ] {
            assert!(
                out.lines()
                    .any(|line| line.starts_with(key) && line.ends_with(verdict)),
                "{key} {verdict}\n{out}"
            );
        }
    }
}

#[tokio::test]
async fn keys_and_values_of_any_bytes_are_listed_in_one_line_and_printed() {
    let redis = Redis::start().await;
    let key = b"new\nline\\\xff";
    let mut pipe = redis::pipe();
    pipe.set(key, b"\x1b[31m\xfe").ignore();
    pipe.set("unread:bob:total", 3).ignore();
    pipe.expire("unread:bob:total", 50).ignore();
    pipe.zadd("z", "end", f64::INFINITY).ignore();
    pipe.query_async::<()>(&mut redis.connection().await)
        .await
        .unwrap();
    let store = SampleStore {
        folder: tempfile::tempdir().unwrap(),
        store: redis.url(),
        _redis: Some(redis),
    };

    let shown = r"new\nline\\\xff";
    let out = store.run(&["list", "new*"]).await.ok();
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(out.contains(shown), "{out}");
    let out = store.run(&["show", shown]).await.ok();
    assert!(out.ends_with("\\x1b[31m\\xfe\n"), "{out}");
    let json = store.run(&["show", shown, "--json"]).await.json();
    assert_eq!(json["value"], r"\x1b[31m\xfe");
    let json = store.run(&["show", "z", "--json"]).await.json();
    assert_eq!(json["value"][0]["score"], "inf");

    let out = store.run(&["ttl", "unread:*"]).await.ok();
    assert!(out.trim_end().ends_with("should have no TTL"), "{out}");
    let none = store.run(&["list", "nothing*"]).await;
    assert!(
        none.exit_code == 0 && none.stderr.contains("no key matches nothing*"),
        "{none:?}"
    );
}

#[tokio::test]
async fn the_embedded_store_is_readable_while_a_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut store = embedded(&data).await;
    insert_sample_keys(&mut store).await;
    store.close().await;
    drop(store);
    let node = ServerProcess::parlor_serve(PARLOR)
        .env("PARLOR_SERVER__DATA", &data)
        .start()
        .await;
    let ran = eventually("the keys are listed", async || {
        let ran = run_in(
            node.folder(),
            &["keys", "list", "--data", data.to_str().unwrap()],
            &[],
        )
        .await;
        if ran.exit_code == 0 {
            Ok(Some(ran))
        } else {
            Err(ran)
        }
    })
    .await;
    assert!(ran.stdout.contains("presence:user:alice"), "{ran:?}");
    assert!(ran.stderr.contains("as of its last flush"), "{ran:?}");
}

#[tokio::test]
async fn a_folder_without_a_store_is_reported_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run_in(folder.path(), &["keys", "list"], &[]).await;
    assert!(
        ran.exit_code == 1 && ran.stderr.contains("there is no store in ./data"),
        "{ran:?}"
    );
    assert!(!folder.path().join("data").exists());
}

#[tokio::test]
async fn keys_of_a_cluster_are_found_on_all_primaries() {
    let cluster = RedisCluster::start().await;
    let url = cluster.url();
    let mut store = Store::open(StoreOptions {
        url: url.parse().unwrap(),
        ..StoreOptions::default()
    })
    .await
    .unwrap();
    for number in 0..30 {
        let set = redis::cmd("SET")
            .arg(format!("lastseen:{{u{number}}}"))
            .arg("now")
            .take();
        set.query_async::<()>(&mut store).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let args = ["keys", "list", "lastseen:*", "--json", "--store", &url];
    let json = run_in(folder.path(), &args, &[]).await.json();
    let keys = json["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 30, "{json}");
    assert!(
        keys.iter().all(|key| key["pattern"] == "lastseen:{user}"),
        "{json}"
    );
}

#[tokio::test]
async fn a_read_only_redis_user_can_inspect_keys() {
    let rules = "~* +@read +@connection +info +time +role";
    let redis = Redis::options()
        .acl_user("viewer", "secret", rules)
        .start()
        .await;
    let mut connection = redis.connection().await;
    insert_sample_keys(&mut connection).await;
    let before: u64 = redis::cmd("DBSIZE")
        .query_async(&mut connection)
        .await
        .unwrap();
    let store = redis.url_as("viewer", "secret");
    let folder = tempfile::tempdir().unwrap();
    let out = run_in(folder.path(), &["keys", "count", "--store", &store], &[])
        .await
        .ok();
    assert!(out.contains("presence:user:"), "{out}");
    let after: u64 = redis::cmd("DBSIZE")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(before, after);
}
