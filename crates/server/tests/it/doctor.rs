//! Tests of `parlor doctor` with well configured, badly configured and restricted stores.

use parlor_store::{Store, StoreOptions};
use parlor_testkit::{Postgres, Redis, RedisCluster, ServerProcess, eventually};

use crate::support::{CommandOutput, PARLOR, embedded, get, insert_sample_keys, run, run_in};

/// Severity and JSON text of the finding of a check.
fn found(ran: &CommandOutput, check: &str) -> (String, String) {
    let json = ran.json();
    let finding = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == check);
    let finding = finding.unwrap_or_else(|| panic!("{check}: {json}"));
    (
        finding["level"].as_str().unwrap().to_owned(),
        finding.to_string(),
    )
}

async fn on(redis: &Redis, more: &[&str]) -> CommandOutput {
    let url = redis.url();
    run(&[&["doctor", "--json", "--store", &url], more].concat()).await
}

#[tokio::test]
async fn doctor_reports_no_problem_for_a_well_configured_redis() {
    let redis = Redis::options()
        .config("appendonly yes")
        .config("maxmemory 64mb");
    let redis = redis
        .config("maxmemory-policy volatile-ttl")
        .password("secret")
        .start()
        .await;
    insert_sample_keys(&mut redis.connection().await).await;
    let ran = on(&redis, &[]).await;
    for check in [
        "reachable",
        "version",
        "persistence",
        "memory",
        "access",
        "clock",
        "keys",
    ] {
        assert_eq!(found(&ran, check).0, "ok", "{}", found(&ran, check).1);
    }
    assert_eq!(found(&ran, "events").0, "info");
    assert_eq!(ran.exit_code, 0, "{ran:?}");
    assert!(!ran.stdout.contains("secret"), "{ran:?}");
}

#[tokio::test]
async fn doctor_names_the_setting_to_change_and_the_reason() {
    let redis = Redis::options()
        .config("maxmemory 64mb")
        .config("maxmemory-policy allkeys-lru")
        .start()
        .await;
    let ran = on(&redis, &[]).await;
    let (level, memory) = found(&ran, "memory");
    assert!(
        level == "fail" && memory.contains("evicted") && memory.contains("volatile-ttl"),
        "{memory}"
    );
    let (level, persistence) = found(&ran, "persistence");
    assert!(
        level == "warn" && persistence.contains("appendonly yes"),
        "{persistence}"
    );
    assert_eq!(ran.exit_code, 1);

    let url = redis.url();
    let out = run(&["doctor", "--store", &url]).await.stdout;
    let mut size = redis.connection().await;
    let size: u64 = redis::cmd("DBSIZE").query_async(&mut size).await.unwrap();
    assert_eq!(size, 0, "doctor writes nothing");
    assert!(
        out.lines().any(|line| line.starts_with("fail  memory")),
        "{out}"
    );
    assert!(
        out.contains(&format!(
            "fix: `redis-cli -h 127.0.0.1 -p {} CONFIG SET maxmemory-policy volatile-ttl`",
            redis.port()
        )),
        "{out}"
    );
}

#[tokio::test]
async fn keys_of_a_foreign_type_are_found() {
    let redis = Redis::start().await;
    let mut connection = redis.connection().await;
    insert_sample_keys(&mut connection).await;
    redis::cmd("SET")
        .arg("presence:user:bob")
        .arg("online")
        .query_async::<()>(&mut connection)
        .await
        .unwrap();
    let (level, keys) = found(&on(&redis, &[]).await, "keys");
    assert!(
        level == "fail" && keys.contains("presence:user:bob is a string and should be a hash"),
        "{keys}"
    );
    // The preset determines the types of the keys.
    assert_eq!(
        found(&on(&redis, &["--preset", "user-status"]).await, "keys").0,
        "ok"
    );
}

#[tokio::test]
async fn a_foreign_key_is_found_among_many_of_ours() {
    let redis = Redis::start().await;
    let mut pipe = redis::pipe();
    for number in 0..20_000 {
        pipe.set(format!("lastseen:u{number}"), "now").ignore();
    }
    pipe.set("presence:user:bob", "online").ignore();
    pipe.query_async::<()>(&mut redis.connection().await)
        .await
        .unwrap();
    let (level, keys) = found(&on(&redis, &[]).await, "keys");
    assert!(
        level == "fail" && keys.contains("presence:user:bob"),
        "{keys}"
    );
    assert!(keys.contains("up to 1000 of each kind"), "{keys}");
}

