//! The readiness checks behind `/readyz` and gRPC health.
//!
//! Invariants:
//! 1. Each check asks store and database with a timeout and caches nothing, so its result is never stale and it never
//!    hangs.
//! 2. A part that answers but accepts no writes is not ready. A node whose database still answers reads serves them, so
//!    it is degraded.

use std::time::Duration;

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::database::{Database, DatabaseErrorKind};
use parlor_store::{Store, StoreErrorClass, classify_error};
use tokio::time::timeout;

use crate::lifecycle::StartupState;

/// Maximum timeout of the database ping. A readiness probe expects an answer earlier than the statement timeout.
const MAX_DATABASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a part is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReady {
    /// Code of the requests that fail for this reason; `None` if the part has not started yet.
    pub code: Option<ErrorCode>,
    /// Description for people.
    pub reason: String,
}

/// Readiness of each part, with the reason why it is not ready.
#[derive(Debug, Clone)]
pub struct Readiness {
    /// The store answers and accepts writes.
    pub store: Result<(), NotReady>,
    /// The database answers and accepts writes.
    pub database: Result<(), NotReady>,
    /// This node has joined the cluster and is not shutting down.
    pub node: Result<(), NotReady>,
    /// The database answers reads.
    pub database_answers: bool,
}

impl Readiness {
    /// True if this node serves requests: without the store, some requests fail with `store_unavailable`, but messages
    /// are accepted and delivered to the sockets of this node; while the database accepts no writes, reads are served. A
    /// node starts only with both.
    pub const fn is_serving(&self) -> bool {
        self.database_answers && self.node.is_ok()
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
    let database_timeout = database_timeout.min(MAX_DATABASE_TIMEOUT);
    let check_database = async {
        let database = match database {
            Ok(database) => database,
            Err(reason) => return (false, Err(NotReady::not_started(reason))),
        };
        match ping_database(&database, database_timeout).await {
            Ok(()) => {
                let writes = check_database_writes(&database, database_timeout);
                (true, writes.await)
            }
            Err(reason) => (false, Err(reason)),
        }
    };
    let check_store =
        async { check_store(store.map_err(NotReady::not_started)?, store_timeout).await };
    let (store, (database_answers, database)) = tokio::join!(check_store, check_database);
    Readiness {
        store,
        database,
        node: startup
            .chat
            .borrow()
            .clone()
            .map(drop)
            .map_err(NotReady::not_started),
        database_answers,
    }
}

impl NotReady {
    pub(crate) fn not_started(reason: String) -> Self {
        Self { code: None, reason }
    }

    fn new(code: ErrorCode, reason: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            reason: reason.into(),
        }
    }
}

async fn check_store(store: Store, limit: Duration) -> Result<(), NotReady> {
    match timeout(limit, store.check_writable()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            let code = match classify_error(&error) {
                StoreErrorClass::Full => ErrorCode::StoreFull,
                StoreErrorClass::Unavailable | StoreErrorClass::Rejected => {
                    ErrorCode::StoreUnavailable
                }
            };
            Err(NotReady::new(code, error.to_string()))
        }
        Err(_) => Err(NotReady::new(
            ErrorCode::StoreUnavailable,
            late("store", limit),
        )),
    }
}

async fn ping_database(database: &Database, limit: Duration) -> Result<(), NotReady> {
    let reason = match timeout(limit, database.ping()).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => late("database", limit),
    };
    Err(NotReady::new(ErrorCode::DatabaseUnavailable, reason))
}

async fn check_database_writes(database: &Database, limit: Duration) -> Result<(), NotReady> {
    match timeout(limit, database.check_writable()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(DatabaseErrorKind::Full)) => Err(NotReady::new(
            ErrorCode::DatabaseFull,
            "the disk of the database is full",
        )),
        Ok(Err(_)) => Err(NotReady::new(
            ErrorCode::DatabaseUnavailable,
            "the database accepts no writes",
        )),
        Err(_) => Err(NotReady::new(
            ErrorCode::DatabaseUnavailable,
            format!(
                "the database confirmed no write within {} ms",
                limit.as_millis()
            ),
        )),
    }
}

fn late(part: &str, limit: Duration) -> String {
    format!("the {part} did not answer within {} ms", limit.as_millis())
}
