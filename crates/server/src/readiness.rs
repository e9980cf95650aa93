//! The readiness checks behind `/readyz` and gRPC health.
//!
//! Invariants:
//! 1. Each check pings store and database with a timeout and caches nothing, so its result is never stale and it never
//!    hangs.

use std::time::Duration;

use parlor_chat::database::Database;
use parlor_store::Store;
use tokio::time::timeout;

use crate::config::Config;
use crate::lifecycle::StartupState;

/// Maximum timeout of the database ping. A readiness probe expects an answer earlier than the statement timeout.
const MAX_DATABASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeouts of the pings.
#[derive(Debug, Clone, Copy)]
pub struct ReadinessTimeouts {
    store: Duration,
    database: Duration,
}

impl ReadinessTimeouts {
    /// Timeouts from the settings.
    pub fn new(config: &Config) -> Self {
        Self {
            store: config.store.request_timeout,
            database: config.database.timeout.min(MAX_DATABASE_TIMEOUT),
        }
    }
}

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
    /// True if all parts are ready.
    pub const fn is_ready(&self) -> bool {
        self.store.is_ok() && self.database.is_ok() && self.node.is_ok()
    }
}

/// Runs all checks concurrently.
pub(crate) async fn check_readiness(
    startup: &StartupState,
    timeouts: ReadinessTimeouts,
) -> Readiness {
    let store = startup.store.borrow().clone();
    let database = startup.database.borrow().clone();
    let (store, database) =
        tokio::join!(async { ping_store(store?, timeouts.store).await }, async {
            ping_database(&database?, timeouts.database).await
        },);
    Readiness {
        store,
        database,
        node: startup.chat.borrow().clone().map(drop),
    }
}

async fn ping_store(mut store: Store, limit: Duration) -> Result<(), String> {
    let ping = redis::cmd("PING");
    let pong = ping.query_async::<String>(&mut store);
    check_within(limit, "store", pong).await.map(drop)
}

async fn ping_database(database: &Database, limit: Duration) -> Result<(), String> {
    check_within(limit, "database", database.ping()).await
}

async fn check_within<T>(
    limit: Duration,
    part: &str,
    ping: impl Future<Output = Result<T, impl ToString>>,
) -> Result<T, String> {
    match timeout(limit, ping).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "the {part} did not answer within {} ms",
            limit.as_millis()
        )),
    }
}
