//! Whether the parts of the server answer.
//!
//! Always true: each part is asked anew and has a bounded time to answer, so the answer is never stale and never hangs.

use std::time::Duration;

use parlor_chat::database::Database;
use parlor_store::Store;
use tokio::time::timeout;

use crate::config::Config;
use crate::lifecycle::{Opening, StartupState};

/// The longest that the database is waited for: whoever asks for readiness does not wait for long.
const MAX_DATABASE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the parts may take to answer.
#[derive(Debug, Clone, Copy)]
pub struct ReadinessTimeouts {
    store: Duration,
    database: Duration,
}

impl ReadinessTimeouts {
    /// As configured.
    pub fn new(config: &Config) -> Self {
        Self {
            store: config.store.options.timeout,
            database: config.database.timeout.min(MAX_DATABASE_TIMEOUT),
        }
    }
}

/// The parts, each with the reason why it is not ready.
#[derive(Debug, Clone)]
pub struct Readiness {
    /// The store answers.
    pub store: Result<(), String>,
    /// The database answers.
    pub database: Result<(), String>,
    /// This node has joined the others, and is to stay.
    pub node: Result<(), String>,
}

impl Readiness {
    /// Whether everything is ready.
    pub const fn is_ready(&self) -> bool {
        self.store.is_ok() && self.database.is_ok() && self.node.is_ok()
    }
}

/// Asks all parts at once.
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
