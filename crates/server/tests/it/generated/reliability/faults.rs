//! The faults: how each is injected and repaired.

use std::cell::Cell;

use futures_util::future::join_all;
use parlor_testkit::{DiskFault, DiskFaults, Postgres, Redis};

use super::FaultColumn;
use super::operations::{FaultyNode, OPERATIONS};

/// Requests that run at a time while PostgreSQL restarts.
const CONCURRENT_WRITERS: usize = 4;

struct ListedDiskFault {
    title: &'static str,
    fault: DiskFault,
    file: &'static str,
    /// Part and code in the body of `/readyz`.
    part: &'static str,
    code: &'static str,
}

const DISK_FAULTS: [ListedDiskFault; 5] = [
    ListedDiskFault {
        title: "SQLite: disk full",
        fault: DiskFault::Full,
        file: "parlor.db",
        part: "database",
        code: "database_full",
    },
    ListedDiskFault {
        title: "SQLite: syncs fail",
        fault: DiskFault::FailingSync,
        file: "parlor.db",
        part: "database",
        code: "database_unavailable",
    },
    ListedDiskFault {
        title: "SQLite: syncs hang",
        fault: DiskFault::HangingSync,
        file: "parlor.db",
        part: "database",
        code: "database_unavailable",
    },
    ListedDiskFault {
        title: "embedded store: disk full",
        fault: DiskFault::Full,
        file: "store.db",
        part: "store",
        code: "store_full",
    },
    ListedDiskFault {
        title: "embedded store: syncs hang",
        fault: DiskFault::HangingSync,
        file: "store.db",
        part: "store",
        code: "store_unavailable",
    },
];

/// Faults of the disk of a node with embedded store and SQLite.
pub(super) async fn disk_faults() -> Vec<FaultColumn> {
    let faults = DiskFaults::new();
    let node = FaultyNode::start(FaultyNode::options().disk_faults(&faults)).await;
    let mut columns = Vec::new();
    for listed in DISK_FAULTS {
        let injected = faults.inject(listed.fault, listed.file);
        node.wait_until_reported(listed.part, listed.code).await;
        columns.push(node.column(listed.title).await);
        if listed.fault == DiskFault::Full {
            node.assert_log_is_bounded(listed.title, OPERATIONS[0])
                .await;
            node.assert_log_is_bounded(listed.title, OPERATIONS[1])
                .await;
        }
        injected.repair();
        node.wait_until_everything_works().await;
    }
    columns
}

/// Faults of Redis and PostgreSQL.
pub(super) async fn server_faults() -> Vec<FaultColumn> {
    let (mut redis, mut postgres) = tokio::join!(Redis::start(), Postgres::start_durable());
    let options = FaultyNode::options()
        .env("PARLOR_STORE__URL", redis.url())
        .env("PARLOR_DATABASE__URL", postgres.create_database().await);
    let node = FaultyNode::start(options).await;
    let mut columns = Vec::new();

    set_max_memory(&redis, "1").await;
    node.wait_until_reported("store", "store_full").await;
    columns.push(node.column("Redis: full").await);
    node.assert_log_is_bounded("Redis: full", OPERATIONS[0])
        .await;
    set_max_memory(&redis, "0").await;
    node.wait_until_everything_works().await;

    redis.kill9();
    node.wait_until_reported("store", "store_unavailable").await;
    columns.push(node.column("Redis: down").await);
    node.assert_log_is_bounded("Redis: down", OPERATIONS[0])
        .await;
    redis.restart().await;
    node.wait_until_everything_works().await;

    postgres.kill9();
    node.wait_until_reported("database", "database_unavailable")
        .await;
    columns.push(node.column("PostgreSQL: down").await);
    postgres.restart().await;
    node.wait_until_everything_works().await;

    restart_under_load(&mut postgres, &node).await;
    node.wait_until_everything_works().await;
    columns.push(node.column("PostgreSQL: restarted").await);
    columns
}

async fn set_max_memory(redis: &Redis, bytes: &str) {
    let mut config = redis::cmd("CONFIG");
    config.arg("SET").arg("maxmemory").arg(bytes);
    let set = config.exec_async(&mut redis.connection().await).await;
    set.unwrap();
}

/// Cuts all connections of the node, then restarts the server, while transactions run.
async fn restart_under_load(postgres: &mut Postgres, node: &FaultyNode) {
    let is_over = Cell::new(false);
    let writers = (0..CONCURRENT_WRITERS).map(|writer| {
        let is_over = &is_over;
        async move {
            while !is_over.get() {
                let response = node.run(OPERATIONS[writer % 2]).await;
                if response.status >= 300 {
                    response.refused(503, "database_unavailable");
                }
            }
        }
    });
    let restart = async {
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'parlor'";
        for _ in 0..3 {
            assert_ne!(postgres.query(cut).await, "0");
        }
        postgres.restart().await;
        is_over.set(true);
    };
    tokio::join!(join_all(writers), restart);
}
