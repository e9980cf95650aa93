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

use self::check::Known;
use self::hub::Hub;
use self::openings::Opening;
use self::rows::UserRow;
use self::together::Together;
use crate::context::Context;
use crate::database::Database;
use crate::ids::UserId;
use crate::options::SessionOptions;
use crate::owed::Owed;

pub use self::hub::{Attached, Attachment, Ended, Ending};
pub use self::operations::{
    BeginSession, BeginVisit, ChangeSession, EndOtherSession, EndSession, GetOtherSession,
    GetSession, SessionEnded, SessionView, ValidateSession, Validity, Visit,
};
pub use self::session::{Reason, Session, Status};
pub use self::visit::Issuer;

/// How long a node answers from what it last saw.
const FRESH: Duration = Duration::from_secs(1);
/// How often one user's session is renewed by one node.
const RENEW: Duration = Duration::from_secs(30);
/// How often the row learns that a session is in use.
const NOTE: Duration = Duration::from_secs(3_600);
/// Users whose sessions a node remembers.
const MOST_KNOWN: usize = 100_000;

/// Sessions as one node sees them.
pub struct Sessions {
    ctx: Context,
    database: Database,
    options: SessionOptions,
    known: Cache<UserId, Known>,
    hub: Arc<Hub>,
    owed: Owed<UserId>,
    readings: Together<UserId, UserRow>,
    openings: Together<Opening, bool>,
}

impl Sessions {
    /// The sessions of a node.
    pub fn new(ctx: Context, database: Database, options: SessionOptions) -> Self {
        Self {
            ctx,
            database,
            options,
            known: Cache::new(MOST_KNOWN),
            hub: Arc::default(),
            owed: Owed::default(),
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