#[tokio::test]
async fn doctor_names_the_missing_acl_rights() {
    let redis = Redis::options()
        .acl_user("reader", "pw", "~* &* +@read +@connection +info")
        .start()
        .await;
    let url = redis.url_as("reader", "pw");
    let ran = run(&[
        "doctor",
        "--json",
        "--store",
        &url,
        "--set",
        "keys.prefix=app:",
    ])
    .await;
    let (level, reachable) = found(&ran, "reachable");
    assert!(
        level == "fail" && reachable.contains("~app:* &app:*"),
        "{reachable}"
    );
}

#[tokio::test]
async fn doctor_uses_info_if_redis_rejects_config() {
    let redis = Redis::options()
        .config("rename-command CONFIG \"\"")
        .start()
        .await;
    let ran = on(&redis, &[]).await;
    assert_eq!(found(&ran, "memory").0, "ok");
    let (level, persistence) = found(&ran, "persistence");
    assert!(
        level == "info" && persistence.contains("CONFIG is not allowed"),
        "{persistence}"
    );
    assert!(found(&ran, "events").1.contains("CONFIG is not allowed"));
    assert_eq!(ran.exit_code, 0, "{ran:?}");
}

#[tokio::test]
async fn an_acl_user_and_tls_are_recognised() {
    let redis = Redis::options()
        .tls()
        .acl_user("parlor", "pw", "~* &* +@all -@admin -@dangerous +info")
        .start()
        .await;
    let url = redis.url_as("parlor", "pw");
    let ca = format!("store.ca_cert={}", redis.ca_cert().display());
    let ran = run(&["doctor", "--json", "--store", &url, "--set", &ca]).await;
    assert!(
        found(&ran, "access").1.contains("ACL user parlor"),
        "{ran:?}"
    );
    assert_eq!(found(&ran, "tls").0, "ok");
    assert_eq!(found(&ran, "version").0, "ok");
}

#[tokio::test]
async fn doctor_checks_the_slots_and_each_primary_of_a_cluster() {
    let cluster = RedisCluster::start().await;
    let url = cluster.url();
    let ran = run(&["doctor", "--json", "--store", &url]).await;
    let (level, slots) = found(&ran, "cluster");
    assert!(level == "ok" && slots.contains("3 primaries"), "{slots}");
    assert!(
        found(&ran, "version").1.contains("all 3 primaries: Redis"),
        "{ran:?}"
    );
    assert_eq!(
        (found(&ran, "keys").0.as_str(), ran.exit_code),
        ("ok", 0),
        "{ran:?}"
    );

    // A badly configured primary is found and named, whichever it is.
    let store = Store::open(StoreOptions {
        url: url.parse().unwrap(),
        ..StoreOptions::default()
    });
    let store = store.await.unwrap();
    let (last, _) = store
        .query_each_primary(&redis::cmd("PING"))
        .await
        .pop()
        .unwrap();
    let client = redis::Client::open(format!("redis://{last}")).unwrap();
    let mut connection = parlor_testkit::connect_with_test_timeout(&client)
        .await
        .unwrap();
    for (name, value) in [("maxmemory", "64mb"), ("maxmemory-policy", "allkeys-lru")] {
        let set = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).take();
        set.query_async::<()>(&mut connection).await.unwrap();
    }
    let ran = run(&["doctor", "--json", "--store", &url]).await;
    let finding = format!("{last}: maxmemory 64 MiB, maxmemory-policy allkeys-lru");
    assert!(
        ran.exit_code == 1 && ran.stdout.contains(&finding),
        "{finding}\n{ran:?}"
    );
}

#[tokio::test]
async fn an_unreachable_store_is_a_finding_and_not_a_crash() {
    let ran = run(&["doctor", "--json", "--store", "redis://127.0.0.1:1"]).await;
    let (level, reachable) = found(&ran, "reachable");
    assert!(
        level == "fail" && reachable.contains("127.0.0.1:1"),
        "{reachable}"
    );
    assert_eq!(
        (ran.exit_code, ran.json()["ok"].as_bool()),
        (1, Some(false))
    );
}

