//! Rows of blocks and sessions that Parlor has taken over from other services.

use futures_util::future::BoxFuture;

use super::model::UserSession;
use super::rows::{UserSessionRow, execute_for_user, execute_for_user_at};
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::{Database, for_backend, from_db_integer, to_db_integer, write_statement};
use crate::ids::UserId;

/// Takes over the block of another service, unless the user is blocked already.
const ADOPT_BLOCK: &str = "
    INSERT INTO users (id, blocked_at, block_adopted) VALUES ($1, $2, 1)
    ON CONFLICT (id) DO UPDATE SET blocked_at = excluded.blocked_at, block_adopted = 1
        WHERE users.blocked_at IS NULL";

/// Lifts the block of another service. A block that was made in Parlor stays.
const LIFT_ADOPTED_BLOCK: &str = "
    UPDATE users SET blocked_at = NULL, block_adopted = 0 WHERE id = $1 AND block_adopted = 1";

const SELECT_ADOPTED_BLOCKS: &str = "
    SELECT id FROM users WHERE block_adopted = 1 AND id > $1 ORDER BY id LIMIT $2";

const COUNT_ADOPTED_BLOCKS: &str = "SELECT COUNT(*) FROM users WHERE block_adopted = 1";

/// Takes over the session of another service, unless the row has changed since it was read ($7: its `login_at`, -1 for a
/// missing row).
const ADOPT_SESSION: &str = "
    INSERT INTO sessions (user_id, device_id, status, login_at, last_seen, ip_address)
    SELECT requested.id, $2, $3, $4, $5, $6 FROM (SELECT $1 AS id) AS requested
    WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.id = requested.id AND u.blocked_at IS NOT NULL)
    ON CONFLICT (user_id) DO UPDATE SET
        device_id = excluded.device_id, status = excluded.status, login_at = excluded.login_at,
        last_seen = excluded.last_seen, ip_address = excluded.ip_address
        WHERE sessions.login_at = $7";

pub(super) async fn lift_adopted_block(database: &Database, user: &UserId) -> Result<()> {
    execute_for_user(database, LIFT_ADOPTED_BLOCK, user).await
}

pub(super) fn adopt_block<'a>(
    database: &'a Database,
    user: &'a UserId,
    at: Timestamp,
) -> BoxFuture<'a, Result<()>> {
    execute_for_user_at(database, ADOPT_BLOCK, user, at)
}

/// The next users after this one with a block of another service, in the order of their ids.
pub(super) async fn find_adopted_blocks(
    database: &Database,
    after: &str,
    max: i64,
) -> Result<Vec<String>> {
    let users = for_backend!(database.reader(), pool => {
        sqlx::query_scalar(SELECT_ADOPTED_BLOCKS).bind(after).bind(max).fetch_all(pool).await
    });
    Ok(users?)
}

pub(super) async fn count_adopted_blocks(database: &Database) -> Result<u64> {
    let count: i64 = for_backend!(database.reader(), pool => {
        sqlx::query_scalar(COUNT_ADOPTED_BLOCKS).fetch_one(pool).await
    })?;
    Ok(from_db_integer(count))
}

/// Takes over the session of another service. Does nothing if the row has changed since it was read.
pub(super) fn adopt_session<'a>(
    database: &'a Database,
    session: &'a UserSession,
    read: &'a UserSessionRow,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        write_statement!(database, c => {
            sqlx::query(ADOPT_SESSION)
                .bind(session.user_id.as_str())
                .bind(session.device_id.as_str())
                .bind(session.status.name())
                .bind(to_db_integer(session.login_time.as_millis()))
                .bind(to_db_integer(session.last_seen.as_millis()))
                .bind(&session.ip_address)
                .bind(read.login_at())
                .execute(c)
                .await?;
        });
        Ok(())
    })
}
