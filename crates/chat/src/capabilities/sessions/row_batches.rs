//! Reads and inserts session rows. On SQLite, concurrent calls share one statement. PostgreSQL runs them in parallel
//! and groups the commits itself.
//!
//! Invariant: a session that has begun is on disk. If a shared statement fails, every caller repeats its request alone,
//! so each one gets its own error. The same applies to the second of two sessions that one user begins concurrently.

use futures_util::future::BoxFuture;

use super::Sessions;
use super::model::UserSession;
use super::rows::{self, UserSessionRow};
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::Either;
use crate::ids::UserId;

/// Row of a session that begins.
pub(super) struct Opening {
    pub(super) session: UserSession,
    /// Time at which the token was issued.
    pub(super) issued: Timestamp,
}

impl Sessions {
    /// Loads the rows of a user.
    pub(super) fn row<'a>(&'a self, user: &'a UserId) -> BoxFuture<'a, Result<UserSessionRow>> {
        Box::pin(async move {
            if let Either::Sqlite(readers) = self.database.reader() {
                let find = async |users: &[UserId]| {
                    let found = rows::find_all(readers, users).await;
                    found.map_or(Vec::new(), |rows| rows.into_iter().map(Some).collect())
                };
                if let Some(row) = self.readings.ask(user.clone(), find).await {
                    return Ok(row);
                }
            }
            rows::find(&self.database, user).await
        })
    }

    /// Inserts the row of a new session. Returns false if the user is blocked, or if the token was issued before the
    /// last logout.
    pub(super) async fn open(&self, session: &UserSession, issued: Timestamp) -> Result<bool> {
        if let Either::Sqlite(_) = self.database.reader() {
            let opening = Opening {
                session: session.clone(),
                issued,
            };
            let open = async |all: &[Opening]| {
                let opened = rows::open_all(&self.database, all).await;
                opened.unwrap_or_default()
            };
            if let Some(opened) = self.openings.ask(opening, open).await {
                return Ok(opened);
            }
        }
        rows::open(&self.database, session, issued).await
    }
}
