//! Rows of sessions, blocks and revocations.
//!
//! Invariant: statements that a session check needs rarely are boxed, so that they do not enlarge the future of every
//! check.

use futures_util::future::BoxFuture;
use sqlx::FromRow;

use super::model::{SessionStatus, UserSession};
use super::reconcile::RowChange;
use super::row_changes::ChangedSession;
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::{Database, for_backend, from_db_integer, to_db_integer, write_statement};
use crate::ids::{DeviceId, UserId};
use crate::outbox::{self, OutboxEntry};

/// Block, revocation and session of a user. Always returns one row, also for an unknown user.
const SELECT_USER: &str = "
    SELECT u.blocked_at, COALESCE(u.block_adopted, 0) AS block_adopted, COALESCE(u.revoked_before, 0) AS revoked_before,
           s.device_id, s.status, s.login_at, s.last_seen, s.ip_address
    FROM (SELECT $1 AS id) AS requested
    LEFT JOIN users u ON u.id = requested.id
    LEFT JOIN sessions s ON s.user_id = requested.id";

/// Inserts a session, unless the user is blocked or the token is revoked.
const INSERT_SESSION: &str = "
    INSERT INTO sessions (user_id, device_id, status, login_at, last_seen, ip_address)
    SELECT requested.id, $2, $3, $4, $4, $5 FROM (SELECT $1 AS id) AS requested
    WHERE NOT EXISTS (
        SELECT 1 FROM users u
        WHERE u.id = requested.id AND (u.blocked_at IS NOT NULL OR u.revoked_before >= $6))
    ON CONFLICT (user_id) DO UPDATE SET
        device_id = excluded.device_id, status = excluded.status, login_at = excluded.login_at,
        last_seen = excluded.last_seen, ip_address = excluded.ip_address";

const UPDATE_LAST_SEEN: &str = "
    UPDATE sessions SET last_seen = $2 WHERE user_id = $1 AND last_seen < $2";

const UPSERT_REVOCATION: &str = "
    INSERT INTO users (id, revoked_before) VALUES ($1, $2)
    ON CONFLICT (id) DO UPDATE SET revoked_before = excluded.revoked_before
        WHERE users.revoked_before < excluded.revoked_before";

const DELETE_SESSION: &str = "DELETE FROM sessions WHERE user_id = $1";

/// Deletes a session that was ended in the store. A session that began later has another login time and stays.
const DELETE_SESSION_BEGUN_AT: &str = "DELETE FROM sessions WHERE user_id = $1 AND login_at = $2";

const DELETE_VISITORS: &str = "
    DELETE FROM sessions WHERE user_id IN (
        SELECT user_id FROM sessions WHERE status = 'anonymous' AND last_seen < $1 ORDER BY last_seen LIMIT $2)
    AND status = 'anonymous' AND last_seen < $1";

const UPSERT_BLOCK: &str = "
    INSERT INTO users (id, blocked_at, blocked_reason) VALUES ($1, $2, $3)
    ON CONFLICT (id) DO UPDATE SET
        blocked_at = COALESCE(users.blocked_at, excluded.blocked_at),
        blocked_reason = excluded.blocked_reason, block_adopted = 0";

const CLEAR_BLOCK: &str = "
    UPDATE users SET blocked_at = NULL, blocked_reason = NULL, block_adopted = 0 WHERE id = $1";

/// Block, revocation and session of a user.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub(super) struct UserSessionRow {
    blocked_at: Option<i64>,
    block_adopted: i64,
    revoked_before: i64,
    device_id: Option<String>,
    status: Option<String>,
    login_at: Option<i64>,
    last_seen: Option<i64>,
    ip_address: Option<String>,
}

impl UserSessionRow {
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_at.is_some()
    }

    /// Start of the block, if there is one.
    pub(super) fn blocked_at(&self) -> Option<Timestamp> {
        self.blocked_at.map(from_db_integer).map(Timestamp)
    }

    /// True if another service has blocked the user.
    pub(super) fn is_block_adopted(&self) -> bool {
        self.block_adopted != 0
    }

    /// Time at which the session of the row began, for a statement that replaces this session only.
    pub(super) fn login_at(&self) -> i64 {
        self.login_at.unwrap_or(-1)
    }

    /// Device of the session, which may have expired.
    pub(super) fn device(&self) -> Option<DeviceId> {
        DeviceId::new(self.device_id.as_ref()?).ok()
    }

    /// True if a token that was issued at this time is revoked.
    pub(super) fn revokes(&self, issued: Timestamp) -> bool {
        to_unix_seconds(issued.as_millis()) <= self.revoked_before_seconds()
    }

    /// Tokens issued up to this time are revoked.
    pub(super) fn revoked_before(&self) -> Timestamp {
        Timestamp(from_db_integer(self.revoked_before))
    }

    /// Tokens issued up to this time are revoked, in Unix seconds.
    pub(super) fn revoked_before_seconds(&self) -> u64 {
        to_unix_seconds(from_db_integer(self.revoked_before))
    }

    /// The session without the block, even if it has expired.
    pub(super) fn session(&self, user: &UserId) -> Option<UserSession> {
        // A session whose login time is not after the last logout ended with that logout.
        let began_after_logout =
            |login: &i64| *login > self.revoked_before || self.revoked_before == 0;
        let login = self.login_at.filter(began_after_logout)?;
        Some(UserSession {
            user_id: user.clone(),
            device_id: self.device()?,
            status: SessionStatus::parse(self.status.as_ref()?)?,
            login_time: Timestamp(from_db_integer(login)),
            last_seen: Timestamp(from_db_integer(self.last_seen?)),
            ip_address: self.ip_address.clone().unwrap_or_default(),
        })
    }

    /// The session, if there is one that was used since `oldest`. A blocked user always has one.
    pub(super) fn to_session(&self, user: &UserId, oldest: Timestamp) -> Option<UserSession> {
        let session = self.session(user);
        let session = session.filter(|session| session.last_seen >= oldest);
        let Some(since) = self.blocked_at() else {
            return session;
        };
        Some(UserSession {
            status: SessionStatus::Blocked,
            ..session.unwrap_or_else(|| UserSession::blocked_without_session(user, since))
        })
    }
}

