//! Sessions, blocks and revocations as rows: what outlives the store.
//!
//! Always true: what a check of a session may need, but hardly ever does, is boxed, so that not every call has room for it.

use std::collections::HashSet;

use futures_util::future::BoxFuture;
use serde::Serialize;
use sqlx::{FromRow, SqlitePool};

use super::openings::Opening;
use super::session::{Session, Status};
use crate::context::Moment;
use crate::database::{Database, Either, change, number, on, unsigned};
use crate::error::Result;
use crate::ids::{DeviceId, UserId};

/// Everything the rows know of a user. One row, whether or not there are any.
const FIND: &str = "
    SELECT u.id AS known, u.blocked_at, COALESCE(u.revoked_before, 0) AS revoked_before,
           s.device_id, s.status, s.login_at, s.last_seen, s.ip_address
    FROM (SELECT $1 AS id) AS asked
    LEFT JOIN users u ON u.id = asked.id
    LEFT JOIN sessions s ON s.user_id = asked.id";

/// The same for some at once, on SQLite: a row for each of a JSON list of users, in its order.
const FIND_ALL: &str = "
    SELECT u.id AS known, u.blocked_at, COALESCE(u.revoked_before, 0) AS revoked_before,
           s.device_id, s.status, s.login_at, s.last_seen, s.ip_address
    FROM json_each($1) AS asked
    LEFT JOIN users u ON u.id = asked.value
    LEFT JOIN sessions s ON s.user_id = asked.value
    ORDER BY asked.key";

/// A session begins, unless the user is blocked or the token was revoked.
const OPEN: &str = "
    INSERT INTO sessions (user_id, device_id, status, login_at, last_seen, ip_address)
    SELECT asked.id, $2, $3, $4, $4, $5 FROM (SELECT $1 AS id) AS asked
    WHERE NOT EXISTS (
        SELECT 1 FROM users u
        WHERE u.id = asked.id AND (u.blocked_at IS NOT NULL OR u.revoked_before >= $6))
    ON CONFLICT (user_id) DO UPDATE SET
        device_id = excluded.device_id, status = excluded.status, login_at = excluded.login_at,
        last_seen = excluded.last_seen, ip_address = excluded.ip_address";

/// The same for some at once, on SQLite: a JSON list of what [`OPEN`] is given.
const OPEN_ALL: &str = "
    INSERT INTO sessions (user_id, device_id, status, login_at, last_seen, ip_address)
    SELECT asked.value ->> 0, asked.value ->> 1, asked.value ->> 2, asked.value ->> 3, asked.value ->> 3,
           asked.value ->> 4
    FROM json_each($1) AS asked
    WHERE NOT EXISTS (
        SELECT 1 FROM users u
        WHERE u.id = asked.value ->> 0 AND (u.blocked_at IS NOT NULL OR u.revoked_before >= asked.value ->> 5))
    ON CONFLICT (user_id) DO UPDATE SET
        device_id = excluded.device_id, status = excluded.status, login_at = excluded.login_at,
        last_seen = excluded.last_seen, ip_address = excluded.ip_address
    RETURNING user_id";

const SEEN: &str = "
    UPDATE sessions SET last_seen = $2 WHERE user_id = $1 AND last_seen < $2";

const REVOKE: &str = "
    INSERT INTO users (id, revoked_before) VALUES ($1, $2)
    ON CONFLICT (id) DO UPDATE SET revoked_before = excluded.revoked_before
        WHERE users.revoked_before < excluded.revoked_before";

const END: &str = "DELETE FROM sessions WHERE user_id = $1";

/// One that ended by itself; one that began meanwhile stays.
const FORGET: &str = "DELETE FROM sessions WHERE user_id = $1 AND login_at = $2";

const BLOCK: &str = "
    INSERT INTO users (id, blocked_at, blocked_reason) VALUES ($1, $2, $3)
    ON CONFLICT (id) DO UPDATE SET
        blocked_at = COALESCE(users.blocked_at, excluded.blocked_at),
        blocked_reason = excluded.blocked_reason";

const UNBLOCK: &str = "UPDATE users SET blocked_at = NULL, blocked_reason = NULL WHERE id = $1";

/// What the rows know of a user.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub(super) struct UserRow {
    known: Option<String>,
    blocked_at: Option<i64>,
    revoked_before: i64,
    device_id: Option<String>,
    status: Option<String>,
    login_at: Option<i64>,
    last_seen: Option<i64>,
    ip_address: Option<String>,
}

impl UserRow {
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_at.is_some()
    }

    /// Whether the user was ever blocked or logged out.
    pub(super) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Whether there is a session, however old.
    pub(super) fn has_session(&self) -> bool {
        self.device_id.is_some()
    }

    /// Tokens issued up to then open no session, in unix seconds.
    pub(super) fn revoked(&self) -> u64 {
        seconds(unsigned(self.revoked_before))
    }

    /// The session, if there is one that is not older than `oldest`. A blocked user has one in any case.
    pub(super) fn session(&self, user: &UserId, oldest: Moment) -> Option<Session> {
        let seen = self
            .last_seen
            .map(unsigned)
            .filter(|seen| *seen >= oldest.ms());
        // One that began while the user logged out did not outlive it.
        let outlived = |login: &i64| *login > self.revoked_before || !self.is_known();
        let login = self.login_at.filter(outlived);
        let found = seen.and_then(|seen| {
            Some(Session {
                user_id: user.clone(),
                device_id: DeviceId::new(self.device_id.as_ref()?).ok()?,
                status: Status::named(self.status.as_ref()?)?,
                login_time: Moment(unsigned(login?)),
                last_seen: Moment(seen),
                ip_address: self.ip_address.clone().unwrap_or_default(),
            })
        });
        if !self.is_blocked() {
            return found;
        }
        let since = Moment(unsigned(self.blocked_at.unwrap_or_default()));
        let blocked = found.unwrap_or_else(|| Session::unknown(user, since));
        Some(Session {
            status: Status::Blocked,
            ..blocked
        })
    }
}

