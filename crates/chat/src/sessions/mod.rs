//! Sessions: who is in, on which device, and who is kept out.
//!
//! Always true:
//! 1. Blocks, revocations and sessions are rows. The hash `user:{user}` shows them to other services and is what a request
//!    asks; in another epoch of the store it is checked against the rows first.
//! 2. A hash that is missing in the epoch it was checked in was deleted: the session is over. One that is missing in
//!    another epoch was lost, and is written again from the row.
//! 3. A block or a logout changes the row first, then the hash, then tells every node. A node asks again after a second at
//!    the latest, so one that hears nothing follows by itself.

pub mod keys;

mod check;
mod control;
mod enter;
mod hub;
mod native;
mod open;
mod openings;
mod operations;
mod owed;
mod rows;
mod session;
mod step;
mod tick;
mod together;
mod visit;

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;

use self::check::CachedSession;
use self::hub::SessionConnections;
use self::openings::Opening;
use self::rows::UserSessionRow;
use self::together::Together;
use crate::context::ChatContext;
use crate::database::Database;
use crate::ids::UserId;
use crate::options::SessionOptions;
use crate::owed::RetryQueue;

pub use self::hub::{ConnectionRegistration, Ended, Ending, SessionEndWaiter};
pub use self::operations::{
    BeginSession, BeginVisitorSession, EndSession, EndUserSession, GetSession, GetUserSession,
    SessionEnded, SessionInfo, SessionValidity, UpdateUserSession, ValidateSession, VisitorSession,
};
pub use self::session::{SessionEndReason, SessionStatus, UserSession};
pub use self::visit::VisitorTokenIssuer;

/// How long a node answers from what it last saw.
const CACHE_DURATION: Duration = Duration::from_secs(1);
/// How often one user's session is renewed by one node.
const RENEW_INTERVAL: Duration = Duration::from_secs(30);
/// How often the row learns that a session is in use.
const LAST_SEEN_INTERVAL: Duration = Duration::from_secs(3_600);
/// Users whose sessions a node remembers.
const MAX_CACHED_SESSIONS: usize = 100_000;

/// Sessions as one node sees them.
pub struct Sessions {
    ctx: ChatContext,
    database: Database,
    options: SessionOptions,
    known: Cache<UserId, CachedSession>,
    hub: Arc<SessionConnections>,
    owed: RetryQueue<UserId>,
    readings: Together<UserId, UserSessionRow>,
    openings: Together<Opening, bool>,
}

impl Sessions {
    /// The sessions of a node.
    pub fn new(ctx: ChatContext, database: Database, options: SessionOptions) -> Self {
        Self {
            ctx,
            database,
            options,
            known: Cache::new(MAX_CACHED_SESSIONS),
            hub: Arc::default(),
            owed: RetryQueue::default(),
            readings: Together::default(),
            openings: Together::default(),
        }
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions")
    }
}
