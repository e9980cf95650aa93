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
use crate::database::PerBackend;
use crate::ids::UserId;

/// Row of a session that begins.
pub(super) struct NewSession {
    pub(super) session: UserSession,
    /// Time at which the token was issued.
    pub(super) issued: Timestamp,
}

impl Sessions {
    /// Loads the rows of a user.
    pub(super) fn load_row<'a>(
        &'a self,
        user: &'a UserId,
    ) -> BoxFuture<'a, Result<UserSessionRow>> {
        Box::pin(async move {
            if let PerBackend::Sqlite(readers) = self.database.reader() {
                let find = async |users: &[UserId]| {
                    let found = rows::find_users(readers, users).await;
                    found.map_or(Vec::new(), |rows| rows.into_iter().map(Some).collect())
                };
                if let Some(row) = self.row_reads.submit(user.clone(), find).await {
                    return Ok(row);
                }
            }
            rows::find_user(&self.database, user).await
        })
    }

    /// Inserts the row of a new session. Returns false if the user is blocked, or if the token was issued before the
    /// last logout.
    pub(super) async fn insert_session_row(
        &self,
        session: &UserSession,
        issued: Timestamp,
    ) -> Result<bool> {
        if let PerBackend::Sqlite(_) = self.database.reader() {
            let new_session = NewSession {
                session: session.clone(),
                issued,
            };
            let insert = async |all: &[NewSession]| {
                let inserted = rows::insert_sessions(&self.database, all).await;
                inserted.unwrap_or_default()
            };
            if let Some(inserted) = self.row_inserts.submit(new_session, insert).await {
                return Ok(inserted);
            }
        }
        rows::insert_session(&self.database, session, issued).await
    }
}
