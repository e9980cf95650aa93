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
use crate::lifecycle::{Opening, StartupState};

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
            store: config.store.options.timeout,
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
pub(crate) async fn ask(progress: &StartupState, timeouts: ReadinessTimeouts) -> Readiness {
    let store = progress.store.borrow().clone();
    let database = progress.database.borrow().clone();
    let (store, database) = tokio::join!(
        async {
            match store {
                Opening::Open(store) => ping_store(store, timeouts.store).await,
                Opening::Waiting(reason) => Err(reason),
            }
        },
        async {
            match database {
                Opening::Open(database) => ping_database(&database, timeouts.database).await,
                Opening::Waiting(reason) => Err(reason),
            }
        },
    );
    Readiness {
        store,
        database,
        node: progress.chat.borrow().clone().map(drop),
    }
}

async fn ping_store(mut store: Store, patience: Duration) -> Result<(), String> {
    let ping = redis::cmd("PING");
    match timeout(patience, ping.query_async::<String>(&mut store)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(timeout_message("store", patience)),
    }
}

async fn ping_database(database: &Database, patience: Duration) -> Result<(), String> {
    match timeout(patience, database.ping()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(timeout_message("database", patience)),
    }
}

fn timeout_message(part: &str, patience: Duration) -> String {
    let ms = patience.as_millis();
    format!("the {part} did not answer within {ms} ms")
}
