//! Reads and inserts session rows. On SQLite, concurrent calls share one statement. PostgreSQL runs them in parallel
//! and groups the commits itself.
//!
//! Invariant: a session that has begun is on disk. If a shared statement fails, every caller repeats its request alone,
//! so each one gets its own error. The same applies to the second of two sessions that one user begins concurrently.

use std::collections::HashSet;

use futures_util::future::BoxFuture;
use serde::Serialize;
use sqlx::SqlitePool;

use super::Sessions;
use super::model::UserSession;
use super::rows::{self, UserSessionRow};
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::{Database, PerBackend, to_db_integer};
use crate::ids::UserId;

/// As [`rows::find_user`] for several users: one row for each user of a JSON list, in its order.
const SELECT_USERS: &str = "
    SELECT u.blocked_at, COALESCE(u.block_adopted, 0) AS block_adopted, COALESCE(u.revoked_before, 0) AS revoked_before,
           s.device_id, s.status, s.login_at, s.last_seen, s.ip_address
    FROM json_each($1) AS requested
    LEFT JOIN users u ON u.id = requested.value
    LEFT JOIN sessions s ON s.user_id = requested.value
    ORDER BY requested.key";

/// As [`rows::insert_session`] for several sessions: a JSON list of its parameters.
const INSERT_SESSIONS: &str = "
    INSERT INTO sessions (user_id, device_id, status, login_at, last_seen, ip_address)
    SELECT requested.value ->> 0, requested.value ->> 1, requested.value ->> 2, requested.value ->> 3, requested.value ->> 3,
           requested.value ->> 4
    FROM json_each($1) AS requested
    WHERE NOT EXISTS (
        SELECT 1 FROM users u
        WHERE u.id = requested.value ->> 0 AND (u.blocked_at IS NOT NULL OR u.revoked_before >= requested.value ->> 5))
    ON CONFLICT (user_id) DO UPDATE SET
        device_id = excluded.device_id, status = excluded.status, login_at = excluded.login_at,
        last_seen = excluded.last_seen, ip_address = excluded.ip_address
    RETURNING user_id";

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
                    let found = find_users(readers, users).await;
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
                let inserted = insert_sessions(&self.database, all).await;
                inserted.unwrap_or_default()
            };
            if let Some(inserted) = self.row_inserts.submit(new_session, insert).await {
                return Ok(inserted);
            }
        }
        rows::insert_session(&self.database, session, issued).await
    }
}

/// Reads the rows of several users, in their order.
async fn find_users(readers: &SqlitePool, users: &[UserId]) -> Result<Vec<UserSessionRow>> {
    let found = sqlx::query_as(SELECT_USERS)
        .bind(to_json(users))
        .fetch_all(readers);
    Ok(found.await?)
}

/// Inserts several sessions on SQLite in one transaction. Of several sessions of one user only the first is inserted;
/// the result of the others is `None`.
async fn insert_sessions(database: &Database, all: &[NewSession]) -> Result<Vec<Option<bool>>> {
    let mut users = HashSet::new();
    let firsts: Vec<bool> = all
        .iter()
        .map(|new| users.insert(&new.session.user_id))
        .collect();
    let firsts = || all.iter().zip(&firsts);
    let parameters: Vec<_> = firsts()
        .filter(|(_, first)| **first)
        .map(|(NewSession { session, issued }, _)| {
            let UserSession {
                user_id,
                device_id,
                status,
                login_time,
                ip_address,
                ..
            } = session;
            let (login, issued) = (
                to_db_integer(login_time.as_millis()),
                to_db_integer(issued.as_millis()),
            );
            (user_id, device_id, status.name(), login, ip_address, issued)
        })
        .collect();
    let mut tx = database.begin().await?;
    let PerBackend::Sqlite(connection) = tx.connection() else {
        unreachable!("only SQLite inserts sessions in batches")
    };
    let inserted: Vec<String> = sqlx::query_scalar(INSERT_SESSIONS)
        .bind(to_json(&parameters))
        .fetch_all(connection)
        .await?;
    tx.commit().await?;
    let inserted: HashSet<String> = inserted.into_iter().collect();
    let results = firsts().map(|(new, first)| {
        let user = new.session.user_id.as_str();
        first.then(|| inserted.contains(user))
    });
    Ok(results.collect())
}

fn to_json(rows: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(rows).expect("texts and numbers are JSON")
}
