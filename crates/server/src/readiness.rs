//! The readiness checks behind `/readyz` and gRPC health.
//!
//! Invariants:
//! 1. Each check pings store and database with a timeout and caches nothing, so its result is never stale and it never
//!    hangs.

use std::time::Duration;

use tokio::time::timeout;

use crate::lifecycle::StartupState;

/// Maximum timeout of the database ping. A readiness probe expects an answer earlier than the statement timeout.
const MAX_DATABASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Readiness of each part, with the reason why it is not ready.
#[derive(Debug, Clone)]
pub struct Readiness {
    /// The store answers.
    pub store: Result<(), String>,
    /// The database answers.
    pub database: Result<(), String>,
    /// This node has joined the cluster and is not shutting down.
    pub node: Result<(), String>,
}

impl Readiness {
    /// True if this node serves requests: without the store, some requests fail with `store_unavailable`, but messages
    /// are accepted and delivered to the sockets of this node. A node starts only with the store.
    pub const fn is_serving(&self) -> bool {
        self.database.is_ok() && self.node.is_ok()
    }

    /// True if all parts are ready.
    pub const fn is_ready(&self) -> bool {
        self.store.is_ok() && self.database.is_ok() && self.node.is_ok()
    }
}

/// Runs all checks concurrently. A check of the store may take `store_timeout`.
pub(crate) async fn check_readiness(
    startup: &StartupState,
    store_timeout: Duration,
    database_timeout: Duration,
) -> Readiness {
    let store = startup.store.borrow().clone();
    let database = startup.database.borrow().clone();
    let ping_store = async {
        let (mut store, ping) = (store?, redis::cmd("PING"));
        check_within(store_timeout, "store", ping.exec_async(&mut store)).await
    };
    let ping_database = async {
        let timeout = database_timeout.min(MAX_DATABASE_TIMEOUT);
        check_within(timeout, "database", database?.ping()).await
    };
    let (store, database) = tokio::join!(ping_store, ping_database);
    Readiness {
        store,
        database,
        node: startup.chat.borrow().clone().map(drop),
    }
}

async fn check_within(
    limit: Duration,
    part: &str,
    ping: impl Future<Output = Result<(), impl ToString>>,
) -> Result<(), String> {
    match timeout(limit, ping).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "the {part} did not answer within {} ms",
            limit.as_millis()
        )),
    }
}
