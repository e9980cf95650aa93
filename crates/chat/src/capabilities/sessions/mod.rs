//! Sessions: the login state, blocks and revoked tokens of each user.
//!
//! ```text
//!               begin, or adopted from another service
//!   no session ───────────────────────────────────────▶ login / anonymous ──▶ renewed by each request
//!       ▲                                                    │      ▲ │
//!       └──────────── logout, DEL, 7 days idle ──────────────┘      │ └─ block, by Parlor or adopted ─▶ blocked
//!                                                                   └──────── unblock, lift ──────────────┘
//! ```
//!
//! Invariants:
//! 1. The rows decide about sessions, blocks and revocations. The hash `user:{user}` is shared with other services. It is
//!    used without the rows only if it is as it was when both were compared in this store epoch.
//! 2. A change of the hash by another service becomes a row before it counts as compared: see `reconcile.rs`. A field or
//!    key that is not part of a session is neither written, deleted nor expired.
//! 3. A hash that is missing in the epoch in which it was compared has been deleted: the session is over, but not a
//!    block. A hash that is missing in another epoch was lost, and is written again from the row.
//! 4. The row of a visitor is removed when its session has expired: a visitor never returns under the same id.
//! 5. A block or a logout changes the row first, then the hash, and then notifies all nodes. A node reads a session
//!    again after at most one second, so a node that misses the notification rejects the user as well. If the process
//!    ends in between, the outbox does the rest.

pub mod keys;

mod admit;
mod adopted_rows;
mod check;
mod connections;
mod end_events;
mod find;
mod lifecycle;
mod model;
mod operation_group;
mod operations;
mod reconcile;
mod row_batches;
mod row_changes;
mod rows;
mod scripts;
mod session_hash;
mod session_key;
mod visitors;

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::sync::Notify;

use self::check::CachedSession;
use self::connections::SessionConnections;
use self::row_batches::NewSession;
use self::rows::UserSessionRow;
use crate::background::{BackgroundTask, BackgroundTasks};
use crate::context::ChatContext;
use crate::database::Database;
use crate::ids::UserId;
use crate::options::SessionOptions;
use crate::outbox::OutboxWorker;
use crate::request_batcher::RequestBatcher;

pub use self::connections::{ConnectionRegistration, SessionEndHandler, SessionEndWaiter};
pub use self::model::{SessionEndReason, SessionStatus, UserSession};
pub use self::operation_group::OPERATIONS;
pub(crate) use self::operations::MAX_BLOCK_REASON_BYTES;
pub use self::operations::{
    BeginSession, BeginVisitorSession, EndSession, EndUserSession, GetSession, GetUserSession,
    SessionEnded, SessionInfo, SessionValidity, UpdateUserSession, ValidateSession, VisitorSession,
};
pub use self::visitors::VisitorTokenIssuer;

/// Time for which a node uses a cached check.
const CACHE_DURATION: Duration = Duration::from_secs(1);
/// Interval in which a node renews the session hash of a user.
const RENEW_INTERVAL: Duration = Duration::from_secs(30);
/// Interval in which `last_seen` of the row is updated.
const LAST_SEEN_INTERVAL: Duration = Duration::from_secs(3_600);
/// Maximum number of cached checks.
const MAX_CACHED_SESSIONS: usize = 100_000;
/// Interval of the re-check of connected users. It finds sessions that other services have ended, because these publish
/// nothing.
const RECHECK_INTERVAL: Duration = Duration::from_secs(20);
/// Interval of the removal of expired sessions of visitors.
const VISITOR_REMOVAL_INTERVAL: Duration = Duration::from_secs(600);

/// Sessions, as one node uses them.
pub struct Sessions {
    ctx: ChatContext,
    database: Database,
    options: SessionOptions,
    cache: Cache<UserId, CachedSession>,
    connections: Arc<SessionConnections>,
    /// Frames may have been lost, so the sessions of all connected users must be read.
    recheck_requested: Notify,
    row_reads: RequestBatcher<UserId, UserSessionRow>,
    row_inserts: RequestBatcher<NewSession, bool>,
}

impl Sessions {
    /// Creates the sessions of a node.
    pub fn new(ctx: ChatContext, database: Database, options: SessionOptions) -> Self {
        Self {
            ctx,
            database,
            options,
            cache: Cache::new(MAX_CACHED_SESSIONS),
            connections: Arc::default(),
            recheck_requested: Notify::new(),
            row_reads: RequestBatcher::default(),
            row_inserts: RequestBatcher::default(),
        }
    }

    /// Starts the background tasks.
    pub fn start_background_tasks(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![
            BackgroundTask::spawn(Arc::clone(self).listen_for_session_ends()),
            BackgroundTask::spawn(Arc::clone(self).recheck_on_request()),
            BackgroundTask::spawn_periodic(
                self,
                VISITOR_REMOVAL_INTERVAL,
                "remove the expired sessions of visitors",
                |it| async move { it.remove_expired_visitors().await.map(drop) },
            ),
            BackgroundTask::spawn_periodic(
                self,
                RECHECK_INTERVAL,
                "re-check the sessions of connected users",
                |it| async move { it.recheck_shared().await },
            ),
        ])
    }
}

/// Registers the kinds of outbox entries of this capability.
pub(crate) fn register_outbox_kinds(sessions: &Arc<Sessions>, outbox: &mut OutboxWorker) {
    outbox.register::<self::row_changes::ChangedSession>(sessions);
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions")
    }
}