pub(super) fn find<'a>(database: &'a Database, user: &'a UserId) -> BoxFuture<'a, Result<UserRow>> {
    Box::pin(async move {
        let found = on!(database.reader(), pool => {
            sqlx::query_as(FIND).bind(user.as_str()).fetch_one(pool).await
        });
        Ok(found?)
    })
}

/// What is known of some users, in their order.
pub(super) async fn find_all(readers: &SqlitePool, users: &[UserId]) -> Result<Vec<UserRow>> {
    let found = sqlx::query_as(FIND_ALL)
        .bind(json(users))
        .fetch_all(readers);
    Ok(found.await?)
}

/// False if the user is blocked, or the token was issued before they logged out.
pub(super) fn open<'a>(
    database: &'a Database,
    session: &'a Session,
    issued: Moment,
) -> BoxFuture<'a, Result<bool>> {
    Box::pin(async move {
        let opened = change!(database, c => {
            sqlx::query(OPEN)
                .bind(session.user_id.as_str())
                .bind(session.device_id.as_str())
                .bind(session.status.name())
                .bind(number(session.login_time.ms()))
                .bind(&session.ip_address)
                .bind(number(issued.ms()))
                .execute(c)
                .await?
                .rows_affected()
        });
        Ok(opened > 0)
    })
}

/// The same for some at once, on SQLite: all of them are written, or none. Of one user only the first is, and of the others
/// nothing is said.
pub(super) async fn open_all(database: &Database, all: &[Opening]) -> Result<Vec<Option<bool>>> {
    let mut users = HashSet::new();
    let firsts: Vec<bool> = all
        .iter()
        .map(|opening| users.insert(&opening.session.user_id))
        .collect();
    let firsts = || all.iter().zip(&firsts);
    let asked: Vec<_> = firsts()
        .filter(|(_, first)| **first)
        .map(|(Opening { session, issued }, _)| {
            let Session {
                user_id,
                device_id,
                status,
                login_time,
                ip_address,
                ..
            } = session;
            let (login, issued) = (number(login_time.ms()), number(issued.ms()));
            (user_id, device_id, status.name(), login, ip_address, issued)
        })
        .collect();
    let mut tx = database.begin().await?;
    let Either::Sqlite(connection) = tx.connection() else {
        unreachable!("sessions are opened together on SQLite alone")
    };
    let opened: Vec<String> = sqlx::query_scalar(OPEN_ALL)
        .bind(json(&asked))
        .fetch_all(connection)
        .await?;
    tx.commit().await?;
    let opened: HashSet<String> = opened.into_iter().collect();
    let answers = firsts().map(|(opening, first)| {
        let user = opening.session.user_id.as_str();
        first.then(|| opened.contains(user))
    });
    Ok(answers.collect())
}

fn json(rows: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(rows).expect("texts and numbers are JSON")
}

pub(super) fn seen<'a>(
    database: &'a Database,
    user: &'a UserId,
    at: Moment,
) -> BoxFuture<'a, Result<()>> {
    with_moment(database, SEEN, user, at)
}

/// Ends the session; tokens issued up to `revoked` open no other.
pub(super) async fn end(database: &Database, user: &UserId, revoked: Moment) -> Result<()> {
    let mut tx = database.begin().await?;
    on!(tx.connection(), c => {
        sqlx::query(REVOKE).bind(user.as_str()).bind(number(revoked.ms())).execute(&mut *c).await?;
        sqlx::query(END).bind(user.as_str()).execute(c).await?;
    });
    Ok(tx.commit().await?)
}

/// Another service has ended this session in the store.
pub(super) fn forget<'a>(
    database: &'a Database,
    user: &'a UserId,
    login: Moment,
) -> BoxFuture<'a, Result<()>> {
    with_moment(database, FORGET, user, login)
}

/// A change of one row by its user and a moment.
fn with_moment<'a>(
    database: &'a Database,
    change: &'static str,
    user: &'a UserId,
    at: Moment,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        change!(database, c => {
            sqlx::query(change).bind(user.as_str()).bind(number(at.ms())).execute(c).await?;
        });
        Ok(())
    })
}

pub(super) async fn block(
    database: &Database,
    user: &UserId,
    at: Moment,
    reason: Option<&str>,
) -> Result<()> {
    change!(database, c => {
        let block = sqlx::query(BLOCK).bind(user.as_str()).bind(number(at.ms())).bind(reason);
        block.execute(c).await?;
    });
    Ok(())
}

pub(super) async fn unblock(database: &Database, user: &UserId) -> Result<()> {
    change!(database, c => {
        sqlx::query(UNBLOCK).bind(user.as_str()).execute(c).await?;
    });
    Ok(())
}

/// Whole seconds of a time: what a token can say.
pub(super) fn seconds(ms: u64) -> u64 {
    ms / 1_000
}