pub(super) fn find_user<'a>(
    database: &'a Database,
    user: &'a UserId,
) -> BoxFuture<'a, Result<UserSessionRow>> {
    Box::pin(async move {
        let found = for_backend!(database.reader(), pool => {
            sqlx::query_as(SELECT_USER).bind(user.as_str()).fetch_one(pool).await
        });
        Ok(found?)
    })
}

/// Inserts a session. Returns false if the user is blocked, or if the token was issued before the last logout.
pub(super) fn insert_session<'a>(
    database: &'a Database,
    session: &'a UserSession,
    issued: Timestamp,
) -> BoxFuture<'a, Result<bool>> {
    Box::pin(async move {
        let inserted = write_statement!(database, c => {
            sqlx::query(INSERT_SESSION)
                .bind(session.user_id.as_str())
                .bind(session.device_id.as_str())
                .bind(session.status.name())
                .bind(to_db_integer(session.login_time.as_millis()))
                .bind(&session.ip_address)
                .bind(to_db_integer(issued.as_millis()))
                .execute(c)
                .await?
                .rows_affected()
        });
        Ok(inserted > 0)
    })
}

pub(super) fn update_last_seen<'a>(
    database: &'a Database,
    user: &'a UserId,
    at: Timestamp,
) -> BoxFuture<'a, Result<()>> {
    execute_for_user_at(database, UPDATE_LAST_SEEN, user, at)
}

/// Deletes the session, and revokes tokens that were issued up to `revoked`. Returns the outbox entry.
pub(super) async fn revoke_and_delete(
    database: &Database,
    user: &UserId,
    revoked: Timestamp,
) -> Result<OutboxEntry> {
    let mut tx = database.begin().await?;
    for_backend!(tx.connection(), c => {
        sqlx::query(UPSERT_REVOCATION).bind(user.as_str()).bind(to_db_integer(revoked.as_millis())).execute(&mut *c).await?;
        sqlx::query(DELETE_SESSION).bind(user.as_str()).execute(c).await?;
    });
    let changed = ChangedSession::new(user, RowChange::Logout);
    let entry = outbox::insert(&mut tx, revoked, &changed).await?;
    tx.commit().await?;
    Ok(entry)
}

/// Deletes a session that another service has ended in the store.
pub(super) fn delete_session_begun_at<'a>(
    database: &'a Database,
    user: &'a UserId,
    login: Timestamp,
) -> BoxFuture<'a, Result<()>> {
    execute_for_user_at(database, DELETE_SESSION_BEGUN_AT, user, login)
}

/// Deletes sessions of visitors that were last used before this time, the oldest first. Returns their number.
pub(super) async fn delete_visitors(
    database: &Database,
    unused_since: Timestamp,
    limit: u32,
) -> Result<u64> {
    let deleted = write_statement!(database, c => {
        sqlx::query(DELETE_VISITORS)
            .bind(to_db_integer(unused_since.as_millis()))
            .bind(i64::from(limit))
            .execute(c)
            .await?
            .rows_affected()
    });
    Ok(deleted)
}

/// Runs a statement whose parameters are a user and a time.
pub(super) fn execute_for_user_at<'a>(
    database: &'a Database,
    change: &'static str,
    user: &'a UserId,
    at: Timestamp,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        write_statement!(database, c => {
            sqlx::query(change).bind(user.as_str()).bind(to_db_integer(at.as_millis())).execute(c).await?;
        });
        Ok(())
    })
}

/// Blocks a user. Returns the outbox entry.
pub(super) async fn block(
    database: &Database,
    user: &UserId,
    at: Timestamp,
    reason: Option<&str>,
) -> Result<OutboxEntry> {
    let mut tx = database.begin().await?;
    for_backend!(tx.connection(), c => {
        let block = sqlx::query(UPSERT_BLOCK).bind(user.as_str()).bind(to_db_integer(at.as_millis())).bind(reason);
        block.execute(c).await?;
    });
    let changed = ChangedSession::new(user, RowChange::Other);
    let entry = outbox::insert(&mut tx, at, &changed).await?;
    tx.commit().await?;
    Ok(entry)
}

/// Lifts the block of a user. Returns the outbox entry.
pub(super) async fn unblock(
    database: &Database,
    user: &UserId,
    now: Timestamp,
    change: RowChange,
) -> Result<OutboxEntry> {
    let mut tx = database.begin().await?;
    for_backend!(tx.connection(), c => {
        sqlx::query(CLEAR_BLOCK).bind(user.as_str()).execute(c).await?;
    });
    let entry = outbox::insert(&mut tx, now, &ChangedSession::new(user, change)).await?;
    tx.commit().await?;
    Ok(entry)
}

/// Runs a statement whose parameter is a user.
pub(super) async fn execute_for_user(
    database: &Database,
    change: &'static str,
    user: &UserId,
) -> Result<()> {
    write_statement!(database, c => {
        sqlx::query(change).bind(user.as_str()).execute(c).await?;
    });
    Ok(())
}

/// Converts milliseconds to seconds, the unit of times in tokens.
pub(super) fn to_unix_seconds(ms: u64) -> u64 {
    ms / 1_000
}
