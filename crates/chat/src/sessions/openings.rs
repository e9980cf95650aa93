//! The rows of sessions, which on SQLite are read and written for all who come at the same time. PostgreSQL takes them side by
//! side, and joins their commits by itself.
//!
//! Always true: whoever is told that a session has begun has it on disk. Where it is not known what became of a common write or
//! reading everybody goes alone, and so hears of their own error; so does who begins a second session at the same time.

use futures_util::future::BoxFuture;

use super::Sessions;
use super::rows::{self, UserSessionRow};
use super::session::UserSession;
use crate::context::Timestamp;
use crate::database::Either;
use crate::error::Result;
use crate::ids::UserId;

/// A session that is to begin.
pub(super) struct Opening {
    pub(super) session: UserSession,
    /// When its token was issued.
    pub(super) issued: Timestamp,
}

impl Sessions {
    /// What the rows know of a user.
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

    /// Writes the row of a session that begins. False if the user is blocked, or the token was issued before they logged
    /// out.
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