#[tokio::test]
async fn doctor_checks_folder_space_and_file_of_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run_in(folder.path(), &["doctor", "--json"], &[]).await;
    assert_eq!(
        (found(&ran, "folder").0.as_str(), ran.exit_code),
        ("info", 0)
    );

    std::fs::create_dir(folder.path().join("data")).unwrap();
    let ran = run_in(folder.path(), &["doctor", "--json"], &[]).await;
    assert_eq!(
        (found(&ran, "folder").0.as_str(), ran.exit_code),
        ("info", 0)
    );

    let mut store = embedded(&folder.path().join("data")).await;
    insert_sample_keys(&mut store).await;
    store.close().await;
    let ran = run_in(folder.path(), &["doctor", "--json"], &[]).await;
    for check in ["folder", "space", "file", "keys"] {
        assert_eq!(found(&ran, check).0, "ok", "{ran:?}");
    }
    assert_eq!(ran.exit_code, 0);
    let left: Vec<_> = std::fs::read_dir(folder.path().join("data"))
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    assert!(
        left.iter()
            .all(|name| !name.to_string_lossy().contains("doctor")),
        "{left:?}"
    );
}

#[tokio::test]
async fn doctor_checks_the_database_and_does_not_change_it() {
    let redis = Redis::start().await;
    let folder = tempfile::tempdir().unwrap();
    let url = redis.url();
    let doctor = ["doctor", "--json", "--store", &url];
    let ran = run_in(folder.path(), &doctor, &[]).await;
    let (level, database) = found(&ran, "database");
    assert!(
        level == "info" && database.contains("does not exist yet"),
        "{database}"
    );
    assert!(!folder.path().join("data/parlor.db").exists());

    let node = ServerProcess::parlor_serve(PARLOR).env("PARLOR_STORE__URL", &url);
    let node = node.start().await;
    joined(&node).await;
    let data = node.data_folder().display().to_string();
    let ran = run(&[&doctor[..], &["--data", &data]].concat()).await;
    for check in ["database", "migrations", "together"] {
        assert_eq!(found(&ran, check).0, "ok", "{ran:?}");
    }
    assert!(found(&ran, "database").1.contains("SQLite 3"), "{ran:?}");
}

#[tokio::test]
async fn a_database_of_a_newer_program_or_another_store_is_found() {
    let postgres = Postgres::start().await;
    let (redis, database) = (Redis::start().await, postgres.create_database().await);
    let node = ServerProcess::parlor_serve(PARLOR)
        .env("PARLOR_STORE__URL", redis.url())
        .env("PARLOR_DATABASE__URL", &database);
    let mut node = node.start().await;
    joined(&node).await;
    node.terminate_and_wait().await;
    let ran = on(&redis, &["--database", &database]).await;
    let (level, keeper) = found(&ran, "database");
    assert!(level == "ok" && keeper.contains("PostgreSQL "), "{keeper}");
    assert_eq!(found(&ran, "migrations").0, "ok", "{ran:?}");

    let other = postgres.create_database().await;
    let ran = on(&redis, &["--database", &other]).await;
    assert_eq!(found(&ran, "migrations").0, "info", "{ran:?}");

    let newer = "UPDATE _sqlx_migrations SET version = 1000000 WHERE version = 1; \
                 UPDATE parlor SET value = 'another' WHERE name = 'database'";
    postgres.query_in(&database, newer).await;
    let ran = on(&redis, &["--database", &database]).await;
    let (level, migrations) = found(&ran, "migrations");
    assert!(level == "fail" && migrations.contains("1000000"), "{ran:?}");
    assert_eq!(found(&ran, "together").0, "fail", "{ran:?}");

    let away = "postgres://somebody:hunter2@127.0.0.1:1/parlor";
    let ran = on(&redis, &["--database", away]).await;
    let (level, reachable) = found(&ran, "database");
    assert!(
        level == "fail" && reachable.contains("127.0.0.1:1"),
        "{reachable}"
    );
    assert!(
        ran.exit_code == 1 && !ran.stdout.contains("hunter2"),
        "{ran:?}"
    );
}

async fn joined(node: &ServerProcess) {
    eventually("the node has joined", async || {
        get(&node.http_url(), "/readyz")
            .await
            .is_ok_and(|it| it.0 == 200)
    })
    .await;
}
